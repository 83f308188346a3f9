package auditlog_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
)

// serve mounts the handlers at / and under a prefix, and returns the base URL of both.
func serve(t testing.TB, h auditlog.Handlers) (base string) {
	t.Helper()
	if h.Tenant == nil {
		h.Tenant = func(r *http.Request) string { return r.Header.Get("Tenant") }
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", h.Query)
	mux.HandleFunc("GET /export", h.Export)
	mux.HandleFunc("GET /verify", h.Verify)
	outer := http.NewServeMux()
	outer.Handle("/", mux)
	outer.Handle("/api/audit/", http.StripPrefix("/api/audit", mux))
	server := httptest.NewServer(outer)
	t.Cleanup(server.Close)
	return server.URL
}

// get sends a request for tenant t.
func get(t testing.TB, target string) (*http.Response, string) {
	t.Helper()
	response := start(t, target)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response, string(body)
}

func start(t testing.TB, target string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Tenant", "t")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	require.NoError(t, err)
	return response
}

type answer struct {
	Items      []map[string]any `json:"items"`
	Total      uint64           `json:"total"`
	SnapshotID string           `json:"snapshotId"`
}

func page(t testing.TB, base, query string) answer {
	t.Helper()
	response, body := get(t, base+"?"+query)
	require.Equal(t, http.StatusOK, response.StatusCode, body)
	var a answer
	require.NoError(t, json.Unmarshal([]byte(body), &a))
	return a
}

func values(pairs ...string) string {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Add(pairs[i], pairs[i+1])
	}
	return v.Encode()
}

// respond calls a handler with any query string, without a server.
func respond(t testing.TB, handler http.HandlerFunc, query string) *httptest.ResponseRecorder {
	t.Helper()
	recorder := httptest.NewRecorder()
	handler(recorder, (&http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/", RawQuery: query}}).WithContext(t.Context()))
	return recorder
}

// requireText requires the same bytes, not only equivalent JSON.
func requireText(t testing.TB, want, got string) {
	t.Helper()
	require.Equal(t, want, got)
}
