// Package gatewaytest has servers with the documented admin interfaces and routing of Kong and
// APISIX, and the suite that every deploy.Gateway passes. The gateways themselves are not packages
// of Debian, npm or Go, so that tests of this project cannot start them.
package gatewaytest

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// AdminKey is the key that the admin interfaces require.
const AdminKey = "planted-admin-key"

// Object is an entity of a gateway.
type Object = map[string]any

// Server is a gateway: an admin interface that rejects what the documentation of the gateway does
// not permit, and a proxy that routes requests by the entities.
type Server struct {
	Admin string // base URLs
	Proxy string

	kind     kind
	stop     func()                       // ends the admin interface
	mu       sync.Mutex                   // guards the fields below
	entities map[string]map[string]Object // by their collection and name or id
	created  int
	page     int // largest number of entities of a page of Kong, if it is set
	calls    []string
	fault    func(http.ResponseWriter, *http.Request) bool
}

// kind is what differs between gateways.
type kind interface {
	admin(s *Server, w http.ResponseWriter, r *http.Request) // with the lock
	match(s *Server, r *http.Request) *match                 // with the lock
}

// match is the upstream of a request.
type match struct {
	target   string // base URL
	path     string // in its escaped form
	host     string // of the request to the upstream
	buffered bool
}

func start(t testing.TB, k kind, collections ...string) *Server {
	s := &Server{kind: k, entities: map[string]map[string]Object{}}
	for _, name := range collections {
		s.entities[name] = map[string]Object{}
	}

	admin, proxy := httptest.NewServer(http.HandlerFunc(s.serveAdmin)), httptest.NewServer(http.HandlerFunc(s.serveProxy))
	s.Admin, s.Proxy = admin.URL, strings.Replace(proxy.URL, "127.0.0.1", "localhost", 1)
	end := func(server *httptest.Server) {
		server.CloseClientConnections()
		server.Close()
	}
	s.stop = func() { end(admin) }
	t.Cleanup(func() {
		s.Fail(nil)
		end(admin)
		end(proxy)
	})
	return s
}

// Fail installs a fault of the admin interface, which reports whether it has responded.
func (s *Server) Fail(fault func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// Away is a fault: the connection ends without a response.
func Away(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }

// Status returns a fault that responds with a status.
func Status(status int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		respond(w, status, Object{"message": "An unexpected error occurred"})
		return true
	}
}

// Writes returns the calls of the admin interface that change something, such as "PUT /routes/x",
// and forgets them.
func (s *Server) Writes() (writes []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, call := range s.calls {
		if !strings.HasPrefix(call, http.MethodGet) {
			writes = append(writes, call)
		}
	}

	s.calls = nil
	return writes
}

// Calls returns all calls of the admin interface since the last call of Writes.
func (s *Server) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Listings returns how many of these calls list routes.
func (s *Server) Listings() (n int) {
	for _, call := range s.Calls() {
		if IsListing(call) {
			n++
		}
	}

	return n
}

// IsListing reports whether a call lists routes.
func IsListing(call string) bool {
	return strings.HasPrefix(call, http.MethodGet) && strings.HasSuffix(call, "/routes")
}

// Edit changes an entity as an operator does.
func (s *Server) Edit(collection, name string, change func(Object)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.entities[collection][name])
}

// Drop deletes an entity without its rules.
func (s *Server) Drop(collection, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entities[collection], name)
}

// Add stores a copy of an entity.
func (s *Server) Add(collection, name string, e Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entities[collection][name] = clone(e)
}

// Names returns the names of all entities of a collection, sorted.
func (s *Server) Names(collection string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.entities[collection]))
}

// Get returns a copy of an entity, or nil.
func (s *Server) Get(collection, name string) Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.entities[collection][name]; ok {
		return clone(e)
	}

	return nil
}

func clone(e Object) (copied Object) {
	text, _ := json.Marshal(e) // it is from JSON
	_ = json.Unmarshal(text, &copied)
	return copied
}

func (s *Server) serveAdmin(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.calls = append(s.calls, r.Method+" "+r.URL.Path)
	fault := s.fault
	s.mu.Unlock()
	if fault != nil && fault(w, r) { // without the lock: it may be slow
		return
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.kind.admin(s, w, r)
}

func (s *Server) serveProxy(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	m := s.kind.match(s, r)
	s.mu.Unlock()
	if m == nil {
		respond(w, http.StatusNotFound, Object{"message": "no Route matched with those values"})
		return
	}

	target, _ := url.Parse(m.target)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(target)
			p.Out.URL.Path, _ = url.PathUnescape(m.path) // it is from a parsed URL
			p.Out.URL.RawPath, p.Out.Host = m.path, m.host
		},
		ModifyResponse: func(res *http.Response) error {
			if m.buffered && res.Header.Get("X-Accel-Buffering") != "no" { // as nginx
				text, err := io.ReadAll(res.Body)
				res.Body = io.NopCloser(strings.NewReader(string(text)))
				return err
			}

			return nil
		},
	}
	proxy.ServeHTTP(w, r)
}

// plain returns a path without dot segments and repeated slashes.
func plain(p string) string {
	clean := path.Clean(p)
	if last := p[strings.LastIndex(p, "/"):]; clean != "/" && (last == "/" || last == "/." || last == "/..") {
		clean += "/"
	}

	return clean
}

func respond(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if v != nil {
		_ = json.NewEncoder(w).Encode(v) // an error means that the client disconnected
	}
}

// body decodes the object of a request.
func body(r *http.Request) (e Object, ok bool) {
	text, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	return e, err == nil && strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") && json.Unmarshal(text, &e) == nil && e != nil
}

// forms are the forms of the texts of fields, and of those in their lists and objects.
type forms map[string]*regexp.Regexp

// invalid returns the name of a field that is unknown or has an invalid text, or "".
func (f forms) invalid(e, known Object) string {
	for name, value := range e {
		if _, ok := known[name]; !ok {
			return name
		}

		form := f[name]
		if form == nil || value == nil {
			continue
		}

		list, _ := value.([]any)
		switch value := value.(type) {
		case string:
			list = []any{value}
		case Object:
			list = slices.Collect(maps.Values(value))
		}

		if len(list) == 0 || slices.ContainsFunc(list, func(v any) bool { text, ok := v.(string); return !ok || !form.MatchString(text) }) {
			return name
		}
	}

	return ""
}

func texts(v any) (all []string) {
	list, _ := v.([]any)
	for _, e := range list {
		all = append(all, e.(string))
	}

	return all
}
