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
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/logtest"
)

func TestAnotherHubTakesOver(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		first := w.start()
		first.ada.Post(path, nil).Want(http.StatusAccepted)
		started := first.reach("running")["startedAt"]
		second := w.start(func(c *deployment.Config) { c.LeaseTime = time.Hour }) // a lease that was returned is free
		require.Equal(t, started, second.ada.Get(path).Want(http.StatusOK)["startedAt"])
		require.NoError(t, first.Close())
		second.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
		second.reach("stopped")
	})
}

// A lease of a hub that was killed is taken when the only hub on SQLite starts, and otherwise after
// the lease time.
func TestAHubWasKilled(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		first := w.start()
		first.ada.Post(path, nil).Want(http.StatusAccepted)
		first.reach("running")
		require.NoError(t, first.Close())
		w.exec(`UPDATE deployments SET lease_holder = 'killed'`)
		next := w.start(func(c *deployment.Config) {
			if w.db.Engine() == db.SQLite {
				c.LeaseTime = time.Hour
			}
		})
		next.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
		next.reach("stopped")
	})
}

// The first hub is frozen in a call of the driver, after it has checked its lease. It looks at its
// leases so seldom that it does not notice that it has lost this one.
func TestFormerHolderIsFenced(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		frozen := &freezer{Driver: w.driver, resume: make(chan struct{}), entered: make(chan struct{}), result: make(chan error, 1)}
		first := w.start(func(c *deployment.Config) { c.Driver, c.LeaseTime = frozen, time.Hour })
		first.ada.Post(path, nil).Want(http.StatusAccepted)
		<-frozen.entered
		second := w.start()
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

// A hub takes a lease whose beat has not changed for the lease time, and no other one.
func TestALeaseLastsWhileItBeats(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		watched := &beating{Driver: w.driver, w: w}
		second := w.start(func(c *deployment.Config) { c.Driver, c.LeaseTime = watched, 100*time.Millisecond })
		listed := func(times int64) {
			t.Helper()
			before := watched.lists.Load()
			require.Eventually(t, func() bool { return watched.lists.Load() >= before+times }, patience, pause)
		}
		listed(2)                                                                // the first poll has ended, which takes all leases on SQLite
		first := w.start(func(c *deployment.Config) { c.LeaseTime = time.Hour }) // it renews no lease in this test
		first.ada.Post(path, nil).Want(http.StatusAccepted)
		fence := w.fence()
		listed(5)
		require.Equal(t, fence, w.fence())
		watched.ended.Store(true)
		require.Eventually(t, func() bool { return w.fence() > fence }, patience, pause)
		second.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
		second.reach("stopped")
	})
}

// beating is a driver that renews the leases of other hubs, until it has ended. A reconciler calls
// List before it reads the leases, once in the lease time.
type beating struct {
	deploy.Driver
	w     *world
	lists atomic.Int64
	ended atomic.Bool
}

func (b *beating) List(ctx context.Context, owner string) ([]string, error) {
	if !b.ended.Load() {
		// Also after the end of a poll, whose time is limited: without it, the lease would pass.
		if _, err := b.w.db.Write().ExecContext(context.WithoutCancel(ctx), `UPDATE deployments SET lease_beat = lease_beat + 1`); err != nil {
			return nil, err
		}
	}
	b.lists.Add(1)
	return b.Driver.List(ctx, owner)
}

// A hub that could not renew its leases for most of the lease time does not call the driver:
// another hub may have taken them.
func TestAHubThatDoesNotRenewChangesNothing(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		held, log := holds(t, w), &logtest.Buffer{}
		h := w.start(func(c *deployment.Config) { c.Driver, c.Store.Logger = held, slog.New(slog.NewTextHandler(log, nil)) })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		held.begin()
		w.driver.Kill(key)
		require.Eventually(t, func() bool { return strings.Contains(log.String(), "is controlled by another hub") }, patience, pause)
		require.Equal(t, 1, w.driver.Applied())
		held.end()
		h.until(func(s apitest.Object) bool { return s["state"] == "running" && s["restartCount"] == 1.0 })
	})
}

// A hub that could not renew its leases for most of the lease time does not change the gateway.
func TestAHubThatDoesNotRenewChangesNoRoute(t *testing.T) {
	for name, change := range map[string]func(h *hub){
		"crash":  func(h *hub) { h.world.driver.Kill(key) },
		"stop":   func(h *hub) { h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted) },
		"delete": func(h *hub) { h.ada.Delete(path).Want(http.StatusNoContent) },
	} {
		t.Run(name, func(t *testing.T) {
			onGateways(t, func(t *testing.T, w *routed) {
				held, log := holds(t, w.world), &logtest.Buffer{}
				h := w.open(func(c *deployment.Config) {
					c.Driver, c.Backoff, c.Store.Logger = held, time.Minute, slog.New(slog.NewTextHandler(log, nil))
				})
				w.deploy(h)
				held.begin()
				w.gateway.Writes()
				change(h)
				require.Eventually(t, func() bool { return strings.Contains(log.String(), "is controlled by another hub") }, patience, pause)
				require.Empty(t, w.gateway.Writes())
			})
		})
	}
}

// holding is a driver that holds the reconciler in a call of List.
type holding struct {
	deploy.Driver
	t       testing.TB
	hold    atomic.Bool
	resume  chan struct{}
	entered atomic.Pointer[time.Time]
}

// holds returns a driver that holds nothing yet.
func holds(t *testing.T, w *world) *holding {
	return &holding{Driver: w.driver, t: t, resume: make(chan struct{})}
}

// begin returns when a call was held for the lease time.
func (d *holding) begin() {
	d.t.Helper()
	d.t.Cleanup(d.end) // before the hub is closed, which waits for the call
	d.hold.Store(true)
	require.Eventually(d.t, func() bool { return d.entered.Load() != nil && time.Since(*d.entered.Load()) > lease }, patience, pause)
}

func (d *holding) end() {
	if d.hold.CompareAndSwap(true, false) {
		close(d.resume)
	}
}

func (d *holding) List(ctx context.Context, owner string) ([]string, error) {
	if d.hold.Load() {
		d.entered.CompareAndSwap(nil, new(time.Now()))
		<-d.resume
	}
	return d.Driver.List(ctx, owner)
}

// A runtime without a row is stopped, unless there is a row when that is decided.
func TestARowThatIsInsertedInTheMeantime(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		first := w.start(func(c *deployment.Config) { c.LeaseTime = time.Hour }) // it lists the platform only once
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
		w.start(func(c *deployment.Config) { c.Driver, c.LeaseTime = late, time.Second })
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
