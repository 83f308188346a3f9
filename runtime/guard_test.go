package runtime_test

import (
	"context"
	"fmt"
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
			res := b.do(t, row.method, row.path, "", row.headers...)
			require.Equal(t, row.status, res.status)
			require.Equal(t, row.body, res.body)
		})
	}
	for _, path := range []string{"/health", "/health/ready"} {
		require.Equal(t, http.StatusOK, b.do(t, "GET", path, "").status, "%s needs no key", path)
	}
}

func TestCrossOriginRequests(t *testing.T) {
	b := serve(t, nil, func(c *runtime.Config) {
		quick(c)
		c.AllowedHosts = []string{"agents.example"}
	})
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
			res := b.do(t, "POST", runs, `{"message":"hello"}`, headers...)
			require.Equal(t, row.status, res.status)
			if row.status == http.StatusForbidden {
				require.Contains(t, res.body, `{"error":"Forbidden","reason":"`)
			}
		})
	}
}

func TestHostsOfARuntimeWithoutKeys(t *testing.T) {
	for name, row := range map[string]struct {
		allowed  []string
		host     string
		loopback int // status of a request over loopback
		other    int // over any other listener, or one whose address is not known
	}{
		"a foreign name":                     {nil, "evil.example", 403, 403},
		"with a port":                        {nil, "evil.example:3000", 403, 403},
		"with a dot at the end":              {nil, "evil.example.", 403, 403},
		"with a dot at the end and a port":   {nil, "evil.example.:3000", 403, 403},
		"a name of one word":                 {nil, "runtime", 403, 403},
		"a name that begins with an address": {nil, "192.0.2.1.evil.example", 403, 403},
		"an address in brackets with more":   {nil, "[::1].evil.example", 403, 403},
		"an address in another base":         {nil, "0x7f.1", 403, 403},
		"an address as one number":           {nil, "2130706433", 403, 403},
		"localhost":                          {nil, "localhost", 200, 200},
		"localhost in capitals with a dot":   {nil, "LocalHost.:3000", 200, 200},
		"localhost with two dots":            {nil, "localhost..", 403, 403},
		"a name below localhost":             {nil, "app.localhost:3000", 200, 200},
		"loopback":                           {nil, "127.0.0.1:3000", 200, 200},
		"another address of loopback":        {nil, "127.8.9.10", 200, 200},
		"IPv6 loopback":                      {nil, "[::1]:3000", 200, 200},
		"IPv6 loopback without a port":       {nil, "[::1]", 200, 200},
		"IPv4 loopback in IPv6":              {nil, "[::ffff:127.0.0.1]:3000", 200, 200},
		"another address":                    {nil, "192.0.2.1:3000", 403, 200},
		"another IPv6 address":               {nil, "[2001:db8::1]:3000", 403, 200},
		"an address with a zone":             {nil, "[fe80::1%25eth0]:3000", 403, 200},
		"no host":                            {nil, "", 403, 200},
		"an allowed name":                    {[]string{"agents.example"}, "agents.example", 200, 200},
		"an allowed name with a port":        {[]string{"agents.example"}, "agents.example:8443", 200, 200},
		"an allowed name in capitals":        {[]string{"Agents.Example."}, "AGENTS.example", 200, 200},
		"a name below an allowed name":       {[]string{"agents.example"}, "evil.agents.example", 403, 403},
		"a name that ends like an allowed":   {[]string{"agents.example"}, "evilagents.example", 403, 403},
		"an allowed address":                 {[]string{"192.0.2.1"}, "192.0.2.1:3000", 200, 200},
		"a public runtime":                   {[]string{"*"}, "evil.example", 200, 200},
	} {
		t.Run(name, func(t *testing.T) {
			b := serve(t, nil, func(c *runtime.Config) { c.AllowedHosts = row.allowed })
			for listener, addr := range map[string]net.Addr{
				"IPv4 loopback": &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)},
				"IPv6 loopback": &net.TCPAddr{IP: net.IPv6loopback},
				"IPv4":          &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)},
				"IPv6":          &net.TCPAddr{IP: net.ParseIP("2001:db8::1")},
				"Unix socket":   &net.UnixAddr{Name: "/run/agents.sock", Net: "unix"},
				"unknown":       nil,
			} {
				for _, path := range []string{"/v1/agents", "/health"} {
					req := httptest.NewRequest(http.MethodGet, path, nil)
					req.Host = row.host
					ctx := req.Context()
					if addr != nil {
						ctx = context.WithValue(ctx, http.LocalAddrContextKey, addr)
					}
					rec := httptest.NewRecorder()
					b.ServeHTTP(rec, req.WithContext(ctx))
					want := row.other
					if strings.HasSuffix(listener, "loopback") {
						want = row.loopback
					}
					require.Equal(t, want, rec.Code, "%s over %s", path, listener)
				}
			}
		})
	}
	for _, host := range []string{"", ".", "http://agents.example", "a b"} {
		_, err := runtime.New(t.Context(), runtime.Config{AllowedHosts: []string{host}})
		require.ErrorContains(t, err, "is not a host name")
	}
}

func TestCrossSiteRequestsReadNothing(t *testing.T) {
	open, locked := filesAt(t), filesAt(t, "key")
	for _, path := range []string{"/v1/files/content?path=a.txt", "/v1/files", "/v1/agents", "/v1/agents/helper", "/health"} {
		for _, method := range []string{"GET", "HEAD"} {
			for site, status := range map[string]int{"": 200, "none": 200, "same-origin": 200, "same-site": 200, "cross-site": 403} {
				res := open.do(t, method, path, "", "Sec-Fetch-Site", site, "Sec-Fetch-Mode", "navigate")
				require.Equal(t, status, res.status, "%s %s from %q", method, path, site)
				require.Equal(t, "same-origin", res.header.Get("Cross-Origin-Resource-Policy"))
			}
			res := locked.do(t, method, path, "", "Sec-Fetch-Site", "cross-site", "x-api-key", "key")
			require.Equal(t, 200, res.status, "a key is proof enough")
			require.Equal(t, "same-origin", res.header.Get("Cross-Origin-Resource-Policy"))
		}
	}
}

func TestEncodedSlashIsNotASeparator(t *testing.T) {
	b := filesAt(t)
	mux := http.NewServeMux()
	mux.Handle("/ai/", http.StripPrefix("/ai", b.Runtime))
	mounted := httptest.NewServer(mux)
	defer mounted.Close()
	for _, row := range []struct {
		method, path string
		status       int
	}{
		{"POST", "/v1/agents%2Fhelper%2Fruns", 404},
		{"POST", "/v1/agents%2fhelper/runs", 404},
		{"POST", "/v1/agents/helper%2Fruns", 404},
		{"POST", "/v1%2Fagents/helper/runs", 404},
		{"POST", "/%2Fv1/agents/helper/runs", 404},
		{"POST", "/%76%31%2Fagents/helper/runs", 404},
		{"POST", "/v1/agents/helper%252Fruns", 405}, // of an agent "helper%2Fruns",
		{"POST", "/v1/runs%2F4a6f1b2c-3d4e-4f50-a6b7-c8d9e0f1a2b3%2Fcancel", 404},
		{"GET", "/v1/files%2Fcontent?path=a.txt", 404},
		{"GET", "/v1/files%2fcontent?path=a.txt", 404},
		{"GET", "/v1/files%252Fcontent?path=a.txt", 404},
		{"GET", "/v1/agents%2F..%2Ffiles", 404},
		{"GET", "/v1/agents/..%2ffiles", 404},
		{"GET", "/v1/agents/..%2f..%2fv1/files", 404},
		{"GET", "/v1%2Fagents", 404},
		{"GET", "/v1/agents%2F", 404},
		{"GET", "/health%2Fready", 404},
		{"GET", "/v1/%61gents/helper", 200},
		{"GET", "/v1/files/content?path=.%2Fa.txt", 200},
	} {
		for _, prefix := range []string{b.url, mounted.URL + "/ai"} {
			at := *b
			at.url = prefix
			require.Equal(t, row.status, at.do(t, row.method, row.path, hello, asJSON...).status, "%s %s%s", row.method, prefix, row.path)
		}
	}
	at := *b
	at.url = mounted.URL
	for _, path := range []string{"/ai%2Fv1/agents", "/ai%2Fv1%2Fagents", "/ai/v1%2Fagents"} {
		require.Equal(t, 404, at.do(t, "GET", path, "").status, path)
	}
	// A handler in front may have decoded the path without the raw one.
	req := httptest.NewRequest(http.MethodGet, "/ai/v1/agents%2Fhelper", nil)
	req.Host, req.URL.Path = "localhost", "/v1/agents/helper"
	rec := httptest.NewRecorder()
	b.ServeHTTP(rec, req)
	require.Equal(t, 404, rec.Code)
}

// requireUncached checks that a shared cache cannot store a response, and that a client's own
// cache stores only the contents of files, with validators.
func requireUncached(t *testing.T, request string, res response) {
	t.Helper()
	switch got := strings.Join(res.header.Values("Cache-Control"), ", "); {
	case strings.HasPrefix(res.header.Get("Content-Type"), "text/event-stream"):
		require.Equal(t, "no-cache, no-transform, no-store", got, request)
	case strings.Contains(request, "/v1/files/content") && res.status < 400:
		require.Equal(t, "private, no-cache", got, request)
		require.NotEmpty(t, res.header.Get("ETag"))
		require.NotEmpty(t, res.header.Get("Last-Modified"))
	default:
		require.Equal(t, "no-store", got, "%s: %d", request, res.status)
	}
}

func TestNoResponseIsStoredByCaches(t *testing.T) {
	for keyed, b := range map[bool]*bench{false: filesAt(t), true: filesAt(t, "key")} {
		for _, route := range b.Routes() {
			method, path, _ := strings.Cut(route, " ")
			path = strings.NewReplacer(":agentId", "helper", ":runId", "4a6f1b2c-3d4e-4f50-a6b7-c8d9e0f1a2b3").Replace(path)
			for _, target := range []string{path, path + "?path=a.txt", path + "?path=nothing", path + "/nothing", path + "%2F"} {
				for _, headers := range [][]string{
					nil, {"x-api-key", "wrong"}, {"x-api-key", "key"}, {"Host", "evil.example"}, {"Sec-Fetch-Site", "cross-site"},
					{"x-api-key", "key", "Range", "bytes=0-1"}, {"x-api-key", "key", "Range", "bytes=99-"},
					{"x-api-key", "key", "If-None-Match", "*"}, {"x-api-key", "key", "If-Match", `"x"`},
					{"x-api-key", "key", "Accept", "application/json"}, {"x-api-key", "key", "Accept", "text/html"},
				} {
					for _, m := range []string{method, "OPTIONS"} {
						requireUncached(t, fmt.Sprintf("%s %s %v keyed %t", m, target, headers, keyed), b.do(t, m, target, hello, headers...))
					}
				}
			}
		}
	}
}

func TestAnyHostIsAllowedWithAKey(t *testing.T) {
	b := serve(t, nil, func(c *runtime.Config) { c.APIKeys = []string{"key"} })
	require.Equal(t, http.StatusOK, b.do(t, "GET", "/v1/agents", "", "x-api-key", "key", "Host", "agents.example").status)
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
	res, run := b.blocking(t, `{"message":"hello"}`)
	require.Equal(t, http.StatusOK, res.status)
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
	]`, b.do(t, "GET", "/v1/agents", "").body, "in the order of the configuration; Edit adds Write")
	require.JSONEq(t, `{"id":"zed","name":"Zed","model":"demo","status":"ready","maxTurns":3,"hasSystemPrompt":true,"allowedTools":["Read","Edit(docs/**)"],
		"sandbox":{"mode":"auto","files":false,"network":false,"reason":"the runtime is configured without OpenSandbox"}}`, b.do(t, "GET", "/v1/agents/zed", "").body)
	res := b.do(t, "GET", "/v1/agents/alpha", "")
	require.Equal(t, http.StatusOK, res.status)
	require.JSONEq(t, `{"id":"alpha","name":"alpha","model":"m","status":"unavailable","maxTurns":10,"hasSystemPrompt":true,
		"sandbox":{"mode":"auto","files":false,"network":false,"reason":"the agent is unavailable"}}`, res.body)
	require.Contains(t, b.log.String(), "missing.md", "the reason is logged")
	require.Contains(t, b.Unavailable(), "alpha")

	health := b.do(t, "GET", "/health", "").body
	require.Regexp(t, `^\{"status":"degraded","agents":2,"uptimeMs":\d+,"version":"v1.2.3"\}$`, health)
	require.JSONEq(t, `{"status":"ready"}`, b.do(t, "GET", "/health/ready", "").body)
	head := b.do(t, "HEAD", "/health", "")
	require.Equal(t, http.StatusOK, head.status)
	require.Empty(t, head.body)
}

func TestNewReportsEveryFault(t *testing.T) {
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

// A key is replaced while the runtime serves.
func TestSetAPIKeys(t *testing.T) {
	b := serve(t, nil, func(c *runtime.Config) { c.APIKeys = []string{"first-key"} })
	status := func(key string) int { return b.do(t, "GET", "/v1/agents", "", "x-api-key", key).status }
	require.NoError(t, b.SetAPIKeys([]string{"first-key", "second-key"}))
	require.Equal(t, []int{200, 200}, []int{status("first-key"), status("second-key")})
	require.NoError(t, b.SetAPIKeys([]string{"second-key"}))
	require.Equal(t, []int{401, 200}, []int{status("first-key"), status("second-key")})
	for _, keys := range [][]string{nil, {}, {""}, {"third-key", ""}} {
		require.Error(t, b.SetAPIKeys(keys), "a runtime with keys never becomes one without")
	}
	require.Equal(t, []int{401, 200, 401}, []int{status("first-key"), status("second-key"), status("third-key")})
}
