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

// A reserve counts for all hubs. That of a hub that is killed ends with its lease, and no other one
// does.
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
	require.Eventually(t, func() bool { return begin(p.URL) == http.StatusOK }, daemontest.Patience, 100*time.Millisecond)
	require.Equal(t, http.StatusTooManyRequests, begin(p.URL), "the hub has extended its own reserves")
}
