package interop_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// caches are shared caches that store what they may: Varnish with its built-in configuration, and
// nginx.
var caches = map[string]struct {
	config  string
	command func(dir, config, port string) (program string, args []string)
}{
	"varnish": {"vcl 4.1;\nbackend server { .host = \"127.0.0.1\"; .port = \"3000\"; }\n", func(dir, config, port string) (string, []string) {
		return "varnishd", append(varnish(dir, port), "-f", config)
	}},
	"nginx": {`user root;
events {}
http {
	proxy_cache_path cache keys_zone=all:1m;
	server {
		listen 127.0.0.1:8081;
		location / {
			proxy_pass http://127.0.0.1:3000;
			proxy_cache all;
			proxy_cache_valid any 1m;
			add_header X-Cache $upstream_cache_status;
		}
	}
}
`, nginx},
}

// TestCaches: a shared cache serves nothing of a runtime and of a hub to a client without a
// credential that another client has read with one.
func TestCaches(t *testing.T) {
	h := openHub(t)
	up := modeltest.Start(t, modeltest.Anthropic)
	h.deploy(t, "bot", up.URL)
	apiKey := h.deployment(t, "bot").Key
	tool := h.uploadTool(t, h.url, "cached", "")
	for name, cache := range caches {
		t.Run(name, func(t *testing.T) {
			runtime := configured(t, "cache.conf", cache.config, cache.command, serve(t, agent.Agent{}))
			for _, path := range []string{"/v1/agents", "/v1/agents/bot", "/v1/files", "/v1/files?recursive=true", "/v1/files/content?path=a.txt"} {
				requireNotCached(t, runtime+path, "X-Api-Key", key)
			}
			hub := configured(t, "cache.conf", cache.config, cache.command, h.url)
			for _, path := range []string{
				"/auth/userinfo", "/auth/sessions", "/api/v1/agents", "/api/v1/agents/manifest", "/api/v1/agents/bot", "/api/v1/agents/bot/detail",
				"/api/v1/providers", "/api/v1/admin/agents/bot/export", "/api/v1/admin/agents/bot/files", "/api/v1/admin/audit-logs",
				"/api/v1/admin/agents/bot/deploy", "/api/v1/admin/tools/cached/download",
			} {
				requireNotCached(t, hub+path, "Authorization", "Bearer "+h.token)
				// Some caches are configured to store responses to requests with Authorization.
				require.Contains(t, "no-store private, no-cache private, no-store", do(t, h.request(t, "GET", hub+path, "")).Header.Get("Cache-Control"), path)
			}
			for _, path := range []string{"/v1/agents", "/v1/agents/bot", "/v1/files"} {
				requireNotCached(t, hub+"/runtime/bot"+path, "X-Api-Key", apiKey)
			}
			// The source of a tool is public and never changes: the cache works.
			do(t, get(t, hub+tool))
			again := do(t, get(t, hub+tool))
			require.Equal(t, http.StatusOK, again.StatusCode)
			require.True(t, again.Header.Get("X-Cache") == "HIT" || len(strings.Fields(again.Header.Get("X-Varnish"))) == 2, "%v", again.Header)
		})
	}
}

// requireNotCached requires that a response to a request with a credential is not served without
// it, again and again.
func requireNotCached(t *testing.T, url, header, credential string) {
	t.Helper()
	for _, with := range []bool{true, true, false, true, false} {
		req := get(t, url)
		if with {
			req.Header.Set(header, credential)
		}
		resp := do(t, req)
		require.Equal(t, with, resp.StatusCode == http.StatusOK, "%s: %s", url, resp.Status)
	}
}
