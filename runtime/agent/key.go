package agent

import (
	"regexp"
	"strconv"
	"strings"
)

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// child returns the key of an entry of a map: provider.baseUrl, or datasets["a.b"] for a name that
// contains other characters.
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

// parent is the inverse of child and element. A quoted name that contains dots is split at them. No
// value has such a partial key, and further calls return the actual parent.
func parent(key string) string { return key[:max(0, strings.LastIndexAny(key, ".["))] }
