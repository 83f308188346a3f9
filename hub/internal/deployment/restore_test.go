package deployment_test

import (
	"context"
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
	"github.com/seed93082962/agenthost/internal/logtest"
)

func (w *world) exec(statement string) {
	w.t.Helper()
	_, err := w.db.Write().ExecContext(w.t.Context(), statement)
	require.NoError(w.t, err)
}

// The database is older than the platform: one deployment is of a later revision, and one has no
// row.
func TestRestoredDatabase(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.agent("default", "later")
		h := w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		for n := range 3 {
			h.ada.Post(path, apitest.Object{"force": true}).Want(http.StatusAccepted)
			h.serves(n + 2)
		}
		require.Equal(t, 4, w.driver.Applied())
		h.ada.Post("/api/v1/admin/agents/later/deploy", nil).Want(http.StatusAccepted)
		require.Eventually(t, func() bool {
			return h.ada.Get("/api/v1/admin/agents/later/deploy").Want(http.StatusOK)["state"] == "running"
		}, patience, pause)
		require.NoError(t, h.Close())
		later := w.driver.Last("default-later")
		w.exec(`DELETE FROM deployments WHERE agent_name = 'later'`)
		w.exec(`UPDATE deployments SET revision = 1, serving = 1, draining = '[]'`)
		w.exec(`DELETE FROM deployment_revisions WHERE revision > 1`)

		ready := new(atomic.Bool)
		w.driver.Serve = readyAfter(ready)
		applied := w.driver.Applied() // more than one for each deployment if a runtime was slow
		h = w.start()
		s := h.until(func(s apitest.Object) bool { return condition(s, "restored") != nil })
		require.Nil(t, s["servingRevision"], "the revisions with the numbers of the database are perhaps others")
		ready.Store(true)
		s = h.until(func(s apitest.Object) bool {
			return s["state"] == "running" && condition(s, "restored") != nil && w.driver.Applied() > applied
		})
		require.Contains(t, condition(s, "restored")["message"], "restored from a backup")
		require.Eventually(t, func() bool {
			o, err := w.driver.Observe(t.Context(), later)
			return err == nil && o.Runtime(1).Phase == deploy.Stopped
		}, patience, pause, "no row knows it")
		h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
		h.reach("stopped")
		h.ada.Delete(path).Want(http.StatusNoContent)
		h.reach("not_deployed")
	})
}

// The requests of users are applied also if the database is older than the platform.
func TestChangesOfARestoredDatabase(t *testing.T) {
	for name, row := range map[string]struct {
		begin func(h *hub)
		end   func(h *hub, apiKey string)
	}{
		"stop": {
			func(h *hub) { h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted) },
			func(h *hub, _ string) { require.NotNil(h.t, condition(h.reach("stopped"), "restored")) },
		},
		"delete": {
			func(h *hub) { h.ada.Delete(path).Want(http.StatusNoContent) },
			func(h *hub, _ string) { h.reach("not_deployed") },
		},
		"rotate": {
			func(h *hub) { h.ada.Post(path+"/rotate-key", nil).Want(http.StatusAccepted) },
			func(h *hub, apiKey string) {
				h.replaced(apiKey)
				require.NotNil(h.t, condition(h.reach("running"), "restored"))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				h := w.start()
				h.ada.Post(path, nil).Want(http.StatusAccepted)
				apiKey := h.reach("running")["apiKey"].(string)
				w.driver.Fail(deploy.ErrUnavailable)
				row.begin(h)
				require.NoError(t, h.Close())
				w.driver.Fail(nil)
				require.NoError(t, w.driver.Apply(t.Context(), w.driver.Last(key), 2, w.driver.Request(key))) // of the lost hub
				row.end(w.start(), apiKey)
				if name != "rotate" {
					w.awaitAlive()
				}
			})
		})
	}
}

// Runtimes without a row are stopped. Their data remains.
func TestUnknownRuntimes(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.agent("default", "a")
		unknown := deploy.Ref{Key: key, UID: "unknown", Owner: w.owner()}
		for revision := range int64(3) {
			require.NoError(t, w.driver.Apply(t.Context(), unknown, revision, deploy.Request{}))
		}
		stopped := deploy.Ref{Key: "default-b", UID: "unknown", Owner: w.owner()}
		require.NoError(t, w.driver.Apply(t.Context(), stopped, 1, deploy.Request{}))
		require.NoError(t, w.driver.Stop(t.Context(), stopped, 1, 0))
		f, log := w.failing(), &logtest.Buffer{}
		f.set("Stop", errors.New("not permitted"))
		h := w.start(func(c *deployment.Config) { c.Driver, c.Store.Logger = f, slog.New(slog.NewTextHandler(log, nil)) })
		h.ada.Post("/api/v1/admin/agents/a/deploy", nil).Want(http.StatusAccepted) // a row is before them
		require.Eventually(t, func() bool { return w.driver.Request("default-a").AgentID == "a" }, patience, pause)
		f.await(t, "List", 2)
		require.Eventually(t, func() bool { return strings.Contains(log.String(), "stop unknown runtime") }, patience, pause)
		f.set("Stop", nil)
		w.awaitAlive()
		o, err := w.driver.Observe(t.Context(), unknown)
		require.NoError(t, err)
		require.Len(t, o.Runtimes, 3)
		f.await(t, "List", 1)
		warnings := func() int { return strings.Count(log.String(), "runtimes that the database does not know") }
		before := warnings()
		require.Positive(t, before)
		f.await(t, "List", 2)
		require.Equal(t, before, warnings(), "they are stopped")
	})
}

// A deployment is deleted before anything of it was started. What a hub starts late is deleted.
func TestDeletedBeforeItsFirstStart(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		w.driver.Fail(errors.New("no space left on device"))
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("failed")
		frozen := deploy.Ref{Key: key, Owner: w.owner()}
		require.NoError(t, w.db.Read().QueryRowContext(t.Context(), `SELECT uid FROM deployments`).Scan(&frozen.UID))
		h.ada.Delete(path).Want(http.StatusNoContent)
		h.reach("not_deployed")
		w.driver.Fail(nil)
		require.NoError(t, w.driver.Apply(t.Context(), frozen, 1, deploy.Request{}))
		require.Eventually(t, func() bool { return !w.exists(frozen) }, patience, pause)
	})
}

// A hub with another database does not touch the runtimes.
func TestAnotherDatabaseOnThePlatform(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		started := h.reach("running")["startedAt"]
		require.NoError(t, h.Close())
		former := w.driver.Last(key)
		w.exec(`UPDATE deployment_owner SET owner = 'other'`)
		w.exec(`DELETE FROM deployments`)
		h = w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		h.ada.Delete(path).Want(http.StatusNoContent)
		h.reach("not_deployed")
		o, err := w.driver.Observe(t.Context(), former)
		require.NoError(t, err)
		require.Equal(t, deploy.Running, o.Runtime(1).Phase)
		at, err := time.Parse(time.RFC3339Nano, started.(string))
		require.NoError(t, err)
		require.WithinDuration(t, at, o.Runtime(1).StartedAt, 0)
	})
}

// A runtime that no longer responds is started again.
func TestHangingRuntimeIsStartedAgain(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		hang := make(chan struct{})
		applied := 0
		w.driver.Serve = func(req deploy.Request) (http.Handler, error) {
			ready, err := deploytest.Ready(req)
			if applied++; applied > 1 {
				return ready, err
			}
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				select {
				case <-hang:
					rw.WriteHeader(http.StatusInternalServerError)
				default:
					ready.ServeHTTP(rw, r)
				}
			}), err
		}
		h := w.start(func(c *deployment.Config) { c.StartTimeout, c.Backoff = 300*time.Millisecond, time.Second })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		first := h.reach("running")["startedAt"]
		close(hang)
		h.until(func(s apitest.Object) bool {
			message, _ := s["error"].(string)
			return strings.HasPrefix(message, "The runtime did not respond for 300ms: the runtime is not ready")
		})
		again := h.until(func(s apitest.Object) bool { return s["state"] == "running" && s["startedAt"] != first })
		require.Equal(t, 1.0, again["restartCount"])
	})
}

// A time that was stored before the clock was set back counts as passed.
func TestClockThatWasSetBack(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		require.NoError(t, h.Close())
		w.driver.Kill(key)
		future := time.Now().Add(24 * time.Hour).UnixMicro()
		_, err := w.db.Write().ExecContext(t.Context(), `UPDATE deployments SET state = 'starting', retry_at = $1, linked_at = $1`, future)
		require.NoError(t, err)
		h = w.start()
		h.reach("running")
	})
}

// Members see the status: it has no stack trace, no path, and no output of tools.
func TestStatusHasNoStackTrace(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		w.driver.Log(key, "panic: runtime error: index out of range [1] with length 0", "", "goroutine 1 [running]:",
			"main.main()", "\t/home/build/planted/main.go:12 +0x1d", `{"level":"error","message":"panic","panic":"planted","stack":"planted"}`,
			`{"level":"info","message":"planted output of a tool"}`, `{"level":"warn","message":"a\u001b[31mwarning`+"\u202e"+`","err":"first\n/planted/second"}`,
			"hub: the disk is full")
		for n := range 4 {
			h.reach("running")
			w.driver.Kill(key)
			h.until(func(s apitest.Object) bool { return s["state"] == "running" && s["restartCount"] == float64(n+1) })
		}
		w.driver.Kill(key)
		failed := h.reach("failed")
		text := failed["error"].(string)
		require.Contains(t, text, "out of memory")
		for _, s := range []string{failed["error"].(string), failed["conditions"].([]any)[0].(apitest.Object)["message"].(string)} {
			for _, not := range []string{"planted", "goroutine", "main.go", "\u001b", "\u202e"} {
				require.NotContains(t, s, not)
			}
		}
		require.LessOrEqual(t, strings.Count(text, "\n"), 5)
		require.Equal(t, 1, strings.Count(text, "out of memory"), "each runtime logged it: %s", text)
	})
}

// outdated is a driver that knows a later revision. Another hub takes the deployment before it is
// restored.
type outdated struct {
	deploy.Driver
	w *world
}

func (o *outdated) Observe(context.Context, deploy.Ref) (deploy.Observed, error) {
	o.w.give("another")
	return deploy.Observed{Exists: true, Runtimes: []deploy.Runtime{{Revision: 7, Phase: deploy.Running}}}, nil
}

// A hub that has lost the deployment restores nothing.
func TestRestoreByAnotherHub(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		log := &logtest.Buffer{}
		h := w.start(func(c *deployment.Config) {
			c.Driver, c.Store = &outdated{Driver: w.driver, w: w}, w.store(forever, logs(log))
		})
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		require.Eventually(t, func() bool { return strings.Contains(log.String(), "is controlled by another hub") }, patience, pause)
		require.Equal(t, 1.0, h.ada.Get(path + "/revisions").Want(http.StatusOK)["total"])
		require.NotContains(t, log.String(), "was it restored from a backup?")
	})
}
