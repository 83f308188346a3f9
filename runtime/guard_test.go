package runtime_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
)

func TestAPIKeys(t *testing.T) {
	b := serve(t, nil, func(c *runtime.Config) { c.APIKeys = []string{"first-key", "second-key"} })
	const missing, wrong = `{"error":"Unauthorized","reason":"missing x-api-key header"}`, `{"error":"Unauthorized","reason":"invalid api key"}`
	for name, row := range map[string]struct {
		method, path string
		headers      []string
		status       int
		body         string
	}{
		"no key":                        {"GET", "/v1/agents", nil, 401, missing},
		"an empty key":                  {"GET", "/v1/agents", []string{"x-api-key", ""}, 401, missing},
		"a wrong key":                   {"GET", "/v1/agents", []string{"x-api-key", "third-key"}, 401, wrong},
		"the beginning of a key":        {"GET", "/v1/agents", []string{"x-api-key", "first"}, 401, wrong},
		"a bearer token":                {"GET", "/v1/agents", []string{"Authorization", "Bearer first-key"}, 401, missing},
		"an unknown path without a key": {"GET", "/v1/nothing", nil, 401, missing},
		"OPTIONS without a key":         {"OPTIONS", runs, nil, 401, missing},
		"a run without a key":           {"POST", runs, nil, 401, missing},
		"a cancel without a key":        {"POST", "/v1/runs/x/cancel", nil, 401, missing},
		"v1 itself":                     {"GET", "/v1", nil, 401, missing},
		"the first key":                 {"GET", "/v1/nothing", []string{"x-api-key", "first-key"}, 404, `{"error":"Not found"}`},
		"the second key":                {"GET", "/v1/nothing", []string{"X-API-KEY", "second-key"}, 404, `{"error":"Not found"}`},
		"a path outside v1":             {"GET", "/nothing", nil, 404, `{"error":"Not found"}`},
	} {
		t.Run(name, func(t *testing.T) {
			a := b.do(t, row.method, row.path, "", row.headers...)
			require.Equal(t, row.status, a.status)
			require.Equal(t, row.body, a.body)
		})
	}
	for _, path := range []string{"/health", "/health/ready"} {
		require.Equal(t, http.StatusOK, b.do(t, "GET", path, "").status, "%s needs no key", path)
	}
}

func TestForeignWebPages(t *testing.T) {
	b := serve(t, nil, func(c *runtime.Config) { c.Hosts = []string{"agents.example"} })
	for name, row := range map[string]struct {
		headers []string
		status  int
	}{
		"no browser":                        {nil, 200},
		"a page of another site":            {[]string{"Sec-Fetch-Site", "cross-site"}, 403},
		"an old browser on another page":    {[]string{"Origin", "https://evil.example"}, 403},
		"a page of this origin":             {[]string{"Sec-Fetch-Site", "same-origin", "Origin", b.url}, 200},
		"a name that was pointed at us":     {[]string{"Host", "evil.example"}, 403},
		"with a port":                       {[]string{"Host", "evil.example:3000"}, 403},
		"localhost":                         {[]string{"Host", "localhost:3000"}, 200},
		"localhost in capitals, with a dot": {[]string{"Host", "LOCALHOST."}, 200},
		"IPv6 loopback":                     {[]string{"Host", "[::1]:3000"}, 200},
		"a name that looks like loopback":   {[]string{"Host", "127.0.0.1.evil.example"}, 403},
		"a name of the configuration":       {[]string{"Host", "agents.example"}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			headers := append([]string{"Accept", "application/json"}, row.headers...)
			a := b.do(t, "POST", runs, `{"message":"hello"}`, headers...)
			require.Equal(t, row.status, a.status)
			if row.status == http.StatusForbidden {
				require.Contains(t, a.body, `{"error":"Forbidden","reason":"`)
			}
		})
	}
}

func TestAKeyMakesTheHostNameFree(t *testing.T) {
	b := serve(t, nil, func(c *runtime.Config) { c.APIKeys = []string{"key"} })
	require.Equal(t, http.StatusOK, b.do(t, "GET", "/v1/agents", "", "x-api-key", "key", "Host", "agents.example").status)
}

func TestOutsideLoopbackTheHostNameIsFree(t *testing.T) {
	b := serve(t, nil, nil)
	req := httptest.NewRequest(http.MethodGet, "http://agents.example/v1/agents", nil)
	ctx := context.WithValue(req.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)})
	rec := httptest.NewRecorder()
	b.ServeHTTP(rec, req.WithContext(ctx))
	require.Equal(t, http.StatusOK, rec.Code)
}

func TestRequestID(t *testing.T) {
	b := serve(t, nil, nil)
	for in, kept := range map[string]bool{
		"abc-1.2_X": true, strings.Repeat("a", 128): true,
		"": false, "a b": false, "<script>": false, strings.Repeat("a", 129): false,
	} {
		got := b.do(t, "GET", "/v1/agents", "", "X-Request-ID", in).header.Get("X-Request-ID")
		require.NotEmpty(t, got)
		require.Equal(t, kept, got == in, in)
		require.Contains(t, b.log.String(), got)
	}
}

func TestMountedUnderAPrefix(t *testing.T) {
	b := serve(t, nil, nil)
	mux := http.NewServeMux()
	mux.Handle("/ai/", http.StripPrefix("/ai", b.Runtime))
	server := httptest.NewServer(mux)
	defer server.Close()
	b.url = server.URL + "/ai"
	require.Equal(t, http.StatusOK, b.do(t, "GET", "/health", "").status)
	a, run := b.blocking(t, `{"message":"hello"}`)
	require.Equal(t, http.StatusOK, a.status)
	require.Equal(t, http.StatusConflict, b.cancel(t, run.RunID).status)
	require.JSONEq(t, `{"error":"Not found"}`, b.do(t, "GET", "/v1/nothing", "").body)
}

func TestListDetailHealth(t *testing.T) {
	b := serve(t, nil, func(c *runtime.Config) {
		c.Agents = []agent.Agent{
			{ID: "zed", Name: "Zed", Description: "Last of the letters", Model: "demo", Provider: agent.Provider{Protocol: "demo"},
				SystemPrompt: "x", MaxTurns: 3, AllowedTools: []string{"Read", "Edit(docs/**)"}},
			{ID: "alpha", Model: "m", Provider: agent.Provider{Protocol: "anthropic"}, SystemPromptFile: "missing.md"},
		}
		c.Version = "v1.2.3"
	})
	require.JSONEq(t, `[
		{"id":"zed","name":"Zed","model":"demo","status":"ready","toolCount":3,"description":"Last of the letters"},
		{"id":"alpha","name":"alpha","model":"m","status":"unavailable","toolCount":0}
	]`, b.do(t, "GET", "/v1/agents", "").body, "in the order of the configuration; Edit brings Write along")
	require.JSONEq(t, `{"id":"zed","name":"Zed","model":"demo","status":"ready","maxTurns":3,"hasSystemPrompt":true,"allowedTools":["Read","Edit(docs/**)"]}`, b.do(t, "GET", "/v1/agents/zed", "").body)
	a := b.do(t, "GET", "/v1/agents/alpha", "")
	require.Equal(t, http.StatusOK, a.status)
	require.JSONEq(t, `{"id":"alpha","name":"alpha","model":"m","status":"unavailable","maxTurns":10,"hasSystemPrompt":true}`,
		a.body)
	require.Contains(t, b.log.String(), "missing.md", "the log tells why")
	require.Contains(t, b.Unavailable(), "alpha")

	health := b.do(t, "GET", "/health", "").body
	require.Regexp(t, `^\{"status":"degraded","agents":2,"uptimeMs":\d+,"version":"v1.2.3"\}$`, health)
	require.JSONEq(t, `{"status":"ready"}`, b.do(t, "GET", "/health/ready", "").body)
	head := b.do(t, "HEAD", "/health", "")
	require.Equal(t, http.StatusOK, head.status)
	require.Empty(t, head.body)
}

func TestNewTellsEveryFault(t *testing.T) {
	_, err := runtime.New(t.Context(), runtime.Config{Agents: []agent.Agent{{ID: "Bad Id"}, {ID: "x"},
		{ID: "x", PermissionMode: "odd"}}})
	require.ErrorContains(t, err, "agents[0].id")
	require.ErrorContains(t, err, "agents[1].model")
	require.ErrorContains(t, err, "agents[2].permissionMode")
	_, err = runtime.New(t.Context(), runtime.Config{CWD: "/does/not/exist"})
	require.ErrorContains(t, err, "/does/not/exist")
	_, err = runtime.New(t.Context(), runtime.Config{APIKeys: []string{""}})
	require.ErrorContains(t, err, "API key is empty")
}
