package main_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/internal/pgtest"
)

// A reserve counts for all hubs. That of a run whose hub is killed is counted when the lease of the
// hub ends, because nothing reports the tokens of the run. No other one ends.
func TestReservesOfAKilledHub(t *testing.T) {
	t.Parallel()
	p := openProduct(t, database(t, pgtest.URL(t))...)
	p.send(201, "POST", adminAgents, `{"name":"guide","providerId":"demo","model":"demo","tools":["Bash"],"permissionMode":"bypassPermissions"}`)
	p.deploy("guide")
	p.send(200, "PUT", "/api/v1/admin/budgets/agent/guide", `{"period":"month","unit":"tokens","hard":2000000,"reserve":1000000}`)
	key := p.send(200, "GET", adminAgents+"/guide/deploy", "").string(t, "apiKey")
	other := spawn(t, p.path, p.env)
	begin := func(hub string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hub+"/runtime/guide/v1/agents/guide/runs",
			strings.NewReader(`{"message":"/tool Bash {\"command\":\"sleep 100\"}"}`))
		require.NoError(t, err)
		req.Header = http.Header{"X-Api-Key": {key}, "Content-Type": {"application/json"}}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		t.Cleanup(func() { _ = res.Body.Close() })
		return res.StatusCode
	}
	require.Equal(t, http.StatusOK, begin(other.URL))
	require.Equal(t, http.StatusOK, begin(p.URL))
	require.Equal(t, http.StatusTooManyRequests, begin(p.URL), "the other hub has a reserve")
	kill(t, other)
	counted := func() bool {
		totals, ok := p.send(200, "GET", "/api/v1/admin/usage", "").body["totals"].(map[string]any)
		require.True(t, ok)
		return totals["estimates"] == 1.0
	}
	require.Eventually(t, counted, daemontest.Patience, 100*time.Millisecond)
	require.Equal(t, http.StatusTooManyRequests, begin(p.URL), "it is counted, and the hub has extended its own reserve")
	p.send(200, "PUT", "/api/v1/admin/budgets/agent/guide", `{"period":"month","unit":"tokens","hard":3000000,"reserve":1000000}`)
	require.Equal(t, http.StatusOK, begin(p.URL), "it is counted once")
	require.Equal(t, http.StatusTooManyRequests, begin(p.URL))
}
