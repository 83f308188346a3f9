package filesafe

import "strings"

// kind is the action for a key.
type kind byte

const (
	listDir   kind = iota
	enterDir       // list its entries
	listOther      // anything but a directory
)

// key is one step in a directory. The steps of all levels, in order, produce whole paths in byte
// order with only the siblings on the way in memory: a directory is listed at its name, and entered
// at its name with "/". Siblings may come between the two (a, a-b, a/c).
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

// at returns the byte at n of the key's path, where n is at most its length. No name contains "/".
func (k key) at(n int) int {
	switch {
	case n < len(k.name):
		return int(k.name[n])
	case k.kind == enterDir:
		return '/'
	}
	return -1
}
