package deployment_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/runtime/agent"
)

func TestAnotherHubTakesOver(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		first := w.start()
		first.ada.Post(path, nil).Want(http.StatusAccepted)
		started := first.reach("running")["startedAt"]
		second := w.start(func(c *deployment.Config) { c.Store = w.store(forever) })
		require.Equal(t, started, second.ada.Get(path).Want(http.StatusOK)["startedAt"])
		require.NoError(t, first.Close())
		second.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
		second.reach("stopped")
	})
}

// A deployment of a hub that was killed is free when another hub has removed that.
func TestAHubWasKilled(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		first := w.start()
		first.ada.Post(path, nil).Want(http.StatusAccepted)
		first.reach("running")
		w.give("killed")
		require.NoError(t, first.Close())
		next := w.start()
		next.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
		next.reach("stopped")
	})
}

// give gives the deployment to a hub, which is silent unless it has joined.
func (w *world) give(hubID string) {
	w.t.Helper()
	w.exec(`INSERT INTO hubs (id, beat) VALUES ('` + hubID + `', 0) ON CONFLICT DO NOTHING`)
	w.exec(`UPDATE deployments SET hub_id = '` + hubID + `'`)
}

// A hub is frozen in a call of the driver, and makes the call after another one controls the
// deployment. What it changes by mistake is repaired.
func TestAFrozenHubThatReturns(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, w *world){
		"apply": func(t *testing.T, w *world) {
			frozen := freeze(w, "Apply")
			frozen.hub.ada.Post(path, nil).Want(http.StatusAccepted)
			second := frozen.replace(t)
			started := second.reach("running")["startedAt"]
			require.NoError(t, frozen.end())
			require.Equal(t, started, second.reach("running")["startedAt"], "one runtime was started")
		},
		"apply after a delete": func(t *testing.T, w *world) {
			frozen := freeze(w, "Apply")
			frozen.hub.ada.Post(path, nil).Want(http.StatusAccepted)
			second := frozen.replace(t)
			second.reach("running")
			former := w.driver.Last(key)
			second.ada.Delete(path).Want(http.StatusNoContent)
			second.reach("not_deployed")
			second.ada.Post(path, nil).Want(http.StatusAccepted)
			started := second.reach("running")["startedAt"]
			require.NoError(t, frozen.end())
			require.Eventually(t, func() bool { return !w.exists(former) }, patience, pause)
			require.Equal(t, started, second.reach("running")["startedAt"])
		},
		"stop": func(t *testing.T, w *world) {
			frozen := freeze(w, "Stop")
			frozen.hub.ada.Post(path, nil).Want(http.StatusAccepted)
			frozen.hub.reach("running")
			frozen.hub.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
			second := frozen.replace(t)
			second.reach("stopped")
			second.ada.Post(path+"/start", nil).Want(http.StatusAccepted)
			started := second.reach("running")["startedAt"]
			require.NoError(t, frozen.end())
			second.until(func(s apitest.Object) bool { return s["state"] == "running" && s["startedAt"] != started })
		},
		"keys": func(t *testing.T, w *world) {
			frozen := freeze(w, "SetKeys")
			frozen.hub.ada.Post(path, nil).Want(http.StatusAccepted)
			former := frozen.hub.reach("running")["apiKey"]
			frozen.hub.ada.Post(path+"/rotate-key", nil).Want(http.StatusAccepted)
			second := frozen.replace(t)
			apiKey := second.until(func(s apitest.Object) bool { return s["apiKey"] != former })["apiKey"]
			accepted := func() bool { return string(w.driver.Request(key).Env[deploy.EnvAPIKey]) == apiKey }
			require.Eventually(t, accepted, patience, pause)
			require.NoError(t, frozen.end())
			require.False(t, accepted())
			require.Eventually(t, accepted, patience, pause)
		},
		"delete": func(t *testing.T, w *world) {
			frozen := freeze(w, "Delete")
			frozen.hub.ada.Post(path, nil).Want(http.StatusAccepted)
			frozen.hub.reach("running")
			frozen.hub.ada.Delete(path).Want(http.StatusNoContent)
			second := frozen.replace(t)
			second.reach("not_deployed")
			second.ada.Post(path, nil).Want(http.StatusAccepted)
			started := second.reach("running")["startedAt"]
			require.NoError(t, frozen.end())
			require.True(t, w.exists(w.driver.Last(key)), "the data of the next deployment remains")
			require.Equal(t, started, second.reach("running")["startedAt"])
		},
	} {
		t.Run(name, func(t *testing.T) { each(t, test) })
	}
}

// exists reports whether the platform has a deployment.
func (w *world) exists(ref deploy.Ref) bool {
	w.t.Helper()
	o, err := w.driver.Observe(w.t.Context(), ref)
	require.NoError(w.t, err)
	return o.Exists
}

// freezer is a driver of a hub that stops before its first call of a method.
type freezer struct {
	deploy.Driver
	hub             *hub
	method          string
	once            sync.Once
	resume, entered chan struct{}
	result          chan error
}

func freeze(w *world, method string) *freezer {
	f := &freezer{Driver: w.driver, method: method, resume: make(chan struct{}), entered: make(chan struct{}), result: make(chan error, 1)}
	f.hub = w.start(func(c *deployment.Config) { c.Driver = f })
	return f
}

// replace waits until the hub is frozen, and starts another one that controls the deployment.
func (f *freezer) replace(t *testing.T) *hub {
	t.Helper()
	<-f.entered
	second := f.hub.start()
	f.hub.give(second.member.HubID)
	return second
}

// end makes the call.
func (f *freezer) end() error {
	close(f.resume)
	return <-f.result
}

func (f *freezer) call(method string, do func() error) error {
	first := false
	if method == f.method {
		f.once.Do(func() {
			first = true
			close(f.entered)
			<-f.resume
		})
	}
	err := do()
	if first {
		f.result <- err
	}
	return err
}

func (f *freezer) Apply(ctx context.Context, ref deploy.Ref, revision int64, req deploy.Request) error {
	return f.call("Apply", func() error { return f.Driver.Apply(ctx, ref, revision, req) })
}

func (f *freezer) Stop(ctx context.Context, ref deploy.Ref, revision int64, patience time.Duration) error {
	return f.call("Stop", func() error { return f.Driver.Stop(ctx, ref, revision, patience) })
}

func (f *freezer) SetKeys(ctx context.Context, ref deploy.Ref, keys []agent.Secret) error {
	return f.call("SetKeys", func() error { return f.Driver.SetKeys(ctx, ref, keys) })
}

func (f *freezer) Delete(ctx context.Context, ref deploy.Ref) error {
	return f.call("Delete", func() error { return f.Driver.Delete(ctx, ref) })
}

// A hub that was removed changes nothing until it controls the deployment again.
func TestAHubThatWasRemovedChangesNothing(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		log := &logtest.Buffer{}
		h := w.start(func(c *deployment.Config) { c.Store = w.store(forever, logs(log)) })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		w.give("another")
		require.Eventually(t, func() bool { return strings.Contains(log.String(), "is controlled by another hub") }, patience, pause)
		w.driver.Kill(key)
		h.ada.Post(path+"/rotate-key", nil).Want(http.StatusAccepted)
		require.Equal(t, "running", h.ada.Get(path).Want(http.StatusOK)["state"])
		require.Equal(t, 1, w.driver.Applied())
		w.exec(`DELETE FROM hubs WHERE id = 'another'`)
		h.until(func(s apitest.Object) bool { return s["state"] == "running" && s["restartCount"] == 1.0 })
	})
}

func logs(log *logtest.Buffer) func(*store.Config) {
	return func(c *store.Config) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) }
}

// A hub that was removed does not change the gateway.
func TestAHubThatWasRemovedChangesNoRoute(t *testing.T) {
	for name, change := range map[string]func(h *hub){
		"crash":  func(h *hub) { h.world.driver.Kill(key) },
		"stop":   func(h *hub) { h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted) },
		"delete": func(h *hub) { h.ada.Delete(path).Want(http.StatusNoContent) },
	} {
		t.Run(name, func(t *testing.T) {
			onGateways(t, func(t *testing.T, w *routed) {
				log, f := &logtest.Buffer{}, w.failing()
				h := w.open(func(c *deployment.Config) { c.Driver, c.Backoff, c.Store = f, time.Minute, w.store(forever, logs(log)) })
				w.deploy(h)
				w.give("another")
				require.Eventually(t, func() bool { return strings.Contains(log.String(), "is controlled by another hub") }, patience, pause)
				w.gateway.Writes()
				change(h)
				f.await(t, "List", 2)
				require.Empty(t, w.gateway.Writes())
			})
		})
	}
}

// A tombstone is forgotten after a day. What appears of the deployment later is stopped, and its
// data remains.
func TestATombstoneLastsForADay(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		var passed atomic.Int64
		h := w.start(func(c *deployment.Config) {
			c.Store = w.store(func(c *store.Config) {
				c.Now = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
			})
		})
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		former := w.driver.Last(key)
		h.ada.Delete(path).Want(http.StatusNoContent)
		h.reach("not_deployed")
		passed.Store(int64(23 * time.Hour))
		require.NoError(t, w.driver.Apply(t.Context(), former, 1, deploy.Request{}))
		require.Eventually(t, func() bool { return !w.exists(former) }, patience, pause)
		passed.Store(int64(25 * time.Hour))
		require.Eventually(t, func() bool {
			var n int
			require.NoError(t, w.db.Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM deployment_tombstones`).Scan(&n))
			return n == 0
		}, patience, pause)
		require.NoError(t, w.driver.Apply(t.Context(), former, 1, deploy.Request{}))
		w.awaitAlive()
		require.True(t, w.exists(former))
	})
}
