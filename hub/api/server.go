package api

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/julienschmidt/httprouter"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/rbac"
)

// server is the handler that New makes, without the shell around it.
type server struct {
	cfg         Config
	patterns    []*pattern
	router      *httprouter.Router
	words       map[string]bool // of all paths
	quiet       map[string]bool // paths
	cors        map[string]bool // origins
	proxies     []netip.Prefix
	crossOrigin http.CrossOriginProtection
}

func (s *server) handler(routes []Route) (http.Handler, error) {
	byMethod := map[string][]*pattern{}
	for _, route := range routes {
		p, err := newPattern(route)
		if err != nil {
			return nil, err
		}
		if p.Access != Open && s.cfg.Authenticate == nil {
			return nil, fmt.Errorf("route %s %s: it needs Config.Authenticate", p.Method, p.Path)
		}
		s.patterns = append(s.patterns, p)
		byMethod[p.Method] = append(byMethod[p.Method], p)
		for _, word := range p.segments {
			s.words[word] = s.words[word] || !isParam(word)
		}
		s.quiet[p.Path] = s.quiet[p.Path] || p.Quiet
	}
	shell := &httpapi.Shell{
		Logger: s.cfg.Logger,
		Quiet:  func(path string) bool { return s.quiet[path] },
		Fail:   s.fail,
	}
	for _, get := range byMethod[http.MethodGet] {
		if !slices.ContainsFunc(byMethod[http.MethodHead], func(p *pattern) bool { return p.Path == get.Path }) {
			head := *get
			head.params, head.words = nil, nil
			byMethod[http.MethodHead] = append(byMethod[http.MethodHead], &head)
		}
	}
	s.router = shell.Router()
	s.router.NotFound = http.HandlerFunc(s.miss)
	s.router.MethodNotAllowed = http.HandlerFunc(s.miss)
	for method, patterns := range byMethod {
		groups, err := byRouterPath(patterns)
		if err != nil {
			return nil, err
		}
		for path, group := range groups {
			s.router.Handle(method, path, s.choose(group))
		}
	}
	return shell.Wrap(s), nil
}

// ServeHTTP does what is done for every request, whether a route takes it or not.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	switch {
	case len(s.cors) > 0 && s.answerCORS(w, r):
	case r.URL.RawPath != "" && strings.Contains(strings.ToLower(r.URL.RawPath), "%2f"):
		// Decoded it would be a slash, and the path that of another route.
		s.logMissed(w, r)
		s.fail(w, r, httpapi.ErrNotFound)
	default:
		s.router.ServeHTTP(w, r)
	}
}

// choose hands a request to the first of the patterns that takes it.
func (s *server) choose(group []*pattern) httprouter.Handle {
	return func(w http.ResponseWriter, r *http.Request, ps httprouter.Params) {
		for _, p := range group {
			if p.takes(ps) {
				s.serve(w, r, p, ps)
				return
			}
		}
		s.miss(w, r)
	}
}

// miss answers what no route takes.
func (s *server) miss(w http.ResponseWriter, r *http.Request) {
	s.logMissed(w, r)
	if methods := s.methods(r.URL.Path); len(methods) > 0 {
		w.Header().Set("Allow", strings.Join(methods, ", "))
		s.fail(w, r, httpapi.ErrMethodNotAllowed)
		return
	}
	w.Header().Del("Allow") // the router knows hidden routes too
	s.fail(w, r, httpapi.ErrNotFound)
}

// methods are those that a path takes, and tells of.
func (s *server) methods(path string) []string {
	if !strings.HasPrefix(path, "/") {
		return nil
	}
	segments := split(path)
	found := map[string]bool{}
	for _, p := range s.patterns {
		if !p.Hidden && p.matches(segments) {
			found[p.Method] = true
		}
	}
	if found[http.MethodGet] {
		found[http.MethodHead] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// logMissed keeps from the log what may be a secret in a path that is a little wrong: only words of the routes stay.
func (s *server) logMissed(w http.ResponseWriter, r *http.Request) {
	segments := strings.Split(r.URL.Path, "/")
	for i, segment := range segments {
		if segment != "" && !s.words[segment] {
			segments[i] = "*"
		}
	}
	httpapi.LogAs(w, strings.Join(segments, "/"))
}

// serve takes a request through the checks of its route to the handler.
func (s *server) serve(w http.ResponseWriter, r *http.Request, p *pattern, ps httprouter.Params) {
	if p.Secret {
		httpapi.LogAs(w, p.Path)
	}
	r = r.WithContext(&call{Context: r.Context(), server: s, route: p.Route})
	for _, param := range p.params {
		r.SetPathValue(param.name, ps[param.index].Value)
	}
	r, err := s.admit(r, p.Route)
	if err == nil {
		err = p.Handle(w, limited(w, r, p.BodyLimit))
	}
	if err != nil {
		s.fail(w, r, err)
	}
}

// admit checks who may call the route. The request it returns carries the caller, also of a refused call.
func (s *server) admit(r *http.Request, route *Route) (*http.Request, error) {
	if err := s.crossOrigin.Check(r); err != nil {
		return r, &Error{Code: Forbidden, Message: "A page of another site may not call this: add its origin to those that are allowed.", Cause: err}
	}
	if route.Access == Open {
		return r, nil
	}
	caller, err := s.cfg.Authenticate(r)
	if err != nil {
		return r, err
	}
	if caller.RoleNow == "" || caller.UserID == "" {
		return r, Unauthenticated
	}
	r = r.WithContext(rbac.NewContext(r.Context(), caller))
	if route.Access == SignedIn {
		return r, nil
	}
	return r, route.Group.Check(caller)
}

// limited bounds the body of any route, also of one that reads no JSON.
func limited(w http.ResponseWriter, r *http.Request, limit int64) *http.Request {
	if r.ContentLength != 0 {
		r.Body = http.MaxBytesReader(w, r.Body, limit)
	}
	return r
}
