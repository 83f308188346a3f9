package deployment_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/agent"
)

func (h *hub) authorize(tenant, agent, key string) error {
	_, err := h.Authorize(h.t.Context(), tenant, agent, key)
	return err
}

func TestAuthorize(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.agent("default", "other")
		h := w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		apiKey := h.reach("running")["apiKey"].(string)
		other := h.ada.Post("/api/v1/admin/agents/other/deploy", nil).Want(http.StatusAccepted)["apiKey"].(string)
		e, err := h.Authorize(t.Context(), "default", "helper", apiKey)
		require.NoError(t, err)
		require.EqualValues(t, apiKey, e.APIKey)
		for _, row := range [][3]string{
			{"default", "helper", ""}, {"default", "helper", other}, {"default", "helper", "rt_" + strings.Repeat("0", 48)}, {"default", "helper", strings.ToUpper(apiKey)},
			{"default", "other", apiKey}, {"default", "unknown", apiKey}, {"acme", "helper", apiKey}, {"", "", apiKey}, {"default", strings.Repeat("x", 1<<20), apiKey},
		} {
			require.ErrorIs(t, h.authorize(row[0], row[1], row[2]), wire.Unauthenticated)
		}
		h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
		require.ErrorIs(t, h.authorize("default", "helper", apiKey), wire.Unavailable, "a caller with the key may know why")
		require.ErrorIs(t, h.authorize("default", "helper", other), wire.Unauthenticated)
		h.ada.Delete(path).Want(http.StatusNoContent)
		require.ErrorIs(t, h.authorize("default", "helper", apiKey), wire.Unauthenticated)
		h.reach("not_deployed")
		require.ErrorIs(t, h.authorize("default", "helper", apiKey), wire.Unauthenticated)
	})
}

// A row of an older version has no digest until a hub has read it.
func TestKeysOfAnOlderVersionAreIndexed(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		apiKey := h.reach("running")["apiKey"].(string)
		require.NoError(t, h.Close())
		_, err := w.db.Write().ExecContext(t.Context(), `UPDATE deployments SET key_digest = NULL`)
		require.NoError(t, err)
		_, err = w.db.Write().ExecContext(t.Context(), `DELETE FROM deployment_readers`)
		require.NoError(t, err)
		h = w.start()
		require.Eventually(t, func() bool { return h.authorize("default", "helper", apiKey) == nil }, patience, pause)
		h.removed("someone")
		h.replaced(apiKey)
	})
}

// replaced waits until a deployment has another key than the former one, and the runtime too.
func (h *hub) replaced(former string) (next string) {
	h.t.Helper()
	s := h.until(func(s apitest.Object) bool {
		return s["apiKey"] != former && string(h.driver.Request(key).Env[deploy.EnvAPIKey]) == s["apiKey"]
	})
	next = s["apiKey"].(string)
	require.Eventually(h.t, func() bool { return h.authorize("default", "helper", next) == nil }, patience, pause)
	require.ErrorIs(h.t, h.authorize("default", "helper", former), wire.Unauthenticated)
	return next
}

// removed removes a user as package user does.
func (h *hub) removed(user string) { h.demoted(user, "") }

func (h *hub) demoted(user string, role rbac.Role) {
	h.t.Helper()
	require.NoError(h.t, h.store().Change(h.t.Context(), store.Change{Caller: h.ada.Caller}, func(tx *store.Tx) error {
		return h.RotateKeysReadBy(h.t.Context(), tx, h.ada.Caller, "default", user, role)
	}))
}

func TestRotateKey(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		keys := &keyed{Driver: w.driver}
		h := w.start(func(c *deployment.Config) { c.Driver, c.StartTimeout = keys, time.Hour })
		rotate := path + "/rotate-key"
		bob := h.server.As("default", "bob", rbac.Member)
		h.ada.Post(rotate, nil).Error(http.StatusConflict, code.AgentNotDeployed)
		h.ada.Post("/api/v1/admin/agents/nothing/deploy/rotate-key", nil).Error(http.StatusNotFound, wire.NotFound)
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		running := h.reach("running")
		bob.Post(rotate, nil).Error(http.StatusForbidden, wire.Forbidden)

		first := running["apiKey"].(string)
		h.ada.Post(rotate, nil).Want(http.StatusAccepted)
		var valid time.Time // the last time at which it was the key
		require.Eventually(t, func() bool {
			now := time.Now()
			changed := h.ada.Get(path).Want(http.StatusOK)["apiKey"] != first
			if !changed {
				valid = now
			}
			return changed
		}, patience, pause)
		second := h.replaced(first)
		require.Greater(t, keys.single.Load().Sub(valid), 3*time.Second, "other hubs may have the former key")
		ended := func() bool {
			var rotation string
			err := w.db.Read().QueryRowContext(t.Context(), `SELECT rotation FROM deployments`).Scan(&rotation)
			return err == nil && rotation == ""
		}
		require.Eventually(t, ended, patience, pause)
		after := h.reach("running")
		require.Equal(t, running["startedAt"], after["startedAt"], "no run was ended")
		require.Equal(t, false, after["configDrift"])
		require.Equal(t, 1, w.driver.Applied())

		h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
		h.reach("stopped")
		h.ada.Post(rotate, nil).Want(http.StatusAccepted)
		stopped := h.until(func(s apitest.Object) bool { return s["apiKey"] != second })
		h.ada.Post(path+"/start", nil).Want(http.StatusAccepted)
		require.Equal(t, stopped["apiKey"], h.reach("running")["apiKey"])
		h.replaced(second)
		require.Contains(t, h.audit(), `agent.rotate_key helper {"deploymentKey":"default-helper"}`)
		require.NotContains(t, h.server.Log.String()+strings.Join(h.audit(), ""), stopped["apiKey"])
		h.ada.Delete(path).Want(http.StatusNoContent)
		h.ada.Post(rotate, nil).Error(http.StatusConflict, code.AgentNotDeployed)
		h.reach("not_deployed")
		var n int
		require.NoError(t, w.db.Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM deployment_readers`).Scan(&n))
		require.Zero(t, n)
	})
}

// keyed is a driver that notes when the runtimes first got a single key.
type keyed struct {
	deploy.Driver
	single atomic.Pointer[time.Time]
}

func (k *keyed) SetKeys(ctx context.Context, ref deploy.Ref, keys []agent.Secret) error {
	if len(keys) == 1 {
		k.single.CompareAndSwap(nil, new(time.Now()))
	}
	return k.Driver.SetKeys(ctx, ref, keys)
}

// The former key is valid until the runtime accepts the next one.
func TestRotationWaitsForTheRuntime(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		slow := &keyless{Driver: w.driver, resume: make(chan struct{})}
		h := w.start(func(c *deployment.Config) { c.Driver = slow })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		first := h.reach("running")["apiKey"].(string)
		for range 3 { // a rotation in progress continues
			require.Equal(t, first, h.ada.Post(path+"/rotate-key", nil).Want(http.StatusAccepted)["apiKey"])
		}
		require.NoError(t, h.authorize("default", "helper", first))
		require.NoError(t, h.Close()) // the next hub continues it
		h = w.start(func(c *deployment.Config) { c.Driver = slow })
		require.NoError(t, h.authorize("default", "helper", first))
		before := slow.calls.Load()
		require.Eventually(t, func() bool { return slow.calls.Load() >= before+3 }, patience, pause)
		close(slow.resume)
		h.replaced(first)
		require.Len(t, h.audit(), 2)
		require.Equal(t, 1, w.driver.Applied(), "it is not started again")
	})
}

// A rotation continues after an error of the driver, which is logged.
func TestRotationAfterAnErrorOfTheDriver(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		log := &logtest.Buffer{}
		h := w.start(func(c *deployment.Config) { c.Store.Logger = slog.New(slog.NewTextHandler(log, nil)) })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		first := h.reach("running")["apiKey"].(string)
		w.driver.Fail(errors.New("no space left on device"))
		h.ada.Post(path+"/rotate-key", nil).Want(http.StatusAccepted)
		require.Eventually(t, func() bool { return strings.Contains(log.String(), "rotate key of deployment") }, patience, pause)
		require.NoError(t, h.authorize("default", "helper", first))
		w.driver.Fail(nil)
		h.replaced(first)
	})
}

// keyless is a driver that delivers no keys until resume is closed.
type keyless struct {
	deploy.Driver
	resume chan struct{}
	calls  atomic.Int64
}

func (k *keyless) SetKeys(ctx context.Context, ref deploy.Ref, keys []agent.Secret) error {
	k.calls.Add(1)
	select {
	case <-k.resume:
		return k.Driver.SetKeys(ctx, ref, keys)
	default:
		return nil
	}
}

// A runtime that does not take the next key is started again with it.
func TestRotationDoesNotDependOnTheRuntime(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		deaf := &keyless{Driver: w.driver, resume: make(chan struct{})}
		h := w.start(func(c *deployment.Config) { c.Driver, c.StartTimeout = deaf, 200*time.Millisecond })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		first := h.reach("running")["apiKey"].(string)
		h.ada.Post(path+"/rotate-key", nil).Want(http.StatusAccepted)
		h.replaced(first)
		require.Equal(t, 3, w.driver.Applied(), "with both keys, and then with the next one only")
	})
}

// A rotation ends although the last revision has failed: the one that serves is started again. A
// restart that fails is repeated without further revisions, until one succeeds.
func TestRotationAfterAFailedDeploy(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.faulty()
		serve := w.driver.Serve
		var full atomic.Bool
		var attempts atomic.Int64
		w.driver.Serve = func(req deploy.Request) (http.Handler, error) {
			if full.Load() {
				attempts.Add(1)
				return nil, errors.New("no space left on device")
			}
			return serve(req)
		}
		deaf := &keyless{Driver: w.driver, resume: make(chan struct{})}
		h := w.start(func(c *deployment.Config) { c.Driver, c.StartTimeout = deaf, 50*time.Millisecond })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		running := h.reach("running")
		first := running["apiKey"].(string)
		w.prompt("faulty")
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		failed := func(s apitest.Object) bool { return condition(s, "Progressing")["status"] == false }
		h.until(failed)
		full.Store(true)
		began := time.Now()
		h.ada.Post(path+"/rotate-key", nil).Want(http.StatusAccepted)
		require.Eventually(t, func() bool { return attempts.Load() >= 15 }, patience, time.Millisecond) // three restarts
		require.Greater(t, time.Since(began), (1+2+4)*50*time.Millisecond, "the pause between them doubles")
		s := h.until(failed)
		require.Equal(t, 3.0, s["revision"], "the first one again")
		require.Equal(t, running["specHash"], s["specHash"])
		require.Equal(t, true, s["configDrift"])
		full.Store(false)
		h.replaced(first)
		require.Equal(t, "first", w.driver.Request(key).Config.SystemPrompt)
		h.serves(4) // with both keys, and then with the next one only
	})
}

// Only the keys that a removed user has read are rotated.
func TestKeysOfARemovedUserAreRotated(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.driver.Serve = deploytest.Ready
		h := w.start(func(c *deployment.Config) { c.HideAPIKey = true })
		bob, eve := h.server.As("default", "bob", rbac.Member), h.server.As("default", "eve", rbac.Maintainer)
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		first := h.reach("running")["apiKey"].(string)
		require.Nil(t, bob.Get(path).Want(http.StatusOK)["apiKey"])
		h.removed(bob.Caller.UserID)
		h.removed(eve.Caller.UserID)
		h.removed("*")
		require.Len(t, h.audit(), 1, "neither has read the key")
		require.Equal(t, first, eve.Get(path).Want(http.StatusOK)["apiKey"])
		h.removed(eve.Caller.UserID)
		second := h.replaced(first)
		require.Len(t, h.audit(), 2)
		h.removed(eve.Caller.UserID)
		require.Equal(t, second, h.ada.Get(path).Want(http.StatusOK)["apiKey"], "eve has not read the next one")
		require.Len(t, h.audit(), 2)
		w.agent("default", "other")
		eve.Post("/api/v1/admin/agents/other/deploy", nil).Want(http.StatusAccepted)
		eve.Get(path).Want(http.StatusOK)
		h.removed(eve.Caller.UserID)
		require.Len(t, h.audit(), 5, "a deploy, and both keys")
	})
}

// The key of a user who may not read it any more is rotated too.
func TestKeysOfADemotedUserAreRotated(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		hidden bool
		role   rbac.Role
		rotate bool
	}{
		"members read keys": {false, rbac.Member, false},
		"maintainer":        {true, rbac.Maintainer, false},
		"member":            {true, rbac.Member, true},
		"no role":           {false, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				h := w.start(func(c *deployment.Config) { c.HideAPIKey = row.hidden })
				eve := h.server.As("default", "eve", rbac.Admin)
				h.ada.Post(path, nil).Want(http.StatusAccepted)
				first := eve.Get(path).Want(http.StatusOK)["apiKey"].(string)
				h.demoted(eve.Caller.UserID, row.role)
				if row.rotate {
					h.replaced(first)
				}
				require.Equal(t, row.rotate, len(h.audit()) == 2)
			})
		})
	}
}

// A rotation is in the audit log of the tenant of its deployment, whoever withdraws the access.
func TestRotationByTheHubIsInTheLogOfTheTenant(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		bob := h.server.As("default", "bob", rbac.Maintainer)
		bob.Get(path).Want(http.StatusOK)
		require.NoError(t, h.store().Change(t.Context(), store.Change{}, func(tx *store.Tx) error {
			return h.RotateKeysReadBy(t.Context(), tx, api.Caller{}, "default", bob.Caller.UserID, "")
		}))
		require.Contains(t, h.audit(), `agent.rotate_key helper {"deploymentKey":"default-helper"}`)
	})
}

// A user who is removed while the key is read has not read it, or it is rotated.
func TestKeysThatAreReadDuringTheRemovalAreRotated(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		first := h.reach("running")["apiKey"].(string)
		bob := h.server.As("default", "bob", rbac.Member).Caller
		removed := make(chan error, 1)
		status, err := h.Status(db.WithCheck(t.Context(), func(context.Context, *sql.Tx) error { // before the commit
			go func() {
				removed <- h.store().Change(t.Context(), store.Change{Caller: h.ada.Caller}, func(tx *store.Tx) error {
					return h.RotateKeysReadBy(t.Context(), tx, h.ada.Caller, "default", bob.UserID, "")
				})
			}()
			if h.db.Engine() == db.SQLite { // which has one transaction at a time
				return nil
			}
			require.Eventually(t, func() bool {
				var waiting int
				err := h.db.Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM pg_stat_activity
					WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
				return err == nil && waiting > 0 || len(removed) > 0
			}, patience, pause)
			return nil
		}), bob, "helper")
		require.NoError(t, err)
		require.Equal(t, first, status.APIKey)
		require.NoError(t, <-removed)
		h.replaced(first)
	})
}
