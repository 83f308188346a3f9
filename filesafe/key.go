package filesafe

import "strings"

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
}

func (h half) compare(a, b key) int {
	if h == both {
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
