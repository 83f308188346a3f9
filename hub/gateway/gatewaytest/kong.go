package gatewaytest

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Kong starts a server with the admin interface of Kong 3: names are unique, PUT replaces a whole
// entity, fields that are left out get their defaults, a service in use is not deleted. Routes are
// those of its traditional router: regular expressions first, then the longest prefix of
// characters. It reads and sends a path without dot segments and repeated slashes.
func Kong(t testing.TB) *Server { return start(t, &kong{}, services, routes) }

// The collections of a Server. APISIX has only routes.
const (
	services = "services"
	routes   = "routes"
)

type kong struct{}

// kongFields are the fields of an entity, with their values if a PUT leaves them out.
var kongFields = map[string]Object{
	services: {
		"id": nil, "created_at": nil, "updated_at": nil, "name": nil, "protocol": "http", "host": nil, "port": 80.0, "path": nil, "enabled": true,
		"retries": 5.0, "connect_timeout": 60000.0, "write_timeout": 60000.0, "read_timeout": 60000.0, "tags": nil,
		"ca_certificates": nil, "client_certificate": nil, "tls_verify": nil, "tls_verify_depth": nil,
	},
	routes: {
		"id": nil, "created_at": nil, "updated_at": nil, "name": nil, "protocols": []any{"http", "https"}, "hosts": nil, "paths": nil, "methods": nil,
		"headers": nil, "snis": nil, "sources": nil, "destinations": nil, "https_redirect_status_code": 426.0, "regex_priority": 0.0, "strip_path": true,
		"path_handling": "v0", "preserve_host": false, "request_buffering": true, "response_buffering": true, "service": nil, "tags": nil,
	},
}

// kongForms are the forms of the texts that differ between deployments. A path is a prefix, or a
// regular expression with a tilde before it. A host is not an address.
var kongForms = forms{
	"name":  regexp.MustCompile(`^[a-zA-Z0-9._~-]+$`),
	"tags":  regexp.MustCompile(`^[^,/]+$`),
	"hosts": regexp.MustCompile(`^[^:]*[a-zA-Z][^:]*$`),
	"paths": regexp.MustCompile(`^(~/.*|/([a-zA-Z0-9._~%-]+/?)*)$`),
}

func (k *kong) admin(s *Server, w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Kong-Admin-Token") != AdminKey {
		respond(w, http.StatusUnauthorized, Object{"message": "Invalid credentials"})
		return
	}

	collection, name, one := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	all := s.entities[collection]
	switch {
	case all == nil:
		respond(w, http.StatusNotFound, Object{"message": "Not found"})
	case !one && r.Method == http.MethodGet:
		k.list(s, w, r, all)
	case !one:
		respond(w, http.StatusMethodNotAllowed, Object{"message": "Method not allowed"})
	case r.Method == http.MethodGet && all[name] == nil:
		respond(w, http.StatusNotFound, Object{"message": "Not found"})
	case r.Method == http.MethodGet:
		respond(w, http.StatusOK, all[name])
	case r.Method == http.MethodPut:
		k.put(s, w, r, collection, name)
	case r.Method == http.MethodDelete:
		k.remove(s, w, collection, name)
	default:
		respond(w, http.StatusMethodNotAllowed, Object{"message": "Method not allowed"})
	}
}

// list responds with a page. By default it has at most three entities, so that every list has
// several pages.
func (k *kong) list(s *Server, w http.ResponseWriter, r *http.Request, all map[string]Object) {
	query := r.URL.Query()
	size, err := strconv.Atoi(cmp.Or(query.Get("size"), "100"))
	if err != nil || size < 1 || size > 1000 {
		respond(w, http.StatusBadRequest, Object{"message": "size must be an integer between 1 and 1000"})
		return
	}

	page, next := []Object{}, any(nil)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name <= query.Get("offset") || query.Has("tags") && !slices.Contains(texts(all[name]["tags"]), query.Get("tags")) {
			continue
		}

		if len(page) == min(size, cmp.Or(s.page, 3)) {
			next = page[len(page)-1]["name"]
			break
		}

		page = append(page, all[name])
	}

	res := Object{"data": page, "next": nil}
	if next != nil {
		res["offset"], res["next"] = next, "http://198.51.100.1"+r.URL.Path+"?offset="+next.(string)
	}

	respond(w, http.StatusOK, res)
}

func (k *kong) put(s *Server, w http.ResponseWriter, r *http.Request, collection, name string) {
	e, ok := body(r)
	if !ok {
		respond(w, http.StatusBadRequest, Object{"message": "Cannot parse JSON body"})
		return
	}

	if e["name"] == nil {
		e["name"] = name
	}

	bad := kongForms.invalid(e, kongFields[collection])
	ref, _ := e["service"].(Object)
	switch {
	case bad != "":
	case e["name"] != name:
		bad = "name"
	case collection == services && e["host"] == nil:
		bad = "host"
	case collection == routes && e["paths"] == nil && e["hosts"] == nil && e["methods"] == nil:
		bad = "paths"
	case ref != nil && k.service(s, ref["id"]) == nil:
		bad = "service"
	}

	if bad != "" {
		respond(w, http.StatusBadRequest, Object{"code": 2, "name": "schema violation", "message": "schema violation (" + bad + ")"})
		return
	}

	old := s.entities[collection][name]
	full := Object{}
	for field, value := range kongFields[collection] {
		full[field] = value
		if e[field] != nil {
			full[field] = e[field]
		}
	}

	s.created++
	full["id"], full["created_at"], full["updated_at"] = fmt.Sprintf("00000000-0000-4000-8000-%012d", s.created), s.created, s.created
	if old != nil {
		full["id"], full["created_at"] = old["id"], old["created_at"]
	}

	s.entities[collection][name] = clone(full)
	respond(w, http.StatusOK, full)
}

// service returns the service with an id, or nil.
func (k *kong) service(s *Server, id any) Object {
	for _, e := range s.entities[services] {
		if e["id"] == id {
			return e
		}
	}

	return nil
}

func (k *kong) remove(s *Server, w http.ResponseWriter, collection, name string) {
	e := s.entities[collection][name]
	if collection == services && e != nil {
		for _, r := range s.entities[routes] {
			if ref, _ := r["service"].(Object); ref != nil && ref["id"] == e["id"] {
				respond(w, http.StatusBadRequest, Object{"code": 4, "name": "foreign key violation", "message": "an existing 'routes' entity references this 'services' entity"})
				return
			}
		}
	}

	delete(s.entities[collection], name)
	respond(w, http.StatusNoContent, nil)
}

func (k *kong) match(s *Server, r *http.Request) *match {
	var best Object
	rank, length := -1, -1
	escaped := plain(strings.NewReplacer("%2e", ".", "%2E", ".").Replace(r.URL.EscapedPath())) // %2F remains
	for _, name := range slices.Sorted(maps.Keys(s.entities[routes])) {
		e := s.entities[routes][name]
		host, _, _ := strings.Cut(r.Host, ":")
		if hosts := texts(e["hosts"]); len(hosts) > 0 && !slices.Contains(hosts, host) {
			continue
		}

		if methods := texts(e["methods"]); len(methods) > 0 && !slices.Contains(methods, r.Method) {
			continue
		}

		for _, path := range texts(e["paths"]) {
			regex, n := matched(path, escaped)
			if n >= 0 && (regex > rank || regex == rank && n > length) {
				best, rank, length = e, regex, n
			}
		}
	}

	if best == nil {
		return nil
	}

	ref, _ := best["service"].(Object)
	service := k.service(s, ref["id"])
	if service == nil || service["enabled"] == false {
		return nil
	}

	path := escaped
	if best["strip_path"] == true {
		path = "/" + strings.TrimPrefix(path[length:], "/")
	}

	if prefix, _ := service["path"].(string); prefix != "" {
		path = strings.TrimSuffix(prefix, "/") + path
	}

	host := fmt.Sprintf("%s:%.0f", service["host"], service["port"])
	m := &match{target: service["protocol"].(string) + "://" + host, path: path, host: host, buffered: best["response_buffering"] == true}
	if best["preserve_host"] == true {
		m.host = r.Host
	}

	return m
}

// matched returns the length of the beginning of a path that a path of a route matches, or -1, and
// 1 for a regular expression.
func matched(pattern, path string) (regex, length int) {
	rest, found := strings.CutPrefix(pattern, "~")
	if !found {
		if strings.HasPrefix(path, pattern) {
			return 0, len(pattern)
		}

		return 0, -1
	}

	at := regexp.MustCompile("^(?:" + rest + ")").FindStringIndex(path)
	if at == nil {
		return 1, -1
	}

	return 1, at[1]
}
