package deployment_test

import (
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
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/logtest"
)

// moved deploys the agent on a platform, and returns a hub for the next platform, where it is ready
// as soon as the result is true.
func moved(t *testing.T, w *world, change ...func(*deployment.Config)) (h *hub, next *deploytest.Memory, ready *atomic.Bool, former string) {
	t.Helper()
	first := w.start()
	first.ada.Post(path, nil).Want(http.StatusAccepted)
	former, _ = first.reach(wire.StateRunning)["runtimeUrl"].(string)
	require.NoError(t, first.Close())
	ready = new(atomic.Bool)
	next = &deploytest.Memory{Serve: readyAfter(ready)}
	t.Cleanup(next.Close)
	h = w.start(append([]func(*deployment.Config){func(c *deployment.Config) { c.Driver, c.Former = next, w.driver }}, change...)...)
	return h, next, ready, former
}

// readyAfter returns a function that serves runtimes, which are ready as soon as ready is true.
func readyAfter(ready *atomic.Bool) func(deploy.Request) (http.Handler, error) {
	return func(req deploy.Request) (http.Handler, error) {
		handler, err := deploytest.Ready(req)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !ready.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			handler.ServeHTTP(w, r)
		}), err
	}
}

// endpoint returns the address to which the hub sends runs, which responds.
func (h *hub) endpoint() string {
	h.t.Helper()
	e, err := h.Endpoint(h.t.Context(), "default", "helper")
	require.NoError(h.t, err)
	res, err := http.Get(e.URL + "/health/ready")
	require.NoError(h.t, err)
	require.NoError(h.t, res.Body.Close())
	require.Equal(h.t, http.StatusOK, res.StatusCode)
	return e.URL
}

// The former runtime serves until the one on the next platform is ready, and then its runs end.
func TestMoveToAnotherPlatform(t *testing.T) {
	t.Parallel()
	for name, deploysAgain := range map[string]bool{"the same revision": false, "a new revision": true} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				f := w.failing()
				h, next, ready, former := moved(t, w, func(c *deployment.Config) { c.Former = f })
				if deploysAgain {
					h.ada.Post(path, apitest.Object{"force": true}).Want(http.StatusAccepted)
				} else {
					f.await(t, "List", 17) // for more than 3 s
				}
				var served time.Time
				require.Eventually(t, func() bool {
					served = time.Now()
					require.Equal(t, former, h.endpoint())
					return next.Applied() > 0
				}, patience, time.Millisecond)
				f.set("Stop", errors.New("not permitted"))
				ready.Store(true)
				require.Eventually(t, func() bool { return h.endpoint() != former }, patience, time.Millisecond)
				next.Kill(key) // also while the former one does not end
				h.until(func(s apitest.Object) bool { return s["restartCount"] == 1.0 && s["state"] == wire.StateRunning })
				require.Equal(t, []int64{1}, w.alive())
				require.Eventually(t, func() bool { return f.count("Stop") > 0 }, patience, time.Millisecond)
				require.Greater(t, time.Since(served), 3*time.Second, "other hubs may send runs to it")
				f.set("Stop", nil)
				w.awaitAlive()
			})
		})
	}
}

// A runtime that ends on the former platform is that of a deployment that starts, also if another
// revision still has runs there.
func TestFormerRuntimeEndsDuringTheMove(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h, next, ready, former := moved(t, w)
		require.Eventually(t, func() bool { return next.Applied() > 0 }, patience, time.Millisecond)
		require.NoError(t, w.driver.Apply(t.Context(), w.driver.Last(key), 2, deploy.Request{}))
		w.driver.KillRevision(key, 1)
		h.until(func(s apitest.Object) bool {
			return s["state"] == deployment.StateStarting && s["runtimeUrl"] != former
		})
		ready.Store(true)
		h.reach(wire.StateRunning)
		require.NotEqual(t, former, h.endpoint())
	})
}

// A runtime that is not ready on the next platform has failed only until the former one ends: then
// the deployment starts again, and is unchanged.
func TestFormerRuntimeEndsAfterAFailure(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h, _, ready, former := moved(t, w, func(c *deployment.Config) { c.StartTimeout = 10 * time.Millisecond })
		s := h.until(func(s apitest.Object) bool { return condition(s, "Progressing")["status"] == false })
		require.Equal(t, []any{wire.StateRunning, former}, []any{s["state"], s["runtimeUrl"]})
		ready.Store(true)
		w.driver.Kill(key)
		h.until(func(s apitest.Object) bool { return s["state"] == wire.StateRunning && s["runtimeUrl"] != former })
		s = h.ada.Post(path, nil).Want(http.StatusAccepted)
		require.Equal(t, []any{wire.StateRunning, 1.0}, []any{s["state"], s["revision"]})
	})
}

// An error of the former platform is logged, and its runtimes are stopped later.
func TestErrorOfTheFormerPlatform(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		f, log := w.failing(), &logtest.Buffer{}
		f.set("List", errors.New("not permitted"))
		h, _, ready, former := moved(t, w, func(c *deployment.Config) { c.Former, c.Store.Logger = f, slog.New(slog.NewTextHandler(log, nil)) })
		require.Eventually(t, func() bool { return strings.Contains(log.String(), "stop runtimes of the former deployer") }, patience, pause)
		ready.Store(true)
		h.until(func(s apitest.Object) bool { return s["state"] == wire.StateRunning && s["runtimeUrl"] != former })
		f.set("Observe "+key, errors.New("not found"))
		other := deploy.Ref{Key: "other", Owner: w.owner()} // without a row
		require.NoError(t, w.driver.Apply(t.Context(), other, 1, deploy.Request{}))
		require.NoError(t, w.driver.Apply(t.Context(), other, 2, deploy.Request{}))
		require.NoError(t, w.driver.Stop(t.Context(), other, 1, 0))
		f.set("List", nil)
		require.Eventually(t, func() bool { return strings.Contains(log.String(), "not found") }, patience, pause)
		require.Eventually(t, func() bool {
			o, err := w.driver.Observe(t.Context(), other)
			return err == nil && o.Runtime(2).Phase == deploy.Stopped
		}, patience, pause)
		require.Equal(t, []int64{1}, w.alive())
		f.set("Observe "+key, nil)
		w.awaitAlive()
	})
}

// A runtime of another database serves nothing, also if it has the address.
func TestForeignRuntimeDuringTheMove(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h, _, _, former := moved(t, w)
		require.NoError(t, h.Close())
		w.exec(`UPDATE deployment_owner SET owner = 'other'`)
		next := &deploytest.Memory{Serve: func(deploy.Request) (http.Handler, error) { return http.NotFoundHandler(), nil }}
		t.Cleanup(next.Close)
		h = w.start(func(c *deployment.Config) { c.Driver, c.Former = next, w.driver })
		s := h.until(func(s apitest.Object) bool { return s["runtimeUrl"] != former })
		require.NotEqual(t, wire.StateRunning, s["state"])
		require.Equal(t, []int64{1}, w.alive())
	})
}

// A stop, and a delete, in the middle of the move stop the former runtime too.
func TestStopDuringTheMove(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(h *hub){
		"stop":   func(h *hub) { h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted) },
		"delete": func(h *hub) { h.ada.Delete(path).Want(http.StatusNoContent) },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				h, next, _, _ := moved(t, w)
				require.Eventually(t, func() bool { return next.Applied() > 0 }, patience, time.Millisecond)
				change(h)
				w.awaitAlive()
				require.Eventually(t, func() bool {
					o, err := next.Observe(t.Context(), next.Last(key))
					require.NoError(t, err)
					return len(o.Runtimes) == 0 || o.Runtimes[0].Phase == deploy.Stopped
				}, patience, time.Millisecond)
			})
		})
	}
}

// No run is sent to a runtime that someone has removed while the driver starts it again.
func TestRuntimeThatIsGoneHasNoRuns(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		former, _ := h.reach(wire.StateRunning)["runtimeUrl"].(string)
		release, entered := make(chan struct{}), make(chan struct{}, 10)
		w.driver.Serve = func(req deploy.Request) (http.Handler, error) { // it takes the driver time
			entered <- struct{}{}
			<-release
			return deploytest.Ready(req)
		}
		w.driver.Remove(key)
		<-entered
		_, err := h.Endpoint(t.Context(), "default", "helper")
		close(release)
		require.ErrorContains(t, err, "The agent is not running yet")
		require.NotEqual(t, former, h.reach(wire.StateRunning)["runtimeUrl"])
	})
}
