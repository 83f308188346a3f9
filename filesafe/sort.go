package filesafe

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"
)

// scratch is what a listing needs while it reads a directory, and what the next one can use.
type scratch struct {
	buf          [32 << 10]byte // for readDir
	keys         []key          // in no order; empty between two directories
	ranks, spare []rank
}

// rank stands for a key while it is sorted: it has no pointer, which the collector would want to know of at each move.
type rank struct {
	head uint64 // what the key is sorted by first
	at   uint32
}

// scratchKeys is up to how many keys the memory for them is kept.
const scratchKeys = 1 << 14

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// empty lets go of the names, and of memory for more keys than most directories have.
func (s *scratch) empty() {
	clear(s.keys)
	s.keys = s.keys[:0]
	if cap(s.keys) > scratchKeys {
		s.keys, s.ranks, s.spare = nil, nil, nil
	}
}

// sorted answers the first keys, at most limit of them, in their order. It sorts by numbers as far as it can: the bytes
// that come after what all names begin with, as numbered files do.
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

// rank fills ranks, in the order of keys, and answers in which bits their heads differ.
func (s *scratch) rank(half half) (differ uint64) {
	s.ranks = slices.Grow(s.ranks[:0], len(s.keys))[:len(s.keys)]
	common := s.common()
	for i := range s.ranks {
		k := &s.keys[i]
		head := k.headAt(common)
		if half == both {
			head = uint64(k.kind)<<56 | head>>8
		}
		s.ranks[i] = rank{head, uint32(i)} // of which there are at most 2*maxKeys
		differ |= head ^ s.ranks[0].head
	}
	return differ
}

// common is how many bytes all names begin with.
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

// radix sorts ranks by the bytes of their heads, the last one first, without those that are the same in all.
func (s *scratch) radix(differ uint64) {
	s.spare = slices.Grow(s.spare[:0], len(s.ranks))[:len(s.ranks)]
	for shift := 0; shift < 64; shift += 8 {
		if differ>>shift&0xff == 0 {
			continue
		}
		var next [256]int // where the next rank with that byte goes
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

// headAt is eight bytes of the key's path as a number. No name has a null byte, which stands for its end here.
func (k *key) headAt(from int) uint64 {
	var b [8]byte
	if n := copy(b[:], k.name[from:]); n < len(b) && k.kind == enterDir {
		b[n] = '/'
	}
	return binary.BigEndian.Uint64(b[:])
}
