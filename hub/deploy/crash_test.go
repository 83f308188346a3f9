package deploy_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/api/apitest"
	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
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
		h := w.start(func(c *deploy.Config) { c.Driver = aged{w.driver} })
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

func (a aged) Observe(ctx context.Context, key string) (deploy.Observed, error) {
	obs, err := a.Driver.Observe(ctx, key)
	obs.Runtimes = slices.Clone(obs.Runtimes)
	for i := range obs.Runtimes {
		obs.Runtimes[i].StartedAt = obs.Runtimes[i].StartedAt.Add(-time.Minute)
	}
	return obs, err
}

// The cause of a crash loop may end by itself, such as too little memory.
func TestAFailedRevisionThatServedIsStartedAgain(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		var broken atomic.Bool
		w.driver.Serve = func(req deploy.Request) (http.Handler, error) {
			if broken.Load() {
				return nil, errors.New("out of memory")
			}
			return deploytest.Ready(req)
		}
		h := w.start(func(c *deploy.Config) { c.RetryEvery = 10 * time.Millisecond })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		broken.Store(true)
		w.driver.Kill(key)
		require.Contains(t, h.reach("failed")["error"], "out of memory")
		broken.Store(false)
		require.Nil(t, h.reach("running")["error"])
	})
}
