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
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/logtest"
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
	w.exec(`UPDATE deployments SET hub_id = '` + hubID + `', lease_fence = lease_fence + 1`)
}

// The first hub is frozen in a call of the driver, and does not notice that it was removed.
func TestFormerHolderIsFenced(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		frozen := &freezer{Driver: w.driver, resume: make(chan struct{}), entered: make(chan struct{}), result: make(chan error, 1)}
		first := w.start(func(c *deployment.Config) { c.Driver = frozen })
		first.ada.Post(path, nil).Want(http.StatusAccepted)
		<-frozen.entered
		second := w.start()
		w.give(second.member.HubID)
		second.reach("running")
		close(frozen.resume)
		require.ErrorIs(t, <-frozen.result, deploy.ErrFenced)
		require.Equal(t, 1, w.driver.Applied())
	})
}

// freezer stops before the first Apply until resume is closed.
type freezer struct {
	deploy.Driver
	once            sync.Once
	resume, entered chan struct{}
	result          chan error
}

func (f *freezer) Apply(ctx context.Context, claim deploy.Claim, revision int64, req deploy.Request) error {
	first := false
	f.once.Do(func() {
		first = true
		close(f.entered)
		<-f.resume
	})
	err := f.Driver.Apply(ctx, claim, revision, req)
	if first {
		f.result <- err
	}
	return err
}

// fence returns the fence of the deployment.
func (w *world) fence() (fence int64) {
	w.t.Helper()
	require.NoError(w.t, w.db.Read().QueryRowContext(w.t.Context(), `SELECT lease_fence FROM deployments`).Scan(&fence))
	return fence
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

// A runtime without a row is stopped, unless there is a row when that is decided.
func TestARowThatIsInsertedInTheMeantime(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		first := w.start(func(c *deployment.Config) { c.WatchEvery = time.Hour }) // it lists the platform only once
		first.ada.Post(path, nil).Want(http.StatusAccepted)
		first.reach("running")
		claim := deploy.Claim{Key: key, Fence: w.fence(), Owner: w.owner()}
		first.ada.Delete(path).Want(http.StatusNoContent)
		first.reach("not_deployed")
		require.NoError(t, w.driver.Apply(t.Context(), claim, 7, deploy.Request{}))
		inserted := make(chan error, 1)
		late := &observer{Driver: w.driver, first: func() {
			_, err := first.Deploy(t.Context(), first.ada.Caller, "helper", wire.DeployRequest{})
			inserted <- err
		}}
		w.start(func(c *deployment.Config) { c.Driver = late })
		require.Eventually(t, func() bool { return len(inserted) > 0 }, patience, pause)
		require.NoError(t, <-inserted)
		require.Eventually(t, func() bool { return late.lists.Load() > 1 }, patience, pause)
		require.Zero(t, late.stops.Load())
		first.serves(1)
	})
}

// observer is a driver that calls first in the first call of Observe, and counts others.
type observer struct {
	deploy.Driver
	once         sync.Once
	first        func()
	lists, stops atomic.Int64
}

func (o *observer) Observe(ctx context.Context, key string) (deploy.Observed, error) {
	obs, err := o.Driver.Observe(ctx, key)
	o.once.Do(o.first)
	return obs, err
}

func (o *observer) List(ctx context.Context, owner string) ([]string, error) {
	o.lists.Add(1)
	return o.Driver.List(ctx, owner)
}

func (o *observer) Stop(ctx context.Context, claim deploy.Claim, revision int64, patience time.Duration) error {
	o.stops.Add(1)
	return o.Driver.Stop(ctx, claim, revision, patience)
}
