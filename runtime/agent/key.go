package agent

import (
	"regexp"
	"strconv"
	"strings"
)

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// child is the key of a map's entry: provider.baseUrl, or datasets["a.b"] for a name that would
// not be told apart.
func child(parent, name string) string {
	switch {
	case !plainKey.MatchString(name):
		return parent + "[" + strconv.Quote(name) + "]"
	case parent == "":
		return name
	}
	return parent + "." + name
}

func element(parent string, i int) string { return parent + "[" + strconv.Itoa(i) + "]" }

// parent is the inverse of child and element. A quoted name with dots in it is cut at them: the
// pieces are keys of nothing, and the next call goes on to the parent that is meant.
func parent(key string) string { return key[:max(0, strings.LastIndexAny(key, ".["))] }
