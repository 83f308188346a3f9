package deployment_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/internal/logtest"
)

// failing is a driver whose methods fail while they have an error.
type failing struct {
	deploy.Driver
	mu     sync.Mutex // guards the fields below
	errors map[string]error
	calls  map[string]int
}

func (w *world) failing() *failing {
	return &failing{Driver: w.driver, errors: map[string]error{}, calls: map[string]int{}}
}

func (f *failing) set(method string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errors[method] = err
}

// called returns the error for a call of a method, which it counts.
func (f *failing) called(method string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[method]++
	return f.errors[method]
}

// count returns the number of calls of a method.
func (f *failing) count(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

// await waits for further calls of a method.
func (f *failing) await(t testing.TB, method string, times int) {
	t.Helper()
	before := f.count(method)
	require.Eventually(t, func() bool { return f.count(method) >= before+times }, patience, pause)
}

func (f *failing) Observe(ctx context.Context, ref deploy.Ref) (deploy.Observed, error) {
	if err := f.called("Observe"); err != nil {
		return deploy.Observed{}, err
	}
	if err := f.called("Observe " + ref.Key); err != nil {
		return deploy.Observed{}, err
	}
	return f.Driver.Observe(ctx, ref)
}

func (f *failing) Apply(ctx context.Context, ref deploy.Ref, revision int64, req deploy.Request) error {
	if err := f.called("Apply"); err != nil {
		return err
	}
	return f.Driver.Apply(ctx, ref, revision, req)
}

func (f *failing) Delete(ctx context.Context, ref deploy.Ref) error {
	if err := f.called("Delete"); err != nil {
		return err
	}
	return f.Driver.Delete(ctx, ref)
}

func (f *failing) Stop(ctx context.Context, ref deploy.Ref, revision int64, patience time.Duration) error {
	if err := f.called("Stop"); err != nil {
		return err
	}
	return f.Driver.Stop(ctx, ref, revision, patience)
}

func (f *failing) Discard(ctx context.Context, ref deploy.Ref, revision int64) error {
	if err := f.called("Discard"); err != nil {
		return err
	}
	return f.Driver.Discard(ctx, ref, revision)
}

func (f *failing) Logs(ctx context.Context, ref deploy.Ref, revision int64, tail int) ([]string, error) {
	if err := f.called(fmt.Sprint("Logs ", revision)); err != nil {
		return nil, err
	}
	return f.Driver.Logs(ctx, ref, revision, tail)
}

func (f *failing) List(ctx context.Context, owner string) ([]deploy.Ref, error) {
	if err := f.called("List"); err != nil {
		return nil, err
	}
	all, err := f.Driver.List(ctx, owner)
	slices.SortFunc(all, func(a, b deploy.Ref) int { return cmp.Compare(a.Key, b.Key) })
	return all, err
}

// A platform that cannot be observed is no reason to change a deployment.
func TestErrorOfObserve(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		f := w.failing()
		h := w.start(func(c *deployment.Config) { c.Driver = f })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		before := h.reach("running")
		f.set("Observe", errors.New("the platform is busy"))
		s := h.until(func(s apitest.Object) bool { return s["error"] == "the platform is busy" })
		require.Equal(t, []any{"running", before["runtimeUrl"]}, []any{s["state"], s["runtimeUrl"]})
		f.set("Observe", nil)
		s = h.until(func(s apitest.Object) bool { return s["error"] == nil })
		require.Equal(t, []any{"running", before["startedAt"]}, []any{s["state"], s["startedAt"]})
	})
}

// A stop that fails is repeated, as is a delete.
func TestErrorOfAStop(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		f := w.failing()
		h := w.start(func(c *deployment.Config) { c.Driver = f })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		f.set("Stop", errors.New("not permitted"))
		h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
		s := h.until(func(s apitest.Object) bool { return s["error"] == "not permitted" })
		require.Equal(t, []any{"stopping", "unknown", nil}, []any{s["state"], s["health"], s["runtimeUrl"]})
		require.Equal(t, apitest.Object{
			"type": "ready", "status": false, "message": "The deployment is stopped.", "changedAt": condition(s, "ready")["changedAt"],
		}, condition(s, "ready"))
		f.set("Stop", nil)
		require.Nil(t, h.reach("stopped")["error"])
		f.set("Stop", errors.New("not permitted")) // someone starts it on the platform
		require.NoError(t, w.driver.Apply(t.Context(), w.driver.Last(key), 1, deploy.Request{}))
		h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
		s = h.until(func(s apitest.Object) bool { return s["error"] == "not permitted" })
		require.Equal(t, "stopping", s["state"])
		f.set("Stop", nil)
		h.reach("stopped")

		w.driver.Fail(errors.New("in use"))
		h.ada.Delete(path).Want(http.StatusNoContent)
		s = h.until(func(s apitest.Object) bool { return s["error"] == "in use" })
		require.Equal(t, []any{"deleting", nil}, []any{s["state"], s["servingRevision"]})
		w.driver.Fail(nil)
		h.reach("not_deployed")
	})
}

// A runtime that is not ready has failed, also if it cannot be stopped.
func TestErrorOfAStopOfAFailure(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.faulty()
		f, log := w.failing(), &logtest.Buffer{}
		f.set("Stop", errors.New("not permitted"))
		h := w.start(func(c *deployment.Config) {
			c.Driver, c.StartTimeout, c.Store.Logger = f, 50*time.Millisecond, slog.New(slog.NewTextHandler(log, nil))
		})
		w.prompt("faulty")
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		require.Contains(t, h.reach("failed")["error"], "The agent was not ready")
		f.await(t, "Stop", 2)
		require.NotContains(t, log.String(), "reconcile deployment")
		f.set("Stop", nil)
		w.awaitAlive()
	})
}

// A delete that fails does not delay the next deployment, and is repeated.
func TestErrorOfADelete(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.faulty()
		f := w.failing()
		h := w.start(func(c *deployment.Config) { c.Driver = f })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		f.set("Delete", errors.New("in use"))
		h.ada.Delete(path).Want(http.StatusNoContent)
		h.until(func(s apitest.Object) bool { return s["error"] == "in use" })
		former := w.driver.Last(key)
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		require.Nil(t, h.reach("running")["error"])
		next := w.driver.Last(key)
		require.NotEqual(t, former, next)
		exists := func(ref deploy.Ref) bool {
			o, err := w.driver.Observe(t.Context(), ref)
			require.NoError(t, err)
			return o.Exists
		}
		require.True(t, exists(former))
		f.set("Delete", nil)
		require.Eventually(t, func() bool { return !exists(former) }, patience, pause)
		require.True(t, exists(next))
	})
}

// A revision that cannot be discarded delays nothing, and is discarded later.
func TestErrorOfADiscard(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.faulty()
		f, log := w.failing(), &logtest.Buffer{}
		h := w.start(func(c *deployment.Config) { c.Driver, c.Store.Logger = f, slog.New(slog.NewTextHandler(log, nil)) })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		w.prompt("rejected")
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.until(func(s apitest.Object) bool { return condition(s, "Progressing")["status"] == false })
		f.set("Discard", errors.New("in use"))
		s := h.redeploy("third", 3)
		require.Equal(t, []any{"running", nil}, []any{s["state"], s["error"]})
		require.Eventually(t, func() bool { return strings.Contains(log.String(), "end former revision") }, patience, pause)
		h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
		h.reach("stopped")
		w.awaitAlive()
		h.ada.Post(path+"/start", nil).Want(http.StatusAccepted)
		h.reach("running")
		f.set("Discard", nil)
		require.Eventually(t, func() bool {
			o, err := w.driver.Observe(t.Context(), w.driver.Last(key))
			return err == nil && o.Runtime(2).Phase == ""
		}, patience, pause)
	})
}

// A hub that cannot list the deployments of the platform controls those of the database.
func TestErrorOfAList(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		f, log := w.failing(), &logtest.Buffer{}
		f.set("List", deploy.ErrUnavailable)
		h := w.start(func(c *deployment.Config) { c.Driver, c.Store.Logger = f, slog.New(slog.NewTextHandler(log, nil)) })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		f.await(t, "List", 2)
		require.NotContains(t, log.String(), "list deployments", "deployments have this error")
		f.set("List", errors.New("not permitted"))
		require.Eventually(t, func() bool { return strings.Contains(log.String(), "list deployments") }, patience, pause)
		h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
		h.reach("stopped")
	})
}

// The log has the lines of the revision that serves, and then those of the last one.
func TestLogs(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.faulty()
		f := w.failing()
		h := w.start(func(c *deployment.Config) { c.Driver = f })
		lines := func(tail string) []any {
			return h.ada.Get(path + "/logs?tail=" + tail).Want(http.StatusOK)["lines"].([]any)
		}
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		w.driver.Log(key, "first")
		require.Equal(t, []any{"first"}, lines("1"))
		require.Len(t, lines("5000"), 2)
		w.prompt("faulty")
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		require.Eventually(t, func() bool { return len(w.alive()) == 2 }, patience, pause)
		w.driver.Log(key, "second")
		read := f.count("Logs 1")
		require.Equal(t, []any{"second"}, lines("1"))
		require.Equal(t, read, f.count("Logs 1"), "it is not needed")
		all := lines("3")
		require.Equal(t, []any{"first", all[1], "second"}, all)
		require.Contains(t, all[1], "listening")
		require.Len(t, lines("4"), 4)
		f.set("Logs 2", errors.New("not permitted"))
		h.ada.Get(path+"/logs").Error(http.StatusInternalServerError, "internal_error")
		f.set("Logs 2", nil)
		w.driver.Fail(deploy.ErrUnavailable)
		h.ada.Get(path+"/logs").Error(http.StatusServiceUnavailable, "deployer_unavailable")
	})
}
