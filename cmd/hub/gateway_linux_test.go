package main_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/hub/gateway/gatewaytest"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

// behind starts a hub whose agents are behind a gateway.
func behind(t *testing.T, kind string, gateway *gatewaytest.Server) *product {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte(gatewaytest.AdminKey), 0o600))
	p := openProduct(t, "GATEWAY_KIND", kind, "GATEWAY_URL", gateway.Proxy+"/", "GATEWAY_ADMIN_URL", gateway.Admin, "GATEWAY_ADMIN_KEY_FILE", key)
	p.send(201, "POST", adminAgents, `{"name":"guide","providerId":"demo","model":"demo"}`)
	return p
}

func routed(s map[string]any) bool {
	return slices.ContainsFunc(s["conditions"].([]any), func(c any) bool {
		return c.(map[string]any)["type"] == "Routed" && c.(map[string]any)["status"] == true
	})
}

func (p *product) restart() {
	p.t.Helper()
	p.Process = spawn(p.t, p.path, p.env)
}

// A whole run, a streamed one and its cancel go through the gateway, and after a redeploy too. When
// the deployment is deleted, nothing is left at the gateway.
func TestAgentsBehindAGateway(t *testing.T) {
	t.Parallel()
	for kind, start := range map[string]func(testing.TB) *gatewaytest.Server{"kong": gatewaytest.Kong, "apisix": gatewaytest.APISIX} {
		t.Run(kind, func(t *testing.T) {
			gateway := start(t)
			p := behind(t, kind, gateway)
			p.deploy("guide")
			s := p.until("guide", routed)
			url := s["publicUrl"].(string)
			require.Equal(t, gateway.Proxy+"/guide", url)
			plain := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			c, err := client.New(client.Config{BaseURL: url, APIKey: s["apiKey"].(string), HTTPClient: plain})
			require.NoError(t, err)
			answer, err := c.Complete(t.Context(), "guide", wire.RunRequest{Message: "hello"})
			require.NoError(t, err)
			require.Contains(t, answer.Text, "hello")

			post := func(path, key, body string) *http.Response {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1"+path, strings.NewReader(body))
				require.NoError(t, err)
				req.Header = http.Header{"X-Api-Key": {key}, "Content-Type": {"application/json"}}
				res, err := plain.Do(req)
				require.NoError(t, err)
				t.Cleanup(func() { _ = res.Body.Close() })
				return res
			}
			const id = "22222222-2222-4222-8222-222222222222"
			require.Equal(t, http.StatusUnauthorized, post("/agents/guide/runs", "none", `{"message":"x"}`).StatusCode)
			run := post("/agents/guide/runs", s["apiKey"].(string), `{"message":"`+strings.Repeat("a long message ", 20000)+`","runId":"`+id+`"}`)
			require.Equal(t, http.StatusOK, run.StatusCode)
			events := sse.NewDecoder(run.Body)
			for range 5 { // they arrive while the run continues: it is cancelled below
				_, err := events.Next()
				require.NoError(t, err)
			}
			require.Equal(t, http.StatusAccepted, post("/runs/"+id+"/cancel", s["apiKey"].(string), "").StatusCode)
			var last sse.Event
			for ev, err := range events.Events() {
				require.NoError(t, err)
				if ev.Type != "done" {
					last = ev
				}
			}
			require.Equal(t, "cancelled", last.Type)

			first := s["runtimeUrl"]
			p.send(202, "POST", adminAgents+"/guide/deploy", `{"force":true}`)
			require.NotEqual(t, first, p.until("guide", func(s map[string]any) bool { return s["servingRevision"] == 2.0 && routed(s) })["runtimeUrl"])
			_, err = c.Complete(t.Context(), "guide", wire.RunRequest{Message: "hello"})
			require.NoError(t, err)
			p.remove("guide")
			require.Empty(t, gateway.Names("routes"))
			require.Empty(t, gateway.Names("services"))
			res, err := plain.Get(url + "/v1/agents") //nolint:noctx // of this process
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, res.Body)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, http.StatusNotFound, res.StatusCode)
			for _, text := range []string{p.seen.String(), p.Stdout.String(), p.Log.String()} {
				require.NotContains(t, text, gatewaytest.AdminKey)
			}
		})
	}
}

// A hub that is killed before any write at the gateway completes it after its next start.
func TestHubIsKilledAtTheGateway(t *testing.T) {
	t.Parallel()
	gateway := gatewaytest.Kong(t)
	p := behind(t, "kong", gateway)
	killAt := func(call string) (killed *atomic.Bool) {
		killed = new(atomic.Bool)
		gateway.Fail(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method+" "+r.URL.Path != call || killed.Swap(true) {
				return false
			}
			_ = p.Cmd.Process.Kill() // the test waits for its end
			panic(http.ErrAbortHandler)
		})
		return killed
	}
	send := func(method string) { // the hub may be killed before it responds
		req, err := http.NewRequestWithContext(t.Context(), method, p.URL+adminAgents+"/guide/deploy", http.NoBody)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+p.token)
		if res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req); err == nil {
			require.NoError(t, res.Body.Close())
		}
	}
	wait := func(killed *atomic.Bool) {
		require.Eventually(t, killed.Load, daemontest.Patience, 5*time.Millisecond)
		p.Wait(t)
		p.restart()
	}
	for _, kind := range []string{"services", "routes"} {
		killed := killAt("PUT /" + kind + "/default-guide")
		send(http.MethodPost)
		wait(killed)
		p.until("guide", routed)
		require.Equal(t, []string{"default-guide"}, gateway.Names("routes"))

		killed = killAt("DELETE /" + kind + "/default-guide")
		send(http.MethodDelete)
		wait(killed)
		p.until("guide", func(s map[string]any) bool { return s["state"] == "not_deployed" })
		require.Empty(t, gateway.Names("routes"))
		require.Empty(t, gateway.Names("services"))
	}
	require.Empty(t, runtimes(p.path))
}
