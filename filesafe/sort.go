package filesafe

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"
)

// scratch is the memory for reading a directory. It is reused by the next listing.
type scratch struct {
	buf          [32 << 10]byte // for readDir
	keys         []key          // unsorted; empty between two directories
	ranks, spare []rank
}

// rank represents a key during sorting. It contains no pointers, because moving them would require
// write barriers.
type rank struct {
	head uint64 // the first criterion
	at   uint32
}

// scratchKeys is the largest number of keys whose memory is reused.
const scratchKeys = 1 << 14

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// empty releases the names, and the memory of unusually large directories.
func (s *scratch) empty() {
	clear(s.keys)
	s.keys = s.keys[:0]
	if cap(s.keys) > scratchKeys {
		s.keys, s.ranks, s.spare = nil, nil, nil
	}
}

// sorted returns the first keys, at most limit, in order. It sorts by numbers if possible: the
// bytes after the common prefix of all names, as in numbered files.
func (s *scratch) sorted(half half, limit int) []key {
	differ := s.rank(half)
	if len(s.ranks) < 256 {
		slices.SortFunc(s.ranks, func(a, b rank) int { return cmp.Compare(a.head, b.head) })
	} else {
		s.radix(differ)
	}
	byKey := func(a, b rank) int { return half.compare(s.keys[a.at], s.keys[b.at]) }
	for from, to := 0, 1; to <= len(s.ranks); to++ {
		if to < len(s.ranks) && s.ranks[to].head == s.ranks[from].head {
			continue
		}
		if to-from > 1 {
			slices.SortFunc(s.ranks[from:to], byKey)
		}
		from = to
	}
	keys := make([]key, min(limit, len(s.ranks)))
	for i := range keys {
		keys[i] = s.keys[s.ranks[i].at]
	}
	return keys
}

// rank fills ranks in the order of keys and returns the bits in which their heads differ.
func (s *scratch) rank(half half) (differ uint64) {
	s.ranks = slices.Grow(s.ranks[:0], len(s.keys))[:len(s.keys)]
	common := s.common()
	for i := range s.ranks {
		k := &s.keys[i]
		head := k.headAt(common)
		if half == both {
			head = uint64(k.kind)<<56 | head>>8
		}
		s.ranks[i] = rank{head, uint32(i)} // there are at most 2*maxKeys
		differ |= head ^ s.ranks[0].head
	}
	return differ
}

// common returns the length of the common prefix of all names.
func (s *scratch) common() int {
	if len(s.keys) == 0 {
		return 0
	}
	first := s.keys[0].name
	common := len(first)
	for i := range s.keys {
		name := s.keys[i].name
		n := 0
		for common = min(common, len(name)); n < common && name[n] == first[n]; {
			n++
		}
		common = n
	}
	return common
}

// radix sorts ranks by the bytes of their heads, starting with the last one. It skips bytes that
// are equal in all heads.
func (s *scratch) radix(differ uint64) {
	s.spare = slices.Grow(s.spare[:0], len(s.ranks))[:len(s.ranks)]
	for shift := 0; shift < 64; shift += 8 {
		if differ>>shift&0xff == 0 {
			continue
		}
		var next [256]int // the position of the next rank with that byte
		for i := range s.ranks {
			next[s.ranks[i].head>>shift&0xff]++
		}
		sum := 0
		for b, count := range next {
			next[b], sum = sum, sum+count
		}
		for _, r := range s.ranks {
			b := r.head >> shift & 0xff
			s.spare[next[b]] = r
			next[b]++
		}
		s.ranks, s.spare = s.spare, s.ranks
	}
}

// headAt returns eight bytes of the key's path as a number. Names contain no null byte, which marks
// their end.
func (k *key) headAt(from int) uint64 {
	var b [8]byte
	if n := copy(b[:], k.name[from:]); n < len(b) && k.kind == enterDir {
		b[n] = '/'
	}
	return binary.BigEndian.Uint64(b[:])
}
