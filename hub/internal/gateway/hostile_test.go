package gateway_test

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/rbac"
)

// A response with a status below 200 belongs to one connection. It must neither reach the client
// nor remove the headers of the hub.
func TestInformationalResponsesOfARuntimeAreNotForwarded(t *testing.T) {
	s, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Link", "<https://evil.example>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusProcessing)
		_, _ = io.WriteString(w, "<p>done</p>")
	}))
	ada := s.As("acme", "ada", rbac.Admin)
	for _, path := range []string{"/runtime/a/x", "/api/v1/admin/agents/a/files/content?path=x"} {
		req := ada.Request(http.MethodGet, path, nil, "X-Api-Key", apiKey)
		var informed []int
		trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
			informed = append(informed, code)
			return nil
		}}
		res, err := http.DefaultClient.Do(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, "<p>done</p>", string(body))
		require.Empty(t, informed, path)
		for _, name := range []string{"X-Request-Id", "Content-Security-Policy", "X-Content-Type-Options", "X-Frame-Options", "Cache-Control"} {
			require.Len(t, res.Header.Values(name), 1, "%s %s", path, name)
		}
		require.Empty(t, res.Header.Values("Set-Cookie"))
	}
}

func TestTrailersOfARuntimeAreNotForwarded(t *testing.T) {
	s, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "Set-Cookie, X-Announced")
		_, _ = io.WriteString(w, "body")
		_ = http.NewResponseController(w).Flush()
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("X-Announced", "1")
		w.Header().Set(http.TrailerPrefix+"X-Request-Id", "forged")
	}))
	ada := s.As("acme", "ada", rbac.Admin)
	for _, path := range []string{"/runtime/a/x", "/api/v1/admin/agents/a/files/content?path=x"} {
		res, err := http.DefaultClient.Do(ada.Request(http.MethodGet, path, nil, "X-Api-Key", apiKey))
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, "body", string(body))
		require.Empty(t, res.Trailer)
		require.NotEqual(t, "forged", res.Header.Get("X-Request-Id"))
	}
}

// The hub has checked the origin, and the runtime has another host name.
func TestPagesOfTheHubMayCallARuntime(t *testing.T) {
	s, _ := serve(t, host(t))
	anyone := s.As("", "", "")
	run := func(headers ...string) int {
		return anyone.Do(http.MethodPost, "/runtime/a/v1/agents/a/runs", map[string]any{"message": "hello"}, append(headers, "X-Api-Key", apiKey)...).Status
	}
	require.Equal(t, http.StatusOK, run("Origin", s.URL))
	require.Equal(t, http.StatusOK, run("Origin", s.URL, "Sec-Fetch-Site", "same-origin"))
	require.Equal(t, http.StatusForbidden, run("Origin", "https://evil.example"))
	require.Equal(t, http.StatusForbidden, run("Origin", strings.Replace(s.URL, "127.0.0.1", "localhost", 1), "Sec-Fetch-Site", "cross-site"))
}
