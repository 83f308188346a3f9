package deployment_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/hub/internal/store"
)

func TestCrashLoopEndsAsFailed(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		for n := range 4 {
			h.reach("running")
			w.driver.Kill(key)
			h.until(func(s apitest.Object) bool { return s["state"] == "running" && s["restartCount"] == float64(n+1) })
		}
		w.driver.Kill(key)
		failed := h.reach("failed")
		require.Contains(t, failed["error"], "The runtime ended: ")
		require.Contains(t, failed["error"], "out of memory")
		require.Equal(t, "running", failed["desired"])
		h.ada.Post(path+"/start", nil).Want(http.StatusAccepted)
		require.Nil(t, h.reach("running")["error"])
	})
}

// A hub that was just started knows from the platform how long a runtime ran.
func TestARuntimeThatRanForLongIsNotInACrashLoop(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start(func(c *deployment.Config) { c.Driver = aged{w.driver} })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		for n := range 7 {
			h.reach("running")
			w.driver.Kill(key)
			h.until(func(s apitest.Object) bool { return s["state"] == "running" && s["restartCount"] == float64(n+1) })
		}
	})
}

// aged is a driver whose runtimes were started a minute earlier.
type aged struct{ deploy.Driver }

func (a aged) Observe(ctx context.Context, ref deploy.Ref) (deploy.Observed, error) {
	obs, err := a.Driver.Observe(ctx, ref)
	obs.Runtimes = slices.Clone(obs.Runtimes)
	for i := range obs.Runtimes {
		obs.Runtimes[i].StartedAt = obs.Runtimes[i].StartedAt.Add(-time.Minute)
	}
	return obs, err
}

// breakable returns a variable that makes runtimes fail at their starts.
func breakable(w *world) *atomic.Bool {
	broken := new(atomic.Bool)
	w.driver.Serve = func(req deploy.Request) (http.Handler, error) {
		if broken.Load() {
			return nil, errors.New("out of memory")
		}
		return deploytest.Ready(req)
	}
	return broken
}

// The cause of a crash loop may end by itself, such as too little memory.
func TestAFailedRevisionThatServedIsStartedAgain(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		broken := breakable(w)
		h := w.start(func(c *deployment.Config) { c.RetryEvery = 10 * time.Millisecond })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		broken.Store(true)
		w.driver.Kill(key)
		s := h.reach("failed")
		require.Contains(t, s["error"], "out of memory")
		require.Equal(t, false, condition(s, "applied")["status"])
		broken.Store(false)
		s = h.reach("running")
		require.Nil(t, s["error"])
		require.Equal(t, true, condition(s, "applied")["status"])
	})
}

// The conditions are those of the next revision as soon as it serves.
func TestConditionsOfTheNextRevision(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		broken := breakable(w)
		h := w.start(func(c *deployment.Config) { c.Backoff, c.WatchEvery = time.Second, time.Second })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		broken.Store(true)
		w.driver.Kill(key)
		h.until(func(s apitest.Object) bool { return condition(s, "applied")["status"] == false })
		broken.Store(false)
		s := h.redeploy("second", 2)
		for _, kind := range []string{"applied", "ready", "Progressing"} {
			c := condition(s, kind)
			require.Equal(t, apitest.Object{"type": kind, "status": true, "changedAt": c["changedAt"]}, c)
		}
	})
}

// By default, a runtime is probed each second.
func TestDefaultOfProbes(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		probes, _ := w.probed()
		h := w.start(func(c *deployment.Config) { c.WatchEvery = 0 })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		began, first := time.Now(), probes.Load()
		require.Eventually(t, func() bool { return probes.Load() >= first+3 }, patience, time.Millisecond)
		require.Greater(t, time.Since(began), time.Second)
	})
}

// A deployment whose request is not stored is not started again, and can be deployed again.
func TestARequestThatIsNotStored(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		w.exec(`DELETE FROM deployment_revisions`)
		w.driver.Kill(key)
		require.Equal(t, "the revision is not stored", h.reach("failed")["error"])
		require.Equal(t, 1, w.driver.Applied())
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		require.Nil(t, h.reach("running")["error"])
	})
}

// The pause after a failure doubles up to a minute. After five failures, a revision that was ready
// before is started again from time to time.
func TestPausesAfterFailures(t *testing.T) {
	t.Parallel()
	t.Run("default", func(t *testing.T) {
		testPausesAfterFailures(t, 0, 0, 500*time.Millisecond, time.Second, 2*time.Second, 4*time.Second, time.Minute)
	})
	t.Run("chosen", func(t *testing.T) {
		testPausesAfterFailures(t, 10*time.Second, 2*time.Minute, 10*time.Second, 20*time.Second, 40*time.Second, time.Minute, 2*time.Minute)
	})
}

func testPausesAfterFailures(t *testing.T, backoff, retryEvery time.Duration, pauses ...time.Duration) {
	t.Helper()
	each(t, func(t *testing.T, w *world) {
		broken := breakable(w)
		began := time.Now().UTC().Truncate(time.Microsecond)
		var passed atomic.Int64
		now := func() time.Time { return began.Add(time.Duration(passed.Load())) }
		h := w.start(func(c *deployment.Config) {
			c.Store = apitest.NewStore(t, w.db, store.Config{Keyring: apitest.Keyring(t, w.keys...), Now: now})
			c.Backoff, c.RetryEvery = backoff, retryEvery
		})
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		broken.Store(true)
		w.driver.Kill(key)
		failed := func(times int) (retry time.Duration) {
			t.Helper()
			require.Eventually(t, func() bool {
				var failures int
				var at sql.NullInt64
				require.NoError(t, w.db.Read().QueryRowContext(t.Context(), `SELECT failures, retry_at FROM deployments`).Scan(&failures, &at))
				retry = time.UnixMicro(at.Int64).Sub(now())
				return failures == times
			}, patience, pause)
			return retry
		}
		for n, want := range pauses {
			require.Equal(t, want, failed(n+1))
			require.Equal(t, n == 4, h.ada.Get(path).Want(http.StatusOK)["state"] == "failed")
			broken.Store(n < 4)
			passed.Add(int64(want))
		}
		h.reach("running")
		failed(0) // it is not in a crash loop
		var waits int
		require.NoError(t, w.db.Read().QueryRowContext(t.Context(), `SELECT COUNT(retry_at) FROM deployments`).Scan(&waits))
		require.Zero(t, waits)
	})
}
