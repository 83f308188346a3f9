package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/julienschmidt/httprouter"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

// Access states who may call a route without a Group.
type Access uint8

// Values of Access. The zero value is for routes with a Group.
const (
	Open     Access = iota + 1 // no credential is checked
	SignedIn                   // every role
)

// Route is a method and path with its permission. Every GET route also serves HEAD.
type Route struct {
	Method string
	Path   string // "/users/:id": :id is a parameter for r.PathValue. A literal segment takes precedence over a parameter.
	Prefix bool   // it serves all paths below Path, which is literal, with every method. Method and Group are empty.

	Group  rbac.Group // the roles that may call it
	Access Access     // without a group

	Category             string // the audit category of a denied permission. Defaults to "auth".
	BodyLimit            int64  // bytes. Defaults to 1 MiB.
	Large                bool   // the response may be large or is a download: it takes the memory of one, see [TakeLarge]
	Rated                bool   // its requests count for Config.UserRate and Config.AddressRate
	Secret               bool   // a path parameter is a secret: the access log contains Path instead of the path
	Quiet                bool   // probes call it every few seconds: it is logged at debug level
	Hidden               bool   // it always responds with 404 and is not listed in Allow, although the path has other methods
	BeforePasswordChange bool   // a caller who must change the password may call it
	KeyHeader            string // a request with this header is not authenticated: its handler checks the key
	NoChallenge          bool   // no WWW-Authenticate in a 401: the credential of the route is not a bearer token

	// Fail writes the response of an error, whose headers are set. Defaults to the form of the API.
	Fail func(w http.ResponseWriter, r *http.Request, e *wire.Error)

	// Handle responds to the request, or returns an error before it writes anything. An error after
	// the first byte closes the connection, so that the client does not take a truncated response
	// for a complete one.
	Handle Handler
}

// open reports whether no credential of a user is checked for a request.
func (route *Route) open(r *http.Request) bool {
	_, key := r.Header[route.KeyHeader]
	return route.Access == Open || key && route.KeyHeader != ""
}

// pattern is a route as the router knows it. httprouter does not support a literal segment next to
// a parameter. If a route of a method has a parameter, the routes with the same preceding segments
// get a parameter too, and their literal is compared later.
type pattern struct {
	*Route
	segments []string // of Path
	params   []param
	literals []param // literal segments that are parameters for the router
}

type param struct {
	name  string
	index int // among the parameters of the router
}

func newPattern(route Route) (*pattern, error) {
	invalid := func(text string) (*pattern, error) {
		return nil, fmt.Errorf("route %s %s: %s", route.Method, route.Path, text)
	}
	if route.Prefix {
		return newPrefix(route)
	}

	methods := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}
	switch {
	case !slices.Contains(methods, route.Method):
		return invalid("the method is not one of " + strings.Join(methods, ", "))
	case !strings.HasPrefix(route.Path, "/"):
		return invalid("the path does not begin with /")
	case route.Group.IsZero() && route.Access == 0:
		return invalid("it has neither a Group nor an Access")
	case !route.Group.IsZero() && route.Access != 0:
		return invalid("it has both a Group and an Access")
	case route.Access > SignedIn:
		return invalid("unknown Access")
	case route.Handle == nil:
		return invalid("it has no Handle")
	case route.BodyLimit < 0:
		return invalid("BodyLimit is negative")
	}

	p := &pattern{Route: &route, segments: split(route.Path)}
	names := map[string]bool{}
	for _, segment := range p.segments {
		name, isParam := strings.CutPrefix(segment, ":")
		switch {
		case segment == "":
			return invalid("a segment is empty")
		case strings.ContainsAny(name, ":*%?#") || isParam && name == "":
			return invalid(fmt.Sprintf("segment %q is neither a literal nor :name", segment))
		case isParam && names[name]:
			return invalid("two parameters are named " + name)
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

// newPrefix returns the pattern of a route that is a prefix.
func newPrefix(route Route) (*pattern, error) {
	if route.Method != "" || route.Access != Open && route.Access != SignedIn || !route.Group.IsZero() || route.Handle == nil || route.BodyLimit < 0 ||
		!strings.HasPrefix(route.Path, "/") || strings.HasSuffix(route.Path, "/") || strings.ContainsAny(route.Path, ":*%?#") {
		return nil, fmt.Errorf("route %s: a prefix is Open or SignedIn and has a literal path, no method and a Handle", route.Path)
	}

	route.Category, route.BodyLimit = cmp.Or(route.Category, "auth"), cmp.Or(route.BodyLimit, defaultBodyLimit)
	return &pattern{Route: &route}, nil
}

// split returns the segments of a path that begins with a slash. The root has none.
func split(path string) []string {
	if path == "/" {
		return nil
	}

	return strings.Split(path[1:], "/")
}

// byRouterPath groups the patterns of one method by their path in the router. In a group, literals
// precede parameters.
func byRouterPath(patterns []*pattern) (map[string][]*pattern, error) {
	paths := make([]string, len(patterns)) // built segment by segment
	most := 0
	for i, p := range patterns {
		most = max(most, len(p.segments))
		for _, q := range patterns[:i] {
			if slices.EqualFunc(p.segments, q.segments, func(a, b string) bool { return a == b || isParam(a) && isParam(b) }) {
				return nil, fmt.Errorf("routes %s %s and %s: they match the same paths", p.Method, q.Path, p.Path)
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
					p.literals = append(p.literals, param{name, index})
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
			// The first segment that is a literal in one and a parameter in the other decides: the
			// literal is first.
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

// matchesParams reports whether p matches a path for which the router returned ps.
func (p *pattern) matchesParams(ps httprouter.Params) bool {
	for _, literal := range p.literals {
		if ps[literal.index].Value != literal.name {
			return false
		}
	}

	for _, param := range p.params {
		if !validParam(ps[param.index].Value) {
			return false
		}
	}

	return true
}

// validParam reports whether value can be a name or an id. Databases reject other values.
func validParam(value string) bool {
	return value != "" && utf8.ValidString(value) && !strings.ContainsFunc(value, unicode.IsControl)
}

// matches reports whether p matches the segments of a path.
func (p *pattern) matches(segments []string) bool {
	return slices.EqualFunc(p.segments, segments, func(want, got string) bool {
		return want == got || isParam(want) && validParam(got)
	})
}

// versioned is a result that has a version, which the response has as its ETag. 0 is none.
type versioned interface{ CurrentVersion() int64 }

// Handler is the form of [Route.Handle].
type Handler = func(w http.ResponseWriter, r *http.Request) error

// Result returns the handler of a route that responds with the status and the result of call as
// JSON. If the result has a method CurrentVersion() int64, the version is the ETag of the response.
func Result[T any](status int, call func(r *http.Request) (T, error)) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		result, err := call(r)
		return respond(w, r, status, result, err)
	}
}

// ResultOf is [Result] for a route with a JSON body.
func ResultOf[In, T any](status int, call func(r *http.Request, in In) (T, error)) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		in, err := Decode[In](w, r)
		if err != nil {
			return err
		}

		result, err := call(r, in)
		return respond(w, r, status, result, err)
	}
}

// Done returns the handler of a route that responds with 204 unless call fails.
func Done(call func(r *http.Request) error) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := call(r); err != nil {
			return err
		}

		return NoContent(w)
	}
}

// Call is [ResultOf] for a method of a service that needs only the caller and the body.
func Call[In, T any](status int, call func(ctx context.Context, caller Caller, in In) (T, error)) Handler {
	return ResultOf(status, func(r *http.Request, in In) (T, error) { return call(r.Context(), CallerOf(r), in) })
}

// CallBy is [Result] for a method of a service that needs only the caller and a parameter of the
// path.
func CallBy[T any](status int, param string, call func(ctx context.Context, caller Caller, value string) (T, error)) Handler {
	return Result(status, func(r *http.Request) (T, error) { return call(r.Context(), CallerOf(r), r.PathValue(param)) })
}

// DoneBy is [Done] for a method of a service that needs only the caller and a parameter of the
// path.
func DoneBy(param string, call func(ctx context.Context, caller Caller, value string) error) Handler {
	return Done(func(r *http.Request) error { return call(r.Context(), CallerOf(r), r.PathValue(param)) })
}

// DeleteBy is [DoneBy] for a method that deletes something with a version, if it has the one that
// the client expects.
func DeleteBy(param string, call func(ctx context.Context, caller Caller, value string, expected *int64) error) Handler {
	return Done(func(r *http.Request) error {
		expected, err := IfMatch(r)
		if err != nil {
			return err
		}

		return call(r.Context(), CallerOf(r), r.PathValue(param), expected)
	})
}

// ListOf returns the handler of a route that responds with a page of a list.
func ListOf[T any](call func(ctx context.Context, caller Caller, page Page) (List[T], error)) Handler {
	return Result(http.StatusOK, func(r *http.Request) (List[T], error) {
		page, err := Paging(r)
		if err != nil {
			return List[T]{}, err
		}

		return call(r.Context(), CallerOf(r), page)
	})
}

// ListBy is [ListOf] for a method of a service that also needs a parameter of the path.
func ListBy[T any](param string, call func(ctx context.Context, caller Caller, value string, page Page) (List[T], error)) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return ListOf(func(ctx context.Context, caller Caller, page Page) (List[T], error) {
			return call(ctx, caller, r.PathValue(param), page)
		})(w, r)
	}
}

func respond[T any](w http.ResponseWriter, r *http.Request, status int, result T, err error) error {
	if err != nil {
		return err
	}

	if v, ok := any(result).(versioned); ok && v.CurrentVersion() > 0 {
		SetVersion(w, v.CurrentVersion())
	}

	var page *Page
	if c := callOf(r); c != nil {
		page = c.page
	}

	return encode(w, page, status, result)
}
