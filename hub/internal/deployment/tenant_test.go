package deployment_test

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/logtest"
)

// endTenant ends the access to the deployments of the tenant default.
func (h *hub) endTenant(stop bool) (n int) {
	h.t.Helper()
	require.NoError(h.t, h.store().Change(h.t.Context(), store.Change{Caller: h.ada.Caller}, func(tx *store.Tx) (err error) {
		n, err = h.EndTenant(h.t.Context(), tx, "default", stop)
		return err
	}))
	return n
}

// keyAt returns the status of a runtime for a request with a key.
func keyAt(t *testing.T, url, key string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/agents", nil)
	require.NoError(t, err)
	req.Header.Set("x-api-key", key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	return res.StatusCode
}

// The deployments of a tenant stop, and their former keys are never valid again.
func TestDeploymentsOfATenantEnd(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		require.Zero(t, h.endTenant(true))
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		first := h.reach("running")
		former := first["apiKey"].(string)
		require.Equal(t, http.StatusOK, keyAt(t, first["runtimeUrl"].(string), former))

		second := w.start() // another replica, which may have the lease later
		require.Equal(t, 1, second.endTenant(true))
		stopped := h.until(func(s apitest.Object) bool { return s["state"] == "stopped" })
		require.NotEqual(t, former, stopped["apiKey"])
		require.NotEqual(t, http.StatusOK, keyAt(t, first["runtimeUrl"].(string), former))
		h.ada.Post(path+"/start", nil).Want(http.StatusAccepted)
		again := h.reach("running")
		require.Equal(t, stopped["apiKey"], again["apiKey"])
		require.Equal(t, http.StatusOK, keyAt(t, again["runtimeUrl"].(string), again["apiKey"].(string)))
		require.Equal(t, http.StatusUnauthorized, keyAt(t, again["runtimeUrl"].(string), former))
		require.Equal(t, false, again["configDrift"])

		w.driver.Fail(deploy.ErrUnavailable)
		h.ada.Post(path+"/rotate-key", nil).Want(http.StatusAccepted)
		require.NoError(t, h.authorize("default", "helper", again["apiKey"].(string)))
		require.Equal(t, 1, h.endTenant(false)) // the runtime continues with another key
		require.ErrorIs(t, h.authorize("default", "helper", again["apiKey"].(string)), wire.Unauthenticated, "from now on")
		deploying := h.ada.Get(path).Want(http.StatusOK)
		require.Equal(t, []any{"deploying", nil, nil}, []any{deploying["state"], deploying["runtimeUrl"], deploying["servingRevision"]})
		var rotation string
		require.NoError(t, w.db.Read().QueryRowContext(t.Context(), `SELECT rotation FROM deployments`).Scan(&rotation))
		require.Empty(t, rotation, "that of the former key has ended")
		w.driver.Fail(nil)
		next := h.until(func(s apitest.Object) bool {
			return s["state"] == "running" && keyAt(t, s["runtimeUrl"].(string), s["apiKey"].(string)) == http.StatusOK
		})
		require.NotEqual(t, again["apiKey"], next["apiKey"])
		require.Equal(t, http.StatusUnauthorized, keyAt(t, next["runtimeUrl"].(string), again["apiKey"].(string)))
		h.ada.Delete(path).Want(http.StatusNoContent)
		h.reach("not_deployed")
		require.Zero(t, h.endTenant(true))
		var d bodies.DeployRequest
		h.ada.Post(path, d).Want(http.StatusAccepted)
		h.reach("running")
	})
}

// A deployment whose key cannot be replaced stops. One that is being deleted does not prevent that
// others end.
func TestADamagedDeploymentOfATenantEnds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.agent("default", "deleted")
		w.agent("default", "third")
		log, deleted := &logtest.Buffer{}, "/api/v1/admin/agents/deleted/deploy"
		h := w.start(func(c *deployment.Config) { c.Store.Logger = slog.New(slog.NewTextHandler(log, nil)) })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		w.driver.Fail(deploy.ErrUnavailable)
		h.ada.Post(deleted, nil).Want(http.StatusAccepted)
		h.ada.Delete(deleted).Want(http.StatusNoContent)
		w.exec(`UPDATE deployments SET sealed = key_digest WHERE agent_name = 'helper'`)
		h.ada.Post("/api/v1/admin/agents/third/deploy", nil).Want(http.StatusAccepted)
		require.Equal(t, 2, h.endTenant(true))
		require.Contains(t, log.String(), "the key of a deployment cannot be replaced")
		w.driver.Fail(nil)
		w.awaitAlive()
		var desired string
		require.NoError(t, w.db.Read().QueryRowContext(t.Context(), `SELECT desired FROM deployments WHERE agent_name = 'helper'`).Scan(&desired))
		require.Equal(t, "stopped", desired)
	})
}
