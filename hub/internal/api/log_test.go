package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/rbac"
)

func TestAccessLog(t *testing.T) {
	secret := route("GET", "/auth/invite/:token")
	secret.Secret = true
	quiet := route("GET", "/health")
	quiet.Quiet = true
	for name, row := range map[string]struct{ request, want string }{
		"a path":                          {"GET /agents/coder", "level=INFO msg=request method=GET path=/agents/coder status=200"},
		"a query":                         {"GET /agents/coder?key=SECRET", "path=/agents/coder status=200"},
		"a secret in the path":            {"GET /auth/invite/SECRET", "path=/auth/invite/:token status=200"},
		"by HEAD":                         {"HEAD /auth/invite/SECRET", "path=/auth/invite/:token status=200"},
		"a slash too many":                {"GET /auth/invite/SECRET/", "path=/auth/invite/*/ status=404"},
		"a slash too many before":         {"GET //auth/invite/SECRET", "path=//auth/invite/* status=404"},
		"capitals":                        {"GET /Auth/Invite/SECRET", "path=/*/*/* status=404"},
		"a wrong method":                  {"POST /auth/invite/SECRET", "path=/auth/invite/* status=405"},
		"an escaped slash":                {"GET /auth/invite/SECRET%2Fx", "path=/auth/invite/*/* status=404"},
		"a control character":             {"GET /auth/invite/SECRET%00", "path=/auth/invite/* status=404"},
		"a preflight":                     {"OPTIONS /auth/invite/SECRET", "path=/auth/invite/* status=204"},
		"another prefix":                  {"GET /v2/auth/invite/SECRET", "path=/*/auth/invite/* status=404"},
		"what is asked every few seconds": {"GET /health", "level=DEBUG msg=request method=GET path=/health status=200"},
	} {
		t.Run(name, func(t *testing.T) {
			logger, log := logged()
			h := handler(t, func(c *api.Config) { c.Logger, c.CORSOrigins = logger, []string{"https://a.example"} }, secret, quiet, route("GET", "/agents/:name"))
			method, target, _ := strings.Cut(row.request, " ")
			send(h, method, target, "", "Authorization", "Bearer SECRET", "Cookie", "a=SECRET", "X-Ops-Key", "SECRET", "User-Agent", "SECRET",
				"Referer", "https://a.example/?SECRET", "X-Request-Id", "bad id SECRET", "Origin", "https://a.example", "Access-Control-Request-Method", "GET")
			require.Contains(t, log.String(), row.want)
			require.NotContains(t, log.String(), "SECRET")
			require.Equal(t, 1, strings.Count(log.String(), "\n"))
		})
	}
}

func TestTheAccessLogHasTheClientsAddress(t *testing.T) {
	for name, row := range map[string]struct{ peer, path, forwarded, want string }{
		"a client":                     {"192.0.2.1:1234", "/agents/coder", "", "192.0.2.1"},
		"behind a trusted proxy":       {"10.0.0.1:1234", "/agents/coder", "198.51.100.7, 10.0.0.2", "198.51.100.7"},
		"an untrusted peer forwards":   {"192.0.2.1:1234", "/agents/coder", "198.51.100.7", "192.0.2.1"},
		"IPv6":                         {"[2001:db8::1]:1234", "/agents/coder", "", "2001:db8::1"},
		"a path that no route takes":   {"10.0.0.1:1234", "/nothing", "198.51.100.7", "198.51.100.7"},
		"a request without permission": {"10.0.0.1:1234", "/private", "198.51.100.7", "198.51.100.7"},
		"a handler that panics":        {"10.0.0.1:1234", "/panic", "198.51.100.7", "198.51.100.7"},
	} {
		t.Run(name, func(t *testing.T) {
			logger, log := logged()
			h := handler(t, func(c *api.Config) {
				c.Logger, c.TrustedProxies = logger, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
			}, route("GET", "/agents/:name"), api.Route{Method: "GET", Path: "/private", Access: api.SignedIn, Handle: route("GET", "/").Handle},
				routeWith("GET", "/panic", func(http.ResponseWriter, *http.Request) error { panic("bug") }))
			r := httptest.NewRequest(http.MethodGet, row.path, nil)
			r.RemoteAddr = row.peer
			if row.forwarded != "" {
				r.Header.Set("X-Forwarded-For", row.forwarded)
			}
			h.ServeHTTP(httptest.NewRecorder(), r)
			require.Contains(t, log.String(), " remote_ip="+row.want+"\n")
		})
	}
}

func TestTheAccessLogNamesTheUser(t *testing.T) {
	for name, row := range map[string]struct{ path, token, want string }{
		"a user":             {"/mine", "admin-token", " tenant=t1 user=ada remote_ip="},
		"without permission": {"/private", "member-token", " status=403 "},
		"no user":            {"/mine", "", " status=401 "},
		"an open route":      {"/agents/coder", "admin-token", " status=200 "},
	} {
		t.Run(name, func(t *testing.T) {
			logger, log := logged()
			mine, private := route("GET", "/mine"), route("GET", "/private")
			mine.Access = api.SignedIn
			private.Access, private.Group = 0, rbac.AdminOnly
			h := handler(t, func(c *api.Config) { c.Logger = logger }, mine, private, route("GET", "/agents/:name"))
			send(h, "GET", row.path, "", "Authorization", "Bearer "+row.token)
			require.Contains(t, log.String(), row.want)
			require.Equal(t, row.path != "/agents/coder" && row.token != "", strings.Contains(log.String(), " user="))
		})
	}
}

func TestErrorsOfSecretRoutesNameTheRoute(t *testing.T) {
	logger, log := logged()
	broken := routeWith("GET", "/auth/invite/:token", func(http.ResponseWriter, *http.Request) error { return errSecret })
	broken.Secret = true
	h := handler(t, func(c *api.Config) { c.Logger = logger }, broken)
	require.Equal(t, 500, send(h, "GET", "/auth/invite/TOKEN", "").Code)
	require.Contains(t, log.String(), "route=/auth/invite/:token")
	require.NotContains(t, log.String(), "TOKEN")
}

func TestStreams(t *testing.T) {
	next := make(chan struct{}, 3)
	server := httptest.NewServer(handler(t, nil, routeWith("GET", "/", func(w http.ResponseWriter, _ *http.Request) error {
		for i := range 3 {
			<-next
			fmt.Fprintf(w, "part %d", i)
			if err := http.NewResponseController(w).Flush(); err != nil {
				return err
			}
		}
		return nil
	})))
	defer server.Close()
	defer close(next)
	next <- struct{}{}
	res, err := server.Client().Get(server.URL)
	require.NoError(t, err)
	defer res.Body.Close()
	buf := make([]byte, 100)
	for i := range 3 { // each part comes while the handler waits to make the next
		n, err := res.Body.Read(buf)
		if err != nil {
			require.Equal(t, 2, i)
		}
		require.Equal(t, fmt.Sprintf("part %d", i), string(buf[:n]))
		if i < 2 {
			next <- struct{}{}
		}
	}
}

func TestCallerEvent(t *testing.T) {
	for agent, want := range map[string]string{
		"curl/8":                       "curl/8",
		"":                             "",
		"a\xffb":                       "ab",
		"\u202ea\u009b31mb":            "\ufffda\ufffd31mb",
		strings.Repeat("x", 600):       strings.Repeat("x", 512),
		strings.Repeat("x", 511) + "智": strings.Repeat("x", 511),
	} {
		h := handler(t, nil, api.Route{Method: "GET", Path: "/", Access: api.SignedIn, Handle: func(w http.ResponseWriter, r *http.Request) error {
			event := api.CallerOf(r).Event()
			require.Equal(t, want, event.UserAgent)
			require.Equal(t, want, api.UserAgent(r))
			require.Equal(t, "t1 u1 ada 192.0.2.1", strings.Join([]string{event.TenantID, event.UserID, event.UserName, event.RemoteIP}, " "))
			return api.NoContent(w)
		}})
		require.Equal(t, 204, send(h, "GET", "/", "", "Authorization", "Bearer admin-token", "User-Agent", agent).Code)
	}
}
