package api

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/julienschmidt/httprouter"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/rbac"
)

// server is the handler that New returns, without request ids, access log and recovery from panics.
type server struct {
	cfg         Config
	patterns    []*pattern
	prefixes    []*pattern
	router      *httprouter.Router
	literals    map[string]bool // the literal segments of all paths
	quiet       map[string]bool // paths
	cors        map[string]bool // origins
	proxies     []netip.Prefix
	warned      atomic.Bool // of forwarding headers from an untrusted peer
	crossOrigin http.CrossOriginProtection
	budget      budget
	rates       rates
	metrics     *metrics
	tracer      trace.Tracer // nil without traces
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

		if p.Prefix {
			s.prefixes = append(s.prefixes, p)
			continue
		}

		s.patterns = append(s.patterns, p)
		byMethod[p.Method] = append(byMethod[p.Method], p)
		for _, segment := range p.segments {
			s.literals[segment] = s.literals[segment] || !isParam(segment)
		}

		s.quiet[p.Path] = s.quiet[p.Path] || p.Quiet
	}

	shell := &httpapi.Shell{
		Logger:   s.cfg.Logger,
		Quiet:    func(path string) bool { return s.quiet[path] },
		Fail:     s.fail,
		RemoteIP: s.remoteIP,
		Observe:  s.metrics.observe,
	}
	for _, get := range byMethod[http.MethodGet] {
		if !slices.ContainsFunc(byMethod[http.MethodHead], func(p *pattern) bool { return p.Path == get.Path }) {
			head := *get
			head.params, head.literals = nil, nil
			byMethod[http.MethodHead] = append(byMethod[http.MethodHead], &head)
		}
	}

	s.router = shell.Router()
	s.router.NotFound = http.HandlerFunc(s.serveUnmatched)
	s.router.MethodNotAllowed = http.HandlerFunc(s.serveUnmatched)
	for method, patterns := range byMethod {
		groups, err := byRouterPath(patterns)
		if err != nil {
			return nil, err
		}

		for path, group := range groups {
			s.router.Handle(method, path, s.dispatch(group))
		}
	}

	return shell.Wrap(s), nil
}

// ServeHTTP handles a request, whether a route matches it or not.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.metrics.active.Add(r.Context(), 1)
	defer s.metrics.active.Add(r.Context(), -1)
	setSecurityHeaders(w.Header())
	s.warnForwarded(r)
	switch {
	case len(s.cors) > 0 && s.handleCORS(w, r):
	case httpapi.HasEncodedSlash(r.URL):
		s.logUnmatched(w, r)
		s.fail(w, r, httpapi.ErrNotFound)
	default:
		for _, p := range s.prefixes {
			if strings.HasPrefix(r.URL.Path, p.Path+"/") {
				s.serve(w, r, p, nil)
				return
			}
		}

		s.router.ServeHTTP(w, r)
	}
}

// dispatch returns a handler that serves a request with the first matching pattern of the group.
func (s *server) dispatch(group []*pattern) httprouter.Handle {
	return func(w http.ResponseWriter, r *http.Request, ps httprouter.Params) {
		for _, p := range group {
			if p.matchesParams(ps) {
				s.serve(w, r, p, ps)
				return
			}
		}

		s.serveUnmatched(w, r)
	}
}

// serveUnmatched responds to a request that no route matches.
func (s *server) serveUnmatched(w http.ResponseWriter, r *http.Request) {
	s.logUnmatched(w, r)
	if methods := s.methods(r.URL.Path); len(methods) > 0 {
		w.Header().Set("Allow", strings.Join(methods, ", "))
		s.fail(w, r, httpapi.ErrMethodNotAllowed)
		return
	}

	w.Header().Del("Allow") // the router also lists hidden routes
	if s.servePage(w, r) {
		return
	}

	s.fail(w, r, httpapi.ErrNotFound)
}

// servePage responds to a browser that no route matches: the page whose address has no slash at its
// end, or a page with status 404. It reports false for other clients.
func (s *server) servePage(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		return false
	}

	if short, ok := strings.CutSuffix(r.URL.Path, "/"); ok && slices.Contains(s.methods(short), http.MethodGet) {
		w.Header().Set("Location", "../"+url.PathEscape(path.Base(short))) // the hub may be below a path
		w.WriteHeader(http.StatusPermanentRedirect)
		return true
	}

	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(http.StatusNotFound)
	if r.Method == http.MethodGet {
		_, _ = io.WriteString(w, notFoundPage) // the client may have disconnected
	}

	return true
}

const notFoundPage = `<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Not found</title></head>
<body><h1>Not found</h1><p>This hub has no page at this address.</p></body>
</html>
`

// methods returns the methods of a path, without those of hidden routes.
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

// logUnmatched removes possible secrets from the logged path of a request that no route matches:
// only segments that occur in the route table remain.
func (s *server) logUnmatched(w http.ResponseWriter, r *http.Request) {
	segments := strings.Split(r.URL.Path, "/")
	for i, segment := range segments {
		if segment != "" && !s.literals[segment] {
			segments[i] = "*"
		}
	}

	httpapi.LogAs(w, strings.Join(segments, "/"))
}

// serve checks a request against its route and calls the handler.
func (s *server) serve(w http.ResponseWriter, r *http.Request, p *pattern, ps httprouter.Params) {
	if p.Secret {
		httpapi.LogAs(w, p.Path)
	}

	httpapi.SetRoute(w, p.Path)
	r, span := s.startSpan(r, p.Route)
	c := &call{Context: r.Context(), server: s, route: p.Route}
	defer func() {
		c.releaseMemory()
		endSpan(span, w)
	}()
	r = r.WithContext(c)
	for _, param := range p.params {
		r.SetPathValue(param.name, ps[param.index].Value)
	}

	from := Caller{RemoteIP: RemoteIP(r), UserAgent: UserAgent(r)}
	r = r.WithContext(rbac.NewContext(r.Context(), from))
	r, err := s.authorize(r, p.Route)
	if caller := CallerOf(r); caller.UserID != "" {
		httpapi.LogUser(w, caller.TenantID, caller.UserName)
	}

	if err == nil && p.Rated {
		err = s.rates.take(w.Header(), CallerOf(r))
	}

	httpapi.OnLarge(w, func() error { return TakeLarge(r) })
	if err == nil && p.Large {
		err = TakeLarge(r)
	}

	if err == nil {
		res := w
		if !p.open(r) && s.cfg.Admit != nil {
			var end func()
			res, r, end = s.admit(w, r, p.Route)
			defer end() // after the response of an error
		}

		err = p.Handle(res, limitBody(res, r, p.BodyLimit))
	}

	if err != nil {
		s.fail(w, r, err)
	}
}

// authorize checks that the caller may call the route. The returned request has the caller, also if
// the error is not nil.
func (s *server) authorize(r *http.Request, route *Route) (*http.Request, error) {
	if err := s.crossOrigin.Check(r); err != nil {
		return r, &wire.Error{Code: wire.Forbidden, Message: "Pages of other origins may not send this request: add the origin to the allowed ones.", Cause: err}
	}

	if route.open(r) {
		return r, nil
	}

	caller, err := s.cfg.Authenticate(r)
	if err != nil {
		return r, err
	}

	if caller.RoleNow == "" || caller.UserID == "" {
		return r, wire.Unauthenticated
	}

	from := CallerOf(r)
	caller.RemoteIP, caller.UserAgent = from.RemoteIP, from.UserAgent
	r = r.WithContext(rbac.NewContext(r.Context(), caller))
	if caller.MustChangePassword && !route.BeforePasswordChange {
		return r, code.PasswordChangeRequired
	}

	if route.Access == SignedIn {
		return r, nil
	}

	return r, route.Group.Check(caller)
}

// limitBody bounds the body of every route, also of one that reads no JSON.
func limitBody(w http.ResponseWriter, r *http.Request, limit int64) *http.Request {
	if r.ContentLength != 0 {
		r.Body = http.MaxBytesReader(w, r.Body, limit)
	}

	return r
}

// These values are shared by all responses. They are replaced, never changed, as by
// http.Header.Set.
var (
	noStore    = []string{"no-store"}
	noSniff    = []string{"nosniff"}
	noReferrer = []string{"no-referrer"}
	noFrames   = []string{"default-src 'none'; frame-ancestors 'none'"}
	deny       = []string{"DENY"}
	sameOrigin = []string{"same-origin"}
)

// setSecurityHeaders sets the headers of every response. A handler may replace them.
func setSecurityHeaders(h http.Header) {
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = noSniff
	h["Referrer-Policy"] = noReferrer
	h["Content-Security-Policy"] = noFrames
	h["X-Frame-Options"] = deny
	h["Cross-Origin-Resource-Policy"] = sameOrigin
}

// Headers that a script of an allowed origin may send and read in addition to the standard ones.
const (
	corsRequest  = "Authorization, Content-Type, If-Match, If-None-Match, X-Request-Id"
	corsResponse = "Audit-Checkpoint, Audit-Snapshot-Id, Content-Disposition, ETag, RateLimit, RateLimit-Policy, Retry-After, WWW-Authenticate, X-Request-Id"
	corsMaxAge   = "600" // seconds for which a browser caches the preflight response
)

// handleCORS permits scripts of the allowed origins to read the response. It reports whether the
// request was a preflight request, to which it has responded. Credentials are tokens in a header:
// Access-Control-Allow-Credentials is not needed.
func (s *server) handleCORS(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if !s.cors[origin] {
		return false
	}

	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", corsResponse)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}

	methods := s.methods(r.URL.Path)
	if len(methods) == 0 || httpapi.HasEncodedSlash(r.URL) {
		return false // the response is 404
	}

	s.logUnmatched(w, r)
	h.Add("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers")
	h.Set("Access-Control-Allow-Methods", strings.Join(methods, ", "))
	h.Set("Access-Control-Allow-Headers", corsRequest)
	h.Set("Access-Control-Max-Age", corsMaxAge)
	w.WriteHeader(http.StatusNoContent)
	return true
}
