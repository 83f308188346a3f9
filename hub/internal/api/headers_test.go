package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
)

func TestHeadersOfEveryResponse(t *testing.T) {
	h := guarded(t, nil)
	for _, request := range []string{"GET /open", "HEAD /open", "GET /any", "POST /open", "GET /nothing", "OPTIONS /open", "GET /a%2Fb"} {
		method, path, _ := strings.Cut(request, " ")
		got := send(h, method, path, "").Header()
		for name, want := range map[string]string{
			"X-Content-Type-Options":       "nosniff",
			"Cache-Control":                "no-store",
			"Referrer-Policy":              "no-referrer",
			"X-Frame-Options":              "DENY",
			"Content-Security-Policy":      "default-src 'none'; frame-ancestors 'none'",
			"Cross-Origin-Resource-Policy": "same-origin",
		} {
			require.Equal(t, []string{want}, got[name], "%s: %s", request, name)
		}
		require.NotEmpty(t, got.Get("X-Request-Id"))
		require.Empty(t, got.Get("Access-Control-Allow-Origin"))
		require.Empty(t, got.Get("Vary"))
	}
}

func TestAHandlerMayCache(t *testing.T) {
	h := handler(t, nil, routeWith("GET", "/", func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Cache-Control", "public, max-age=300")
		w.Header().Add("Referrer-Policy", "same-origin")
		return api.Encode(w, 200, 1)
	}))
	require.Equal(t, "public, max-age=300", send(h, "GET", "/", "").Header().Get("Cache-Control"))
	again := send(handler(t, nil, route("GET", "/")), "GET", "/", "").Header()
	require.Equal(t, "no-store", again.Get("Cache-Control"), "one handler's headers are not another's")
	require.Equal(t, []string{"no-referrer"}, again["Referrer-Policy"])
}

func TestCrossOrigin(t *testing.T) {
	h := handler(t, func(c *api.Config) {
		c.PublicURL = "https://Hub.example.com:443/path"
		c.CORSOrigins = []string{"https://console.example.com"}
	}, route("POST", "/auth/login"), route("GET", "/auth/mode"),
		api.Route{Method: "DELETE", Path: "/x", Access: api.SignedIn, Handle: func(w http.ResponseWriter, _ *http.Request) error { return api.NoContent(w) }})
	for name, row := range map[string]struct {
		method, path string
		headers      []string
		status       int
	}{
		"a program":                   {"POST", "/auth/login", nil, 200},
		"the same origin":             {"POST", "/auth/login", []string{"Sec-Fetch-Site", "same-origin", "Origin", "https://elsewhere"}, 200},
		"typed into the address bar":  {"POST", "/auth/login", []string{"Sec-Fetch-Site", "none"}, 200},
		"the same host, an old one":   {"POST", "/auth/login", []string{"Origin", "http://example.com"}, 200}, // Host of httptest
		"the public URL, by a proxy":  {"POST", "/auth/login", []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://hub.example.com"}, 200},
		"an allowed origin":           {"POST", "/auth/login", []string{"Sec-Fetch-Site", "same-site", "Origin", "https://console.example.com"}, 200},
		"another site":                {"POST", "/auth/login", []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}, 403},
		"a sister site":               {"POST", "/auth/login", []string{"Sec-Fetch-Site", "same-site", "Origin", "https://blog.example.com"}, 403},
		"another site, an old one":    {"POST", "/auth/login", []string{"Origin", "https://evil.example"}, 403},
		"a sandbox":                   {"POST", "/auth/login", []string{"Origin", "null"}, 403},
		"an allowed one, without TLS": {"POST", "/auth/login", []string{"Origin", "http://console.example.com"}, 403},
		"reading":                     {"GET", "/auth/mode", []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}, 200},
		"before 401":                  {"DELETE", "/x", []string{"Origin", "https://evil.example"}, 403},
		"after 404":                   {"POST", "/nothing", []string{"Origin", "https://evil.example"}, 404},
		"after 405":                   {"POST", "/x", []string{"Origin", "https://evil.example"}, 405},
	} {
		t.Run(name, func(t *testing.T) {
			w := send(h, row.method, row.path, "", row.headers...)
			require.Equal(t, row.status, w.Code, w.Body)
			if row.status == 403 {
				require.Equal(t, "forbidden", faultOf(t, w).Code)
			}
		})
	}
}

func TestCORS(t *testing.T) {
	const mine = "https://console.example.com"
	h := handler(t, func(c *api.Config) { c.CORSOrigins = []string{mine, "http://localhost:3000"} }, crossing...)
	preflight := func(path string, headers ...string) http.Header {
		w := send(h, "OPTIONS", path, "", headers...)
		if w.Code == http.StatusNoContent {
			return w.Header()
		}
		require.Contains(t, []int{404, 405}, w.Code)
		faultOf(t, w)
		return nil
	}

	got := preflight("/agents/a", "Origin", mine, "Access-Control-Request-Method", "DELETE", "Access-Control-Request-Headers", "authorization")
	require.Equal(t, mine, got.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "DELETE, GET, HEAD", got.Get("Access-Control-Allow-Methods"))
	require.Contains(t, got.Get("Access-Control-Allow-Headers"), "Authorization")
	require.Equal(t, "600", got.Get("Access-Control-Max-Age"))
	require.Contains(t, got.Values("Vary"), "Origin")
	require.Empty(t, got.Get("Access-Control-Allow-Credentials"))
	require.Equal(t, "nosniff", got.Get("X-Content-Type-Options"))

	require.Nil(t, preflight("/agents/a", "Origin", "https://evil.example", "Access-Control-Request-Method", "GET"))
	require.Nil(t, preflight("/agents/a", "Origin", mine+".evil.example", "Access-Control-Request-Method", "GET"))
	require.Nil(t, preflight("/agents/a", "Origin", mine), "no preflight")
	require.Nil(t, preflight("/agents/a", "Access-Control-Request-Method", "GET"))
	require.Nil(t, preflight("/nothing", "Origin", mine, "Access-Control-Request-Method", "GET"))
	require.Nil(t, preflight("/agents%2Fa", "Origin", mine, "Access-Control-Request-Method", "GET"))

	for _, path := range []string{"/agents", "/nothing"} { // an error can be read as well
		w := send(h, "GET", path, "", "Origin", "http://localhost:3000")
		require.Equal(t, "http://localhost:3000", w.Header().Get("Access-Control-Allow-Origin"))
		require.Contains(t, w.Header().Get("Access-Control-Expose-Headers"), "X-Request-Id")
		for _, origin := range []string{"https://evil.example", "null", "HTTPS://CONSOLE.EXAMPLE.COM", ""} {
			w = send(h, "GET", path, "", "Origin", origin)
			require.Empty(t, w.Header().Get("Access-Control-Allow-Origin"), origin)
			require.Equal(t, "Origin", w.Header().Get("Vary"))
		}
	}
}
