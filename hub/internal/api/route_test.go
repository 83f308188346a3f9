package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

func TestNewRejectsAnInvalidConfiguration(t *testing.T) {
	ok := func(http.ResponseWriter, *http.Request) error { return nil }
	open := func(method, path string) api.Route {
		return api.Route{Method: method, Path: path, Access: api.Open, Handle: ok}
	}
	for name, row := range map[string]struct {
		cfg    api.Config
		routes []api.Route
		want   string
	}{
		"nobody said who may":       {routes: []api.Route{{Method: "GET", Path: "/a", Handle: ok}}, want: "route GET /a: it has neither a Group nor an Access"},
		"said twice":                {routes: []api.Route{{Method: "GET", Path: "/a", Handle: ok, Access: api.Open, Group: rbac.AdminOnly}}, want: "both a Group and an Access"},
		"an Access that is none":    {routes: []api.Route{{Method: "GET", Path: "/a", Handle: ok, Access: 9}}, want: "unknown Access"},
		"no handler":                {routes: []api.Route{{Method: "GET", Path: "/a", Access: api.Open}}, want: "it has no Handle"},
		"a negative limit":          {routes: []api.Route{{Method: "GET", Path: "/a", Access: api.Open, Handle: ok, BodyLimit: -1}}, want: "BodyLimit"},
		"a method that is none":     {routes: []api.Route{open("get", "/a")}, want: "the method is not one of"},
		"a relative path":           {routes: []api.Route{open("GET", "a")}, want: "does not begin with /"},
		"an empty path":             {routes: []api.Route{open("GET", "")}, want: "does not begin with /"},
		"an empty segment":          {routes: []api.Route{open("GET", "/a//b")}, want: "a segment is empty"},
		"a slash at the end":        {routes: []api.Route{open("GET", "/a/")}, want: "a segment is empty"},
		"a parameter without name":  {routes: []api.Route{open("GET", "/a/:")}, want: "neither a literal nor :name"},
		"a rest":                    {routes: []api.Route{open("GET", "/a/*rest")}, want: "neither a literal nor :name"},
		"half a segment":            {routes: []api.Route{open("GET", "/a/b:name")}, want: "neither a literal nor :name"},
		"two parameters of a name":  {routes: []api.Route{open("GET", "/:a/:a")}, want: "two parameters are named a"},
		"the same route twice":      {routes: []api.Route{open("GET", "/a"), open("GET", "/a")}, want: "they match the same paths"},
		"the same but for the name": {routes: []api.Route{open("PUT", "/a/:x"), open("PUT", "/a/:y")}, want: "routes PUT /a/:x and /a/:y: they match the same paths"},
		"nobody to ask":             {routes: []api.Route{{Method: "GET", Path: "/a", Access: api.SignedIn, Handle: ok}}, want: "it needs Config.Authenticate"},
		"any origin":                {cfg: api.Config{CORSOrigins: []string{"*"}}, want: `origin "*"`},
		"null as an origin":         {cfg: api.Config{CORSOrigins: []string{"null"}}, want: `origin "null"`},
		"origins of a pattern":      {cfg: api.Config{CORSOrigins: []string{"https://*.example.com"}}, want: "without a wildcard"},
		"an origin with a path":     {cfg: api.Config{CORSOrigins: []string{"https://example.com/"}}, want: "browsers send it as https://example.com"},
		"an origin in capitals":     {cfg: api.Config{CORSOrigins: []string{"https://Example.com:443"}}, want: "browsers send it as https://example.com"},
		"a public URL without host": {cfg: api.Config{PublicURL: "hub.example.com"}, want: "public URL"},
		"a proxy that is no range":  {cfg: api.Config{TrustedProxies: []netip.Prefix{{}}}, want: "trusted proxy"},
		"half of IPv4 in IPv6":      {cfg: api.Config{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("::ffff:0.0.0.0/90")}}, want: "wider than IPv4"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := api.New(row.cfg, row.routes...)
			require.ErrorContains(t, err, row.want)
		})
	}
}

// The hub has all of these combinations.
var crossing = []api.Route{
	route("GET", "/"),
	route("GET", "/agents"),
	route("GET", "/agents/manifest"),
	route("GET", "/agents/:name"),
	route("DELETE", "/agents/:name"),
	route("GET", "/agents/:name/sessions/:id"),
	route("POST", "/providers/probe"),
	route("POST", "/providers/:id/probe"),
	route("GET", "/providers/:id"),
	route("GET", "/x/:a/y"),
	route("GET", "/x/z/:b"),
}

func TestRoutes(t *testing.T) {
	for _, row := range []struct{ name, method, target, want string }{
		{"the root", "GET", "/", `GET /`},
		{"a word", "GET", "/agents", `GET /agents`},
		{"a word beside a parameter", "GET", "/agents/manifest", `GET /agents/manifest`},
		{"the parameter beside it", "GET", "/agents/manifesto", `GET /agents/:name manifesto`},
		{"a word for one method only", "DELETE", "/agents/manifest", `DELETE /agents/:name manifest`},
		{"below a parameter whose word is taken", "GET", "/agents/manifest/sessions/4", `GET /agents/:name/sessions/:id manifest 4`},
		{"a word that ends before", "POST", "/providers/probe", `POST /providers/probe`},
		{"a word that stands after", "POST", "/providers/7/probe", `POST /providers/:id/probe 7`},
		{"both", "POST", "/providers/probe/probe", `POST /providers/:id/probe probe`},
		{"another method's word", "GET", "/providers/probe", `GET /providers/:id probe`},
		{"the first word decides", "GET", "/x/z/y", `GET /x/z/:b y`},
		{"and else the second", "GET", "/x/q/y", `GET /x/:a/y q`},
		{"neither", "GET", "/x/q/q", "404"},
		{"an escape", "GET", "/agents/a%20b", `GET /agents/:name a b`},
		{"Chinese", "GET", "/agents/%E6%99%BA", `GET /agents/:name 智`},
		{"dots are a name like others", "GET", "/agents/..", `GET /agents/:name ..`},
		{"a semicolon", "GET", "/agents/a;b", `GET /agents/:name a;b`},

		{"a slash that is escaped", "GET", "/agents/a%2Fsessions%2F4", "404"},
		{"in small letters", "GET", "/agents/a%2fsessions/4", "404"},
		{"instead of a slash", "GET", "/agents%2Fmanifest", "404"},
		{"a percent sign, escaped before 2F", "GET", "/agents/a%252Fb", `GET /agents/:name a%2Fb`},
		{"an empty parameter", "GET", "/agents/", "404"},
		{"an empty parameter in the middle", "GET", "/agents//sessions/4", "404"},
		{"an empty parameter for a known method", "DELETE", "/agents/", "404"},
		{"an empty segment", "GET", "//agents", "404"},
		{"a slash at the end", "GET", "/agents/a/", "404"},
		{"a NUL", "GET", "/agents/a%00b", "404"},
		{"a line break", "GET", "/agents/a%0Ab", "404"},
		{"no UTF-8", "GET", "/agents/a%FFb", "404"},
		{"capitals", "GET", "/Agents", "404"},
		{"an unknown path", "GET", "/nothing", "404"},
		{"an unknown path and method", "BREW", "/nothing", "404"},

		{"a wrong method", "POST", "/agents", "405 GET, HEAD"},
		{"on a parameter", "PUT", "/agents/a", "405 DELETE, GET, HEAD"},
		{"on a word beside it", "PUT", "/agents/manifest", "405 DELETE, GET, HEAD"},
		{"where the words decide", "DELETE", "/providers/probe", "405 GET, HEAD, POST"},
		{"where they do not", "DELETE", "/providers/7", "405 GET, HEAD"},
		{"a method that is none", "BREW", "/agents", "405 GET, HEAD"},
		{"OPTIONS", "OPTIONS", "/agents", "405 GET, HEAD"},
		{"HEAD where there is no GET", "HEAD", "/providers/7/probe", "405 POST"},
	} {
		t.Run(row.name, func(t *testing.T) {
			for mount, h := range map[string]http.Handler{
				"":           handler(t, nil, crossing...),
				"/below/hub": http.StripPrefix("/below/hub", handler(t, nil, crossing...)),
			} {
				w := send(h, row.method, mount+row.target, "")
				status, allow, _ := strings.Cut(row.want, " ")
				switch status {
				case "404":
					require.Equal(t, 404, w.Code, w.Body)
					require.Equal(t, "not_found", faultOf(t, w).Code)
				case "405":
					require.Equal(t, 405, w.Code, w.Body)
					require.Equal(t, allow, w.Header().Get("Allow"))
					require.Equal(t, "method_not_allowed", faultOf(t, w).Code)
				default:
					require.Equal(t, 200, w.Code, w.Body)
					var got []string
					require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
					require.Equal(t, row.want, strings.Join(got, " "))
				}
			}
		})
	}
}

func TestAllowNamesNoHiddenRoute(t *testing.T) {
	gone := func(path string) api.Route {
		return api.Route{Method: "GET", Path: path, Access: api.Open, Hidden: true,
			Handle: func(http.ResponseWriter, *http.Request) error { return wire.NotFound }}
	}
	h := handler(t, nil, gone("/login"), route("POST", "/login"), gone("/nothing"))
	for _, row := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"PUT", "/login", 405, "POST"},
		{"GET", "/login", 404, ""},
		{"HEAD", "/login", 404, ""},
		{"PUT", "/nothing", 404, ""},
	} {
		w := send(h, row.method, row.path, "")
		require.Equal(t, row.status, w.Code, "%s %s", row.method, row.path)
		require.Equal(t, row.allow, w.Header().Get("Allow"))
	}
}

func TestHeadForEveryGet(t *testing.T) {
	server := httptest.NewServer(handler(t, nil, append(slices.Clone(crossing), route("GET", "/own"), route("HEAD", "/own"))...))
	defer server.Close()
	for _, path := range []string{"/", "/agents", "/agents/manifest", "/agents/a", "/providers/7", "/own"} {
		get, err := server.Client().Get(server.URL + path)
		require.NoError(t, err)
		require.NoError(t, get.Body.Close())
		head, err := server.Client().Head(server.URL + path)
		require.NoError(t, err)
		require.Equal(t, 200, head.StatusCode, path)
		if path != "/own" {
			require.Equal(t, int64(-1), head.ContentLength, "nothing is encoded")
			require.Equal(t, get.Header.Get("Content-Type"), head.Header.Get("Content-Type"))
		}
	}
}

// Any table of routes matches the paths that a comparison from left to right matches.
func TestRoutesMatchTheTable(t *testing.T) {
	segment := rapid.SampledFrom([]string{"a", "b", ":p", ":p"})
	pathOf := func(segments []string, named bool) string {
		out := slices.Clone(segments)
		for i := range out {
			if named && out[i] == ":p" {
				out[i] = fmt.Sprintf(":p%d", i)
			}
		}
		return "/" + strings.Join(out, "/")
	}
	rapid.Check(t, func(t *rapid.T) {
		tables := rapid.SliceOfDistinct(rapid.SliceOfN(segment, 1, 4), func(s []string) string { return strings.Join(s, "/") })
		table := rapid.Custom(func(t *rapid.T) [][]string { return tables.Draw(t, "table") }).Draw(t, "routes")
		var routes []api.Route
		for _, segments := range table {
			routes = append(routes, route("GET", pathOf(segments, true)))
		}
		h, err := api.New(api.Config{}, routes...)
		require.NoError(t, err)
		asked := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 4).Draw(t, "asked")

		best := ""
		var bestKey string
		for _, segments := range table {
			key, fits := "", len(segments) == len(asked)
			for i := 0; fits && i < len(asked); i++ {
				fits = segments[i] == ":p" || segments[i] == asked[i]
				key += map[bool]string{true: "1", false: "0"}[segments[i] == ":p"]
			}
			if fits && (best == "" || key < bestKey) {
				best, bestKey = pathOf(segments, true), key
			}
		}
		w := send(h, "GET", pathOf(asked, false), "")
		if best == "" {
			require.Equal(t, 404, w.Code)
			return
		}
		var got []string
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
		require.Equal(t, "GET "+best, got[0])
		for i, segment := range strings.Split(best[1:], "/") {
			if segment[0] == ':' {
				require.Contains(t, got[1:], asked[i])
			}
		}
	})
}

func TestAParameterNextToTheRoot(t *testing.T) {
	h := handler(t, nil, route("GET", "/"), route("GET", "/:name"), route("GET", "/health"), route("GET", "/:name/:id"))
	for target, want := range map[string]string{"/": "GET /", "/a": "GET /:name", "/health": "GET /health", "/health/1": "GET /:name/:id"} {
		require.Contains(t, send(h, "GET", target, "").Body.String(), `"`+want+`"`)
	}
	require.Equal(t, 404, send(h, "GET", "//", "").Code)
}
