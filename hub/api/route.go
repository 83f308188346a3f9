package api

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/julienschmidt/httprouter"

	"github.com/seed93082962/agenthost/rbac"
)

// Access is who may call a route that has no Group.
type Access uint8

// What a route without a Group says. The zero Access is for routes that have one.
const (
	Open     Access = iota + 1 // nobody is asked for credentials
	SignedIn                   // any role
)

// Route is one method at one path, and who may call it. Every GET answers HEAD too.
type Route struct {
	Method string
	Path   string // "/users/:id": a segment after a colon is a parameter, for r.PathValue; a word goes before a parameter

	Group  rbac.Group // whose roles may call it
	Access Access     // where there is no group

	Category    string // the audit category of a refusal. Defaults to "auth".
	BodyLimit   int64  // bytes. Defaults to 1 MiB.
	Secret      bool   // a path parameter is a secret: the access log shows Path
	Quiet       bool   // probes call it every few seconds: the access log shows it at debug level
	Hidden      bool   // Allow does not name it: it answers 404, where the path has other methods
	NoChallenge bool   // no WWW-Authenticate in a 401: the route takes another credential than a bearer token

	// Handle answers the request, or returns an error and has written nothing. Where an answer that began cannot be
	// ended, an error cuts the connection, so that half an answer does not look whole.
	Handle func(w http.ResponseWriter, r *http.Request) error
}

// pattern is a route for the router. httprouter takes no word beside a parameter; so where one route of a method has a
// parameter, all others that are the same up to there get one too, and what their word was is compared afterwards.
type pattern struct {
	*Route
	segments []string // of Path
	params   []param
	words    []param // segments that the router takes for parameters, and are words
}

type param struct {
	name  string
	index int // among the segments that the router takes for parameters
}

func newPattern(route Route) (*pattern, error) {
	fault := func(text string) (*pattern, error) {
		return nil, fmt.Errorf("route %s %s: %s", route.Method, route.Path, text)
	}
	methods := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}
	switch {
	case !slices.Contains(methods, route.Method):
		return fault("the method is none of " + strings.Join(methods, ", "))
	case !strings.HasPrefix(route.Path, "/"):
		return fault("the path does not begin with /")
	case route.Group.IsZero() && route.Access == 0:
		return fault("it does not say who may call it: give it a Group or an Access")
	case !route.Group.IsZero() && route.Access != 0:
		return fault("it has both a Group and an Access")
	case route.Access > SignedIn:
		return fault("unknown Access")
	case route.Handle == nil:
		return fault("it has no Handle")
	case route.BodyLimit < 0:
		return fault("BodyLimit is negative")
	}
	p := &pattern{Route: &route, segments: split(route.Path)}
	names := map[string]bool{}
	for _, segment := range p.segments {
		name, isParam := strings.CutPrefix(segment, ":")
		switch {
		case segment == "":
			return fault("a segment is empty")
		case strings.ContainsAny(name, ":*%?#") || isParam && name == "":
			return fault(fmt.Sprintf("segment %q is neither a word nor :name", segment))
		case isParam && names[name]:
			return fault("two parameters are named " + name)
		}
		names[name] = names[name] || isParam
	}
	if route.Category == "" {
		route.Category = "auth"
	}
	if route.BodyLimit == 0 {
		route.BodyLimit = defaultBodyLimit
	}
	return p, nil
}

// split takes a path that begins with a slash. The root has no segments.
func split(path string) []string {
	if path == "/" {
		return nil
	}
	return strings.Split(path[1:], "/")
}

// byRouterPath groups the patterns of one method by the path under which the router knows them, those with words before
// those with parameters.
func byRouterPath(patterns []*pattern) (map[string][]*pattern, error) {
	paths := make([]string, len(patterns)) // as far as they are made
	most := 0
	for i, p := range patterns {
		most = max(most, len(p.segments))
		for _, q := range patterns[:i] {
			if slices.EqualFunc(p.segments, q.segments, func(a, b string) bool { return a == b || isParam(a) && isParam(b) }) {
				return nil, fmt.Errorf("routes %s %s and %s: they take the same paths", p.Method, q.Path, p.Path)
			}
		}
	}
	for at := range most {
		hasParam := map[string]bool{}
		for i, p := range patterns {
			if at < len(p.segments) && isParam(p.segments[at]) {
				hasParam[paths[i]] = true
			}
		}
		for i, p := range patterns {
			switch {
			case at >= len(p.segments):
			case hasParam[paths[i]]:
				index := strings.Count(paths[i], ":")
				if name := p.segments[at]; isParam(name) {
					p.params = append(p.params, param{name[1:], index})
				} else {
					p.words = append(p.words, param{name, index})
				}
				paths[i] += fmt.Sprintf("/:%d", at)
			default:
				paths[i] += "/" + p.segments[at]
			}
		}
	}
	groups := map[string][]*pattern{}
	for i, p := range patterns {
		path := cmp.Or(paths[i], "/")
		groups[path] = append(groups[path], p)
	}
	for _, group := range groups {
		slices.SortFunc(group, func(a, b *pattern) int {
			// At the first segment where one has a word and the other a parameter, the word wins.
			return slices.CompareFunc(a.segments, b.segments, func(x, y string) int { return cmp.Compare(rank(x), rank(y)) })
		})
	}
	return groups, nil
}

func isParam(segment string) bool { return strings.HasPrefix(segment, ":") }

func rank(segment string) int {
	if isParam(segment) {
		return 1
	}
	return 0
}

// takes reports whether the words of p are what stands in a path that the router brought here.
func (p *pattern) takes(ps httprouter.Params) bool {
	for _, word := range p.words {
		if ps[word.index].Value != word.name {
			return false
		}
	}
	for _, param := range p.params {
		if !sound(ps[param.index].Value) {
			return false
		}
	}
	return true
}

// sound holds for what can be the name or id of something: a store that is asked for anything else fails.
func sound(value string) bool {
	return value != "" && utf8.ValidString(value) && !strings.ContainsFunc(value, unicode.IsControl)
}

// matches is takes for a path that the router did not bring here.
func (p *pattern) matches(segments []string) bool {
	return slices.EqualFunc(p.segments, segments, func(want, got string) bool {
		return want == got || isParam(want) && sound(got)
	})
}
