package gatewaytest

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// APISIX starts a server with the admin interface of APISIX 3: unknown fields are rejected, ids
// have at most 64 characters, a timeout has three values. A URI is exact, or a prefix with a * at
// its end; exact ones come first. A path is decoded, and loses dot segments and repeated slashes,
// before it is compared, rewritten and sent.
func APISIX(t testing.TB) *Server { return start(t, &apisix{}, routes) }

type apisix struct{}

// apisixFields are the fields of a route, with their values if a PUT leaves them out.
var apisixFields = Object{
	"id": nil, "name": nil, "desc": nil, "uri": nil, "uris": nil, "host": nil, "hosts": nil, "methods": nil, "priority": 0.0, "vars": nil, "labels": nil,
	"status": 1.0, "enable_websocket": nil, "timeout": nil, "plugins": nil, "upstream": nil,
}

// apisixForms are the forms of the texts that differ between deployments.
var apisixForms = forms{
	"id":     apisixID,
	"name":   regexp.MustCompile(`^.{1,100}$`),
	"uri":    apisixURI,
	"uris":   apisixURI,
	"host":   regexp.MustCompile(`^\*?[0-9a-zA-Z-._\[\]:]+$`),
	"labels": regexp.MustCompile(`^\S{1,256}$`),
}

var (
	apisixID  = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)
	apisixURI = regexp.MustCompile(`^/[^*]*\*?$`)
)

func (a *apisix) admin(s *Server, w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-API-KEY") != AdminKey {
		respond(w, http.StatusUnauthorized, Object{"error_msg": "failed to check token"})
		return
	}

	path, found := strings.CutPrefix(r.URL.Path, "/apisix/admin/routes")
	id := strings.TrimPrefix(path, "/")
	all := s.entities[routes]
	switch {
	case !found:
		respond(w, http.StatusNotFound, nil)
	case path == "" && r.Method == http.MethodGet:
		a.list(w, r, all)
	case !apisixID.MatchString(id):
		respond(w, http.StatusBadRequest, Object{"error_msg": "invalid configuration: property \"id\" validation failed"})
	case r.Method == http.MethodPut:
		a.put(s, w, r, id)
	case all[id] == nil:
		respond(w, http.StatusNotFound, Object{"message": "Key not found"})
	case r.Method == http.MethodGet:
		respond(w, http.StatusOK, a.node(id, all[id]))
	case r.Method == http.MethodDelete:
		delete(all, id)
		respond(w, http.StatusOK, Object{"key": "/apisix/routes/" + id, "deleted": "1"})
	default:
		respond(w, http.StatusMethodNotAllowed, nil)
	}
}

func (a *apisix) node(id string, e Object) Object {
	return Object{"key": "/apisix/routes/" + id, "value": e, "createdIndex": 1, "modifiedIndex": 2}
}

// list responds with a page. An empty list is an object, as the JSON of Lua has it.
func (a *apisix) list(w http.ResponseWriter, r *http.Request, all map[string]Object) {
	page, err := strconv.Atoi(cmp.Or(r.URL.Query().Get("page"), "1"))
	size, err2 := strconv.Atoi(cmp.Or(r.URL.Query().Get("page_size"), "10"))
	if err != nil || err2 != nil || page < 1 || size < 10 || size > 500 {
		respond(w, http.StatusBadRequest, Object{"error_msg": "page or page_size is out of range"})
		return
	}

	ids := slices.Sorted(maps.Keys(all))
	var list []Object
	for _, id := range ids[min((page-1)*size, len(ids)):min(page*size, len(ids))] {
		list = append(list, a.node(id, all[id]))
	}

	if list == nil {
		respond(w, http.StatusOK, Object{"list": Object{}, "total": len(ids)})
		return
	}

	respond(w, http.StatusOK, Object{"list": list, "total": len(ids)})
}

func (a *apisix) put(s *Server, w http.ResponseWriter, r *http.Request, id string) {
	e, ok := body(r)
	if !ok {
		respond(w, http.StatusBadRequest, Object{"error_msg": "invalid request body"})
		return
	}

	bad := apisixForms.invalid(e, apisixFields)
	timeout, _ := e["timeout"].(Object)
	switch {
	case bad != "":
	case (e["uri"] == nil) == (e["uris"] == nil):
		bad = "uri"
	case e["host"] != nil && e["hosts"] != nil:
		bad = "host"
	case e["id"] != nil && e["id"] != id:
		bad = "id"
	case timeout != nil && len(timeout) != 3:
		bad = "timeout"
	}

	if bad != "" {
		respond(w, http.StatusBadRequest, Object{"error_msg": "invalid configuration: property \"" + bad + "\" validation failed"})
		return
	}

	for field, value := range apisixFields {
		if e[field] == nil && value != nil {
			e[field] = value
		}
	}

	if upstream, _ := e["upstream"].(Object); upstream != nil {
		for field, value := range (Object{"type": "roundrobin", "scheme": "http", "pass_host": "pass", "hash_on": "vars"}) {
			if upstream[field] == nil {
				upstream[field] = value
			}
		}
	}

	e["id"], e["create_time"], e["update_time"] = id, 1, 2
	status := http.StatusOK
	if s.entities[routes][id] == nil {
		status = http.StatusCreated
	}

	s.entities[routes][id] = clone(e)
	respond(w, status, a.node(id, e))
}

func (a *apisix) match(s *Server, r *http.Request) *match {
	var best Object
	length := -1
	path := plain(r.URL.Path)
	host, _, _ := strings.Cut(r.Host, ":")
	for _, id := range slices.Sorted(maps.Keys(s.entities[routes])) {
		e := s.entities[routes][id]
		if e["status"] != 1.0 || e["host"] != nil && e["host"] != host {
			continue
		}

		if methods := texts(e["methods"]); len(methods) > 0 && !slices.Contains(methods, r.Method) {
			continue
		}

		uris := texts(e["uris"])
		if uri, ok := e["uri"].(string); ok {
			uris = append(uris, uri)
		}

		for _, uri := range uris {
			prefix, isPrefix := strings.CutSuffix(uri, "*")
			n := len(prefix)
			if !isPrefix {
				n = 1 << 20 // exact ones come first
			}

			if (uri == path || isPrefix && strings.HasPrefix(path, prefix)) && n > length {
				best, length = e, n
			}
		}
	}

	if best == nil {
		return nil
	}

	plugins, _ := best["plugins"].(Object)
	if rewrite, ok := plugins["proxy-rewrite"].(Object); ok {
		if regex := texts(rewrite["regex_uri"]); len(regex) == 2 {
			path = regexp.MustCompile(regex[0]).ReplaceAllString(path, regex[1])
		}
	}

	upstream := best["upstream"].(Object)
	node := upstream["nodes"].([]any)[0].(Object)
	address := fmt.Sprintf("%s:%.0f", node["host"], node["port"])
	m := &match{target: upstream["scheme"].(string) + "://" + address, path: (&url.URL{Path: path}).EscapedPath(), host: address, buffered: true}
	if upstream["pass_host"] == "pass" {
		m.host = r.Host
	}

	return m
}
