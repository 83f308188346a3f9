package deployment_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// The endpoint of a deployment that another hub has is remembered for 1.5 s.
func TestEndpointIsRemembered(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		first := h.reach("running")
		require.NoError(t, h.Close())
		other := w.start(func(c *deployment.Config) { c.Driver = nil })
		url := func() string {
			e, err := other.Endpoint(t.Context(), "default", "helper")
			require.NoError(t, err)
			require.NoError(t, other.authorize("default", "helper", string(e.APIKey)))
			return e.URL
		}
		for remembered := false; !remembered; { // until both are read within the time
			w.exec(`UPDATE deployments SET runtime_url = 'http://127.0.0.1:1'`)
			require.Eventually(t, func() bool { return url() == "http://127.0.0.1:1" }, patience, pause)
			w.exec(`UPDATE deployments SET runtime_url = '` + first["runtimeUrl"].(string) + `'`)
			require.Eventually(t, func() bool { return url() == first["runtimeUrl"] }, patience, pause) // it was read just now
			began := time.Now()
			w.exec(`UPDATE deployments SET runtime_url = 'http://127.0.0.1:1'`)
			now := url()
			if remembered = time.Since(began) < time.Second; remembered {
				require.Equal(t, first["runtimeUrl"], now)
			}
		}
	})
}

// The memory of endpoints is bounded: with one more than 4096, it begins anew.
func TestRememberedEndpointsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, dbtest.SQLite(t, series...)) // there, 4096 statements take less than 1.5 s
	h := w.start()
	h.ada.Post(path, nil).Want(http.StatusAccepted)
	h.reach("running")
	require.NoError(t, h.Close())
	w.exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4096)
		INSERT INTO deployments (key, tenant_id, agent_name, desired, edition, revision, spec_hash, sealed, linked_at, deployed_at, deployed_by, machine,
			state, health, serving, hub_id)
		SELECT 'many-' || i, 'many', 'agent' || i, 'stopped', 1, 1, '', sealed, 0, 0, '', '', 'stopped', 'unknown', 0, '' FROM deployments, n`)
	other := w.start(func(c *deployment.Config) { c.Driver = nil })
	e, err := other.Endpoint(t.Context(), "default", "helper")
	require.NoError(t, err)
	w.exec(`UPDATE deployments SET runtime_url = 'http://127.0.0.1:1' WHERE agent_name = 'helper'`)
	for i := range 4096 {
		_, err := other.Endpoint(t.Context(), "many", "agent"+strconv.Itoa(i+1))
		require.ErrorIs(t, err, wire.Unavailable)
	}
	now, err := other.Endpoint(t.Context(), "default", "helper")
	require.NoError(t, err)
	require.NotEqual(t, e.URL, now.URL)
}

// replicated is a driver whose runtimes have two processes each.
type replicated struct{ deploy.Driver }

func (r replicated) Observe(ctx context.Context, ref deploy.Ref) (deploy.Observed, error) {
	o, err := r.Driver.Observe(ctx, ref)
	for i := range o.Runtimes {
		o.Runtimes[i].Replicas = []string{o.Runtimes[i].URL + "/a", o.Runtimes[i].URL + "/b"}
	}
	return o, err
}

// The processes of a deployment are those of its runtimes that run.
func TestReplicas(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		f := w.failing()
		h := w.start(func(c *deployment.Config) { c.Driver = replicated{f} })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		url := h.reach("running")["runtimeUrl"].(string)
		urls, err := h.Replicas(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, []string{url + "/a", url + "/b"}, urls)
		h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
		h.reach("stopped")
		urls, err = h.Replicas(t.Context(), key)
		require.NoError(t, err)
		require.Empty(t, urls)
		f.set("Observe", errors.New("the platform is busy"))
		_, err = h.Replicas(t.Context(), key)
		require.ErrorContains(t, err, "find replicas: the platform is busy")
	})
}

// A hub without a driver knows no runtimes of former revisions, and no processes.
func TestRuntimesWithoutADriver(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start(func(c *deployment.Config) { c.Driver = nil })
		urls, err := h.Draining(t.Context(), key, "", "")
		require.NoError(t, err)
		require.Empty(t, urls)
		urls, err = h.Replicas(t.Context(), key)
		require.NoError(t, err)
		require.Empty(t, urls)
		_, err = h.Endpoint(t.Context(), "default", "helper")
		require.ErrorIs(t, err, code.AgentNotDeployed)
	})
}

// A service needs a store, a catalog and a public address. One of an operator's command needs no
// address, and controls nothing.
func TestConfig(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		full := deployment.Config{Store: w.store(), Catalog: w.catalog, Driver: w.driver, PublicURL: "https://hub.example.com"}
		for _, row := range []struct {
			change func(*deployment.Config)
			want   string
		}{
			{func(c *deployment.Config) { c.Store = nil }, "Store and Catalog are required"},
			{func(c *deployment.Config) { c.Catalog = nil }, "Store and Catalog are required"},
			{func(c *deployment.Config) { c.PublicURL = "/" }, "PublicURL is required"},
		} {
			c := full
			row.change(&c)
			_, err := deployment.New(t.Context(), c)
			require.ErrorContains(t, err, row.want)
		}
		offline := w.start(func(c *deployment.Config) { c.Offline, c.PublicURL = true, "" })
		offline.ada.Post(path, nil).Error(http.StatusServiceUnavailable, code.DeployerUnavailable)
	})
}

// What a database has of deployments is found before and after there are any.
func TestDeploymentsOfADatabase(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.skill(http.MethodPost, "review", "Reviews.")
		a := w.agents("default").Get("/api/v1/admin/agents/helper").Want(http.StatusOK)
		a["skills"] = []string{"review"}
		w.agents("default").Put("/api/v1/admin/agents/helper", a).Want(http.StatusOK)
		h := w.start()
		has := func(tenant string) (has bool) {
			t.Helper()
			require.NoError(t, w.db.Tx(t.Context(), func(tx *sql.Tx) (err error) {
				has, err = h.HasDeployments(t.Context(), tx, tenant)
				return err
			}))
			return has
		}
		artifacts := func() []string {
			t.Helper()
			keys, err := deployment.ArtifactKeys(t.Context(), w.db.Read())
			require.NoError(t, err)
			return keys
		}
		require.False(t, has("default"))
		require.Empty(t, artifacts())
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		require.True(t, has("default"))
		require.False(t, has("acme"))
		keys := artifacts()
		require.Len(t, keys, 1)
		named, err := h.Referenced(t.Context(), keys)
		require.NoError(t, err)
		require.Equal(t, map[string]bool{keys[0]: true}, named)
		named, err = h.Referenced(t.Context(), nil)
		require.NoError(t, err)
		require.Empty(t, named)
	})
}

func TestEndpoint(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		_, err := h.Endpoint(t.Context(), "default", "helper")
		require.ErrorIs(t, err, code.AgentNotDeployed)
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		status := h.reach("running")
		e, err := h.Endpoint(t.Context(), "default", "helper")
		require.NoError(t, err)
		require.Equal(t, deployment.Endpoint{URL: status["runtimeUrl"].(string), APIKey: agent.Secret(status["apiKey"].(string)), AgentID: "helper", Key: key}, e)
		deployed, err := h.Deployed(t.Context(), w.db.Read(), "default", "helper")
		require.NoError(t, err)
		require.True(t, deployed)
		_, err = h.Endpoint(t.Context(), "other", "helper")
		require.ErrorIs(t, err, wire.NotFound)
		h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
		_, err = h.Endpoint(t.Context(), "default", "helper")
		require.ErrorIs(t, err, wire.Unavailable, "a change of this hub is visible immediately")
		h.ada.Delete(path).Want(http.StatusNoContent)
		deployed, err = h.Deployed(t.Context(), w.db.Read(), "default", "helper")
		require.NoError(t, err)
		require.False(t, deployed)
	})
}
