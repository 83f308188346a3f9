package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	mcpsdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/sse"
)

// The MCP servers of a deployment are one of its conditions. A server that fails takes only its own
// tools, and the condition follows when it works.
func TestMCPServersAreACondition(t *testing.T) {
	t.Parallel()
	p := openProduct(t)
	works := atomic.Bool{}
	server := mcpsdk.NewServer(&mcpsdk.Implementation{Name: "docs", Version: "1"}, nil)
	handler := mcpsdk.NewStreamableHTTPHandler(func(*http.Request) *mcpsdk.Server { return server }, nil)
	docs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !works.Load() {
			http.Error(w, "closed for the night", http.StatusForbidden)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(docs.Close)
	p.send(201, "POST", adminAgents, `{"name":"guide","providerId":"demo","model":"demo"}`)
	ready := func(s map[string]any) map[string]any {
		for _, c := range s["conditions"].([]any) {
			if c := c.(map[string]any); c["type"] == "McpServersReady" {
				return c
			}
		}
		return nil
	}
	p.send(201, "POST", "/api/v1/admin/mcps", `{"name":"docs","transport":"http","url":"`+docs.URL+`"}`)
	p.send(201, "POST", "/api/v1/admin/mcps", `{"name":"none","transport":"stdio","command":"there-is-no-such-command"}`)
	p.send(200, "PUT", adminAgents+"/guide/mcps", `{"items":["docs","none"]}`)
	p.deploy("guide")
	s := p.until("guide", func(s map[string]any) bool {
		require.Equal(t, "running", s["state"])
		c := ready(s)
		return c != nil && strings.Contains(fmt.Sprint(c["message"]), "closed for the night") && strings.Contains(fmt.Sprint(c["message"]), "none is failed: ")
	})
	require.Equal(t, false, ready(s)["status"])
	require.Regexp(t, "(?s)^docs is failed: .*403.*\nnone is failed: ", ready(s)["message"])
	chat := p.session("guide")
	require.Contains(t, p.send(200, "POST", chat+"/messages", `{"message":"hello"}`).text, "hub.saved")
	p.send(200, "PUT", adminAgents+"/guide/mcps", `{"items":["docs"]}`)
	p.deploy("guide")
	p.until("guide", func(s map[string]any) bool {
		c := ready(s)
		return c != nil && !strings.Contains(fmt.Sprint(c["message"]), "none")
	})
	works.Store(true)
	p.until("guide", func(s map[string]any) bool {
		p.send(200, "POST", chat+"/messages", `{"message":"hello"}`) // a run connects it again
		return ready(s)["status"] == true
	})
	p.send(202, "POST", adminAgents+"/guide/deploy/stop", "")
	require.Nil(t, ready(p.until("guide", func(s map[string]any) bool { return s["state"] == "stopped" })))
	p.remove("guide")
}

// A run through /runtime outlasts a redeploy, and can be cancelled after it.
func TestARunOfAFormerRevisionIsCancelled(t *testing.T) {
	t.Parallel()
	p := openProduct(t)
	p.send(201, "POST", adminAgents, `{"name":"guide","providerId":"demo","model":"demo"}`)
	p.deploy("guide")
	key := p.until("guide", func(map[string]any) bool { return true })["apiKey"].(string)
	post := func(path, body string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL+"/runtime/guide/v1"+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header = http.Header{"X-Api-Key": {key}, "Content-Type": {"application/json"}}
		res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
		require.NoError(t, err)
		t.Cleanup(func() { _ = res.Body.Close() })
		return res
	}
	const id = "22222222-2222-4222-8222-222222222222"
	run := post("/agents/guide/runs", `{"message":"`+strings.Repeat("a long message ", 20000)+`","runId":"`+id+`"}`)
	require.Equal(t, http.StatusOK, run.StatusCode)
	events := sse.NewDecoder(run.Body)
	_, err := events.Next()
	require.NoError(t, err)
	p.send(202, "POST", adminAgents+"/guide/deploy", `{"force":true}`)
	p.until("guide", func(s map[string]any) bool { return s["servingRevision"] == 2.0 })
	require.Equal(t, http.StatusNotFound, post("/runs/33333333-3333-4333-8333-333333333333/cancel", "").StatusCode)
	require.Equal(t, http.StatusAccepted, post("/runs/"+id+"/cancel", "").StatusCode)
	var last sse.Event
	for ev, err := range events.Events() {
		require.NoError(t, err)
		if ev.Type != "done" {
			last = ev
		}
	}
	require.Equal(t, "cancelled", last.Type)
	require.Contains(t, string(last.Data), "client_request")
	p.remove("guide")
}
