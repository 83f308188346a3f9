package main_test

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/internal/db/pgtest"
	"github.com/seed93082962/agenthost/sse"
)

// start starts a run at /runtime of a hub, which calls a tool that does not end, and returns the
// status after the first event.
func start(t *testing.T, hub, agent, key string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hub+"/runtime/"+agent+"/v1/agents/"+agent+"/runs",
		strings.NewReader(`{"message":"/tool Bash {\"command\":\"sleep 100\"}"}`))
	require.NoError(t, err)
	req.Header = http.Header{"X-Api-Key": {key}, "Content-Type": {"application/json"}}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode == http.StatusOK {
		_, err = sse.NewDecoder(res.Body).Next()
		require.NoError(t, err)
	}
	return res.StatusCode
}

// twoAgents starts a hub with the deployed agents guide, which has a hard limit of some reserves,
// and plain, which has none. It returns the API keys of their deployments.
func twoAgents(t *testing.T, reserves int, env ...string) (p *product, guide, plain string) {
	t.Helper()
	p = openProduct(t, env...)
	for _, name := range []string{"guide", "plain"} {
		p.send(201, "POST", adminAgents, `{"name":"`+name+`","providerId":"demo","model":"demo","tools":["Bash"],"permissionMode":"bypassPermissions"}`)
		p.deploy(name)
	}
	p.limit(reserves)
	key := func(name string) string {
		return p.send(200, "GET", adminAgents+"/"+name+"/deploy", "").string(t, "apiKey")
	}
	return p, key("guide"), key("plain")
}

// limit gives the agent guide a hard limit of some reserves of a million tokens.
func (p *product) limit(reserves int) {
	p.t.Helper()
	p.send(200, "PUT", "/api/v1/admin/budgets/agent/guide", fmt.Sprintf(`{"period":"month","unit":"tokens","hard":%d,"reserve":1000000}`, reserves*1_000_000))
}

// used returns what an agent has used.
func (p *product) used(agent string) (runs, estimates, tokens float64) {
	p.t.Helper()
	for _, item := range p.send(200, "GET", "/api/v1/admin/usage?by=agent&agent="+agent, "").body["items"].([]any) {
		row := item.(map[string]any)
		marked, _ := row["estimates"].(float64)
		return row["runs"].(float64), marked, row["inputTokens"].(float64) + row["outputTokens"].(float64)
	}
	return 0, 0, 0
}

// awaitEstimates waits until all runs of an agent are counted and marked as estimated.
func (p *product) awaitEstimates(agent string, want float64) (tokens float64) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		var runs, estimates float64
		runs, estimates, tokens = p.used(agent)
		return runs == want && estimates == want
	}, daemontest.Patience, 100*time.Millisecond, agent)
	return tokens
}

// A reserve counts for all hubs. That of a run whose hub is killed is counted when the lease of the
// hub ends, because nothing reports the tokens of the run. No other one ends.
func TestReservesOfAKilledHub(t *testing.T) {
	t.Parallel()
	p, guide, plain := twoAgents(t, 2, database(t, pgtest.URL(t))...)
	other := spawn(t, p.path, p.env)
	require.Equal(t, http.StatusOK, start(t, other.URL, "plain", plain))
	require.Equal(t, http.StatusOK, start(t, other.URL, "guide", guide))
	require.Equal(t, http.StatusOK, start(t, p.URL, "guide", guide))
	require.Equal(t, http.StatusTooManyRequests, start(t, p.URL, "guide", guide), "the other hub has a reserve")
	kill(t, other)
	require.EqualValues(t, 1_000_000, p.awaitEstimates("guide", 1))
	p.awaitEstimates("plain", 1)
	require.Equal(t, http.StatusTooManyRequests, start(t, p.URL, "guide", guide), "it is counted, and the hub has extended its own reserve")
	p.limit(3)
	require.Equal(t, http.StatusOK, start(t, p.URL, "guide", guide), "it is counted once")
	require.Equal(t, http.StatusTooManyRequests, start(t, p.URL, "guide", guide))
}

// Answers and runs at /runtime whose runtime is killed while they stream count their reserves, or
// are marked as estimated if there is none.
func TestRunsOfAKilledRuntime(t *testing.T) {
	t.Parallel()
	p, guide, plain := twoAgents(t, 2)
	for name, key := range map[string]string{"guide": guide, "plain": plain} {
		events, stop := p.ask(p.session(name), `/tool Bash {"command":"sleep 100"}`)
		t.Cleanup(stop)
		for kind := ""; kind != "assistant"; { // it calls the tool
			ev, err := events.Next()
			require.NoError(t, err)
			kind = ev.Type
		}
		require.Equal(t, http.StatusOK, start(t, p.URL, name, key))
	}
	for _, pid := range runtimes(p.path) {
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	require.GreaterOrEqual(t, p.awaitEstimates("guide", 2), 2e6)
	p.awaitEstimates("plain", 2)
	p.until("guide", func(s map[string]any) bool { return s["state"] == "running" && s["restartCount"] == 1.0 })
	require.Equal(t, http.StatusTooManyRequests, start(t, p.URL, "guide", guide), "both have used the budget")
}
