package gatewaytest

import (
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/stretchr/testify/require"
)

// Only the path of a route and paths below it lead to its runtime, of its host.
func (s *subject) paths() {
	s.put(s.route("acme-bot", "/acme/bot"))
	s.put(s.route("default-bot", "/bot"))
	s.reaches("/acme/bot", "/")
	s.reaches("/acme/bot/", "/")
	s.reaches("/acme/bot/acme/bot/x", "/acme/bot/x")
	s.reaches("/bot/v1/runs", "/v1/runs")
	for _, path := range []string{"/acme/bot2", "/acme/bot2/v1/agents", "/acme/bo", "/acme", "/acme/", "/acme/bot-x/", "/", "/x/acme/bot/", "/bots/"} {
		s.misses(path)
	}

	s.Server.Proxy = strings.Replace(s.Server.Proxy, "localhost", "127.0.0.1", 1)
	s.misses("/acme/bot/")
	other := s.route("default-other", "/other")
	other.Host = ""
	s.put(other)
	s.reaches("/other/x", "/x")
	require.Equal(s.t, other, s.routes(owner)["default-other"])
}

// A path with dots or slashes reaches the runtime of the path that it means.
func (s *subject) oddPaths() {
	s.put(s.route("acme-bot", "/acme/bot"))
	other := httptest.NewServer(http.NotFoundHandler())
	s.t.Cleanup(other.Close)
	r := s.route("acme-other", "/acme/other")
	r.Target = other.URL
	s.put(r)
	s.reaches("/acme/other/../bot/x", "/x")
	s.reaches("/acme/%2e%2e/acme/bot/./x", "/x")
	s.reaches("//acme//bot//x", "/x")
	for _, path := range []string{"/acme/bot/../other/x", "/acme/bot/..", "/acme/bot/../bot2", "/acme/bot/%2e%2E/x"} {
		s.misses(path)
	}
}

// The gateway sends its own host, with which a runtime compares the origin of a page.
func (s *subject) origins() {
	runtime := httptest.NewServer(http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	s.t.Cleanup(runtime.Close)
	r := s.route("acme-bot", "/acme/bot")
	r.Target = runtime.URL
	s.put(r)
	for origin, want := range map[string]int{s.Server.Proxy: http.StatusOK, "http://another.example.com": http.StatusForbidden} {
		req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.Server.Proxy+"/acme/bot/v1/runs", http.NoBody)
		require.NoError(s.t, err)
		req.Header.Set("Origin", origin)
		res, err := s.upstream.Client().Do(req)
		require.NoError(s.t, err)
		require.NoError(s.t, res.Body.Close())
		require.Equal(s.t, want, res.StatusCode, origin)
	}
}
