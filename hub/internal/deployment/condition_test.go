package deployment_test

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// described makes the runtimes describe their agent with MCP servers, or fail with nil. It returns
// the number of requests.
func (w *world) described(servers *atomic.Pointer[map[string]wire.MCPServer]) *atomic.Int64 {
	var requests atomic.Int64
	w.driver.Serve = func(req deploy.Request) (http.Handler, error) {
		ready, err := deploytest.Ready(req)
		mux := http.NewServeMux()
		mux.Handle("/", ready)
		mux.HandleFunc("GET /v1/agents/helper", func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			all := servers.Load()
			if all == nil || r.Header.Get("X-Api-Key") != string(req.Env[deploy.EnvAPIKey]) {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(wire.AgentDetail{ID: "helper", MCPServers: *all}) // the hub may have left
		})
		return mux, err
	}
	return &requests
}

// The condition has the state of the MCP servers, which is read again from time to time. It is that
// of the runtime that serves.
func TestConditionOfServers(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		var servers atomic.Pointer[map[string]wire.MCPServer]
		set := func(all map[string]wire.MCPServer) { servers.Store(&all) }
		requests := w.described(&servers)
		read := func() { // a request that began later has ended
			t.Helper()
			before := requests.Load()
			require.Eventually(t, func() bool { return requests.Load() >= before+2 }, patience, pause)
		}
		connected := map[string]wire.MCPServer{"docs": {Status: "connected"}, "files": {Status: "connected"}}
		set(map[string]wire.MCPServer{
			"none": {Status: "failed", Error: "there is no such command\nplanted"}, "docs": {Status: "pending"}, "files": {Status: "connected"},
		})
		h := w.start(func(c *deployment.Config) { c.WatchEvery = 10 * time.Millisecond })
		ready := func(s apitest.Object) apitest.Object { return condition(s, "McpServersReady") }
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		c := ready(h.until(func(s apitest.Object) bool { return ready(s) != nil }))
		require.Equal(t, apitest.Object{
			"type": "McpServersReady", "status": false, "message": "docs is pending\nnone is failed: there is no such command", "changedAt": c["changedAt"],
		}, c)
		read()
		require.Equal(t, c, ready(h.reach("running")), "it has not changed")
		set(connected)
		c = ready(h.until(func(s apitest.Object) bool { return ready(s)["status"] == true }))
		require.NotContains(t, c, "message")
		servers.Store(nil)
		read()
		require.Equal(t, c, ready(h.reach("running")), "that of the last response")
		set(nil)
		h.until(func(s apitest.Object) bool { return ready(s) == nil })

		set(connected)
		began, first := time.Now(), requests.Load()
		require.Eventually(t, func() bool { return requests.Load() >= first+10 }, patience, time.Millisecond)
		require.Greater(t, time.Since(began), 6*5*10*time.Millisecond, "not with each probe")

		for _, end := range []func(){
			func() { h.redeploy("second", 2) },
			func() {
				w.driver.Kill(key)
				h.until(func(s apitest.Object) bool { return s["state"] == "running" && s["restartCount"] == 1.0 })
			},
			func() {
				h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
				h.reach("stopped")
			},
		} {
			set(connected)
			h.until(func(s apitest.Object) bool { return ready(s) != nil })
			servers.Store(nil) // of the next runtime too
			read()
			end()
			require.Nil(t, ready(h.ada.Get(path).Want(http.StatusOK)))
		}
	})
}

// No response to a request that begins anew has the failure of a former revision that never served.
func TestConditionsBeginWithARevision(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.faulty()
		h := w.start(func(c *deployment.Config) { c.StartTimeout = 50 * time.Millisecond })
		failed := func() {
			s := h.reach("failed")
			require.Equal(t, false, condition(s, "Progressing")["status"])
			require.Equal(t, false, condition(s, "ready")["status"])
		}
		w.prompt("faulty")
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		for _, request := range []string{path, path + "/start"} {
			failed()
			next := h.ada.Post(request, nil).Want(http.StatusAccepted)
			require.Empty(t, next["conditions"], request)
			require.Nil(t, next["error"], request)
		}
		failed()
		w.prompt("correct")
		next := h.ada.Post(path, nil).Want(http.StatusAccepted)
		require.Empty(t, next["conditions"])
		require.Equal(t, true, condition(h.reach("running"), "Progressing")["status"])
	})
}
