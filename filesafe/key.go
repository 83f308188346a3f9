package filesafe

import (
	"encoding/binary"
	"slices"
	"strings"
)

// kind is what is done at a key.
type kind byte

const (
	tellDir   kind = iota
	enterDir       // go through what is in it
	tellOther      // whatever is no directory
)

// key is one step in a directory. The steps of all levels, in their order, give whole paths in byte order, with no more in
// memory than the siblings on the way: a directory is told at its name, and gone through at its name with "/", between
// which siblings may come (a, a-b, a/c).
type key struct {
	name string
	kind kind
	head uint64 // what it is sorted by first, while it is
}

func (l *lister) compare(a, b key) int {
	if l.half == both {
		return compareFlat(a, b)
	}
	return comparePaths(a, b)
}

func compareFlat(a, b key) int {
	if a.kind != b.kind {
		return int(a.kind) - int(b.kind)
	}
	return strings.Compare(a.name, b.name)
}

func comparePaths(a, b key) int {
	n := min(len(a.name), len(b.name))
	if c := strings.Compare(a.name[:n], b.name[:n]); c != 0 {
		return c
	}
	return a.at(n) - b.at(n)
}

// at is the byte at n of the key's path, of which n is at most the end; no name holds "/".
func (k key) at(n int) int {
	switch {
	case n < len(k.name):
		return int(k.name[n])
	case k.kind == enterDir:
		return '/'
	}
	return -1
}

// sortKeys sorts by numbers as far as it can: the bytes that come after what all names begin with, as numbered files do.
func sortKeys(keys []key, half half) {
	if len(keys) < 2 {
		return
	}
	common := len(keys[0].name)
	for _, k := range keys[1:] {
		n := 0
		for common = min(common, len(k.name)); n < common && k.name[n] == keys[0].name[n]; {
			n++
		}
		common = n
	}
	compare := comparePaths
	if half == both {
		compare = compareFlat
	}
	for i := range keys {
		k := &keys[i]
		k.head = k.headAt(common)
		if half == both {
			k.head = uint64(k.kind)<<56 | k.head>>8
		}
	}
	slices.SortFunc(keys, func(a, b key) int {
		switch {
		case a.head < b.head:
			return -1
		case a.head > b.head:
			return 1
		}
		return compare(a, b)
	})
}

// headAt is eight bytes of the key's path as a number. No name has a null byte, which stands for its end here.
func (k key) headAt(from int) uint64 {
	var b [8]byte
	if n := copy(b[:], k.name[from:]); n < len(b) && k.kind == enterDir {
		b[n] = '/'
	}
	return binary.BigEndian.Uint64(b[:])
}
