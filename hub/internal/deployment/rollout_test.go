package deployment_test

import (
	"errors"
	"net/http"
	"strconv"
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
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

// prompt changes the system prompt of the agent.
func (w *world) prompt(text string) {
	w.t.Helper()
	const path = "/api/v1/admin/agents/helper"
	agent := w.agents("default").Get(path).Want(http.StatusOK)
	agent["systemPrompt"] = text
	w.agents("default").Put(path, agent).Want(http.StatusOK)
}

// redeploy deploys a prompt, and waits until its revision serves.
func (h *hub) redeploy(prompt string, revision int) apitest.Object {
	h.t.Helper()
	h.prompt(prompt)
	h.ada.Post(path, nil).Want(http.StatusAccepted)
	return h.serves(revision)
}

// alive returns the revisions that have a runtime.
func (w *world) alive() (revisions []int64) {
	o, err := w.driver.Observe(w.t.Context(), w.driver.Last(key))
	require.NoError(w.t, err)
	for _, r := range o.Runtimes {
		if r.Phase == deploy.Running || r.Phase == deploy.Stopping {
			revisions = append(revisions, r.Revision)
		}
	}
	return revisions
}

func (w *world) awaitAlive(revisions ...int64) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		alive := w.alive()
		require.LessOrEqual(w.t, len(alive), 5)
		return len(alive) == len(revisions) && (len(alive) == 0 || alive[0] == revisions[0])
	}, patience, pause, "%v", revisions)
}

// faulty makes the runtimes of the prompt "faulty" never ready.
func (w *world) faulty() {
	w.driver.Serve = func(req deploy.Request) (http.Handler, error) {
		switch req.Config.SystemPrompt {
		case "faulty":
			req.AgentID = "other"
		case "rejected":
			return nil, errors.New("write configuration: no space left on device")
		}
		return deploytest.Ready(req)
	}
}

// A revision that does not become ready takes nothing from the one that serves.
func TestFaultyRevisionIsNoOutage(t *testing.T) {
	t.Parallel()
	for prompt, reason := range map[string]string{"faulty": "another runtime responds at this address", "rejected": "no space left on device"} {
		t.Run(prompt, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				w.faulty()
				h := w.start(func(c *deployment.Config) { c.StartTimeout = 50 * time.Millisecond })
				h.ada.Post(path, nil).Want(http.StatusAccepted)
				first := h.reach("running")
				require.Equal(t, true, condition(first, "Progressing")["status"])
				w.prompt(prompt)
				require.Equal(t, "running", h.ada.Post(path, nil).Want(http.StatusAccepted)["state"])
				var states []any
				s := h.until(func(s apitest.Object) bool {
					states = append(states, s["state"], s["servingRevision"], s["runtimeUrl"])
					require.Equal(t, []any{"running", 1.0, first["runtimeUrl"]}, states[len(states)-3:])
					return condition(s, "Progressing")["status"] == false
				})
				require.Equal(t, 2.0, s["revision"])
				require.Equal(t, first["startedAt"], s["startedAt"])
				require.Nil(t, s["error"])
				require.Contains(t, condition(s, "Progressing")["message"], reason)
				require.Equal(t, true, condition(s, "ready")["status"])
				w.awaitAlive(1)
				e, err := h.Endpoint(t.Context(), "default", "helper")
				require.NoError(t, err)
				require.Equal(t, first["runtimeUrl"], e.URL)

				require.NoError(t, h.Close()) // the next hub does not try again
				applied := w.driver.Applied()
				h = w.start()
				w.driver.KillRevision(key, 1) // the revision that serves is started again, and no other one
				h.until(func(s apitest.Object) bool {
					return s["restartCount"] == 1.0 && s["state"] == "running" && s["servingRevision"] == 1.0
				})
				require.LessOrEqual(t, w.driver.Applied(), applied+1)

				again := h.ada.Post(path, nil).Want(http.StatusAccepted) // the same configuration once more
				require.Nil(t, condition(again, "Progressing"), "the failure is that of the former revision")
				next := h.redeploy("correct", 4)
				require.Equal(t, true, condition(next, "Progressing")["status"])
				require.NotEqual(t, first["runtimeUrl"], next["runtimeUrl"])
				w.awaitAlive(4)
			})
		})
	}
}

// Users stop, start, deploy again and delete while a revision starts next to another one.
func TestChangesDuringARollout(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.faulty()
		h := w.start(func(c *deployment.Config) { c.StartTimeout = time.Minute }) // it starts until it is replaced
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		begin := func(revision int64) {
			t.Helper()
			w.prompt("faulty")
			h.ada.Post(path, apitest.Object{"force": true}).Want(http.StatusAccepted)
			require.Eventually(t, func() bool { alive := w.alive(); return len(alive) > 0 && alive[len(alive)-1] == revision }, patience, pause)
		}
		begin(2)
		h.until(func(s apitest.Object) bool {
			c := condition(s, "Progressing")
			return c["status"] == true && c["message"] == "The revision is not ready: another runtime responds at this address"
		})
		begin(3) // the former attempt ends without patience
		w.awaitAlive(1, 3)
		former := h.ada.Get(path).Want(http.StatusOK)["apiKey"].(string)
		h.ada.Post(path+"/rotate-key", nil).Want(http.StatusAccepted)
		h.replaced(former)
		h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
		h.reach("stopped")
		w.awaitAlive()
		h.ada.Post(path+"/start", nil).Want(http.StatusAccepted)
		require.Equal(t, 1.0, h.reach("running")["servingRevision"])
		h.redeploy("correct", 4)
		w.awaitAlive(4)
		begin(5)
		require.Equal(t, 1, h.endTenant(false)) // nothing with the former key serves
		h.until(func(s apitest.Object) bool { return s["revision"] == 6.0 && s["servingRevision"] == nil })
		w.awaitAlive(6)
		h.redeploy("correct again", 7)
		begin(8)
		h.ada.Delete(path).Want(http.StatusNoContent)
		h.reach("not_deployed")
		w.awaitAlive()
		var n int
		require.NoError(t, w.db.Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM deployment_revisions`).Scan(&n))
		require.Zero(t, n)
	})
}

// If nothing runs that could serve until the next revision is ready, only that one is started.
func TestDeployWithoutARevisionThatServes(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		var full atomic.Bool
		w.faulty()
		serve := w.driver.Serve
		w.driver.Serve = func(req deploy.Request) (http.Handler, error) {
			if full.Load() {
				return nil, errors.New("no space left on device")
			}
			return serve(req)
		}
		h := w.start()
		deployed := func(prompt string, revision int) {
			t.Helper()
			h.prompt(prompt)
			full.Store(false)
			applied := w.driver.Applied()
			s := h.ada.Post(path, nil).Want(http.StatusAccepted)
			require.Equal(t, []any{"deploying", nil}, []any{s["state"], s["servingRevision"]})
			h.serves(revision)
			require.Equal(t, applied+1, w.driver.Applied())
		}
		h.prompt("faulty")
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("starting")
		require.Eventually(t, func() bool { return len(w.alive()) == 1 }, patience, pause)
		deployed("of a start", 2)
		h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
		h.reach("stopped")
		deployed("of a stop", 3)
		full.Store(true)
		w.driver.Kill(key)
		h.reach("failed")
		deployed("of a failure", 4)
	})
}

// A revision that failed next to the one that serves is tried again after a stop.
func TestStartTriesTheLastRevisionAgain(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		var full atomic.Bool
		w.driver.Serve = func(req deploy.Request) (http.Handler, error) {
			if full.Load() {
				return nil, errors.New("no space left on device")
			}
			return deploytest.Ready(req)
		}
		h := w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		full.Store(true)
		h.prompt("second")
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.until(func(s apitest.Object) bool { return condition(s, "Progressing")["status"] == false })
		h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
		h.reach("stopped")
		full.Store(false)
		h.ada.Post(path+"/start", nil).Want(http.StatusAccepted)
		h.serves(2)
	})
}

func TestRollback(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.faulty()
		h := w.start(func(c *deployment.Config) { c.StartTimeout = 50 * time.Millisecond })
		bob, eve := h.server.As("default", "bob", rbac.Member), h.server.As("acme", "eve", rbac.Admin)
		rollback, revisions := path+"/rollback", path+"/revisions"
		h.ada.Post(rollback, nil).Error(http.StatusConflict, code.AgentNotDeployed)
		h.ada.Get(revisions).Error(http.StatusConflict, code.AgentNotDeployed)
		w.prompt("one")
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		first := h.reach("running")
		require.NotEmpty(t, first["deployedAt"])
		h.ada.Post(rollback, nil).Error(http.StatusConflict, wire.Conflict)
		w.skill(http.MethodPost, "review", "Reviews.")
		c := w.agents("default")
		a := c.Get("/api/v1/admin/agents/helper").Want(http.StatusOK)
		a["skills"] = []string{"review"}
		c.Put("/api/v1/admin/agents/helper", a).Want(http.StatusOK)
		h.redeploy("two", 2)
		w.prompt("faulty")
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.until(func(s apitest.Object) bool { return condition(s, "Progressing")["status"] == false })
		list := bob.Get(revisions).Want(http.StatusOK)
		require.Equal(t, 3.0, list["total"])
		items := list["items"].([]any)
		for i, want := range []apitest.Object{
			{"revision": 3.0, "ready": false, "changes": []any{"systemPrompt"}},
			{"revision": 2.0, "ready": true, "changes": []any{"skill review", "systemPrompt"}},
			{"revision": 1.0, "ready": true, "changes": []any{}, "specHash": first["specHash"], "deployedAt": first["deployedAt"]},
		} {
			item := items[i].(map[string]any)
			require.Equal(t, "ada", item["deployedBy"])
			for name, value := range want {
				require.Equal(t, value, item[name], name)
			}
		}
		bob.Post(rollback, nil).Error(http.StatusForbidden, wire.Forbidden)
		eve.Post(rollback, nil).Error(http.StatusNotFound, wire.NotFound)
		eve.Get(revisions).Error(http.StatusNotFound, wire.NotFound)
		for _, number := range []int{-1, 0, 4, 99} {
			h.ada.Post(rollback, apitest.Object{"revision": number}).Error(http.StatusConflict, wire.Conflict)
		}
		h.ada.Post(rollback, apitest.Object{"revision": "1"}).Error(http.StatusBadRequest, wire.InvalidRequest)

		h.ada.Post(rollback, nil).Want(http.StatusAccepted) // of the faulty revision: the one that serves
		h.serves(4)
		require.Equal(t, "two", w.driver.Request(key).Config.SystemPrompt)
		require.Equal(t, "review", w.driver.Request(key).Skills[0].Name)
		require.NotEmpty(t, w.driver.Request(key).Skills[0].URL)
		h.ada.Post(rollback, apitest.Object{"revision": 1}).Want(http.StatusAccepted)
		s := h.serves(5)
		require.Equal(t, first["specHash"], s["specHash"])
		require.NotEqual(t, first["deployedAt"], s["deployedAt"])
		require.Equal(t, first["apiKey"], s["apiKey"])
		require.Equal(t, true, s["configDrift"])
		require.Equal(t, "one", w.driver.Request(key).Config.SystemPrompt)
		h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
		h.reach("stopped")
		h.ada.Post(rollback, nil).Want(http.StatusAccepted)
		h.serves(6)
		require.Equal(t, "two", w.driver.Request(key).Config.SystemPrompt)
		require.Contains(t, h.audit(), `agent.rollback helper {"deploymentKey":"default-helper","specHash":"`+first["specHash"].(string)+`","revision":1}`)
		h.ada.Post(rollback, apitest.Object{"revision": 6}).Want(http.StatusAccepted) // the present one
		h.serves(7)
		require.Equal(t, "two", w.driver.Request(key).Config.SystemPrompt)
		a["enabled"] = false
		c.Put("/api/v1/admin/agents/helper", a).Want(http.StatusOK)
		h.ada.Post(rollback, nil).Error(http.StatusConflict, wire.Conflict)
	})
}

// Revisions are bounded in number and bytes. Their artifacts are not deleted.
func TestStoredRevisions(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.faulty()
		h := w.start()
		w.skill(http.MethodPost, "review", "Reviews.")
		c := w.agents("default")
		a := c.Get("/api/v1/admin/agents/helper").Want(http.StatusOK)
		a["skills"] = []string{"review"}
		c.Put("/api/v1/admin/agents/helper", a).Want(http.StatusOK)
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		artifact := "skills/" + strings.TrimPrefix(w.driver.Request(key).Skills[0].Hash, "sha256:") + "/review.zip"
		named := func() bool {
			keys, err := h.Referenced(t.Context(), []string{artifact, "tools/x/y"})
			require.NoError(t, err)
			require.NotContains(t, keys, "tools/x/y")
			return keys[artifact]
		}
		require.True(t, named())
		a["skills"] = []string{}
		c.Put("/api/v1/admin/agents/helper", a).Want(http.StatusOK)
		numbers := func() (numbers []float64) {
			for _, item := range h.ada.Get(path + "/revisions").Want(http.StatusOK)["items"].([]any) {
				numbers = append(numbers, item.(map[string]any)["revision"].(float64))
			}
			return numbers
		}
		w.prompt("faulty") // revision 1 serves, whatever happens
		for n := 2; n <= 12; n++ {
			h.ada.Post(path, apitest.Object{"force": true}).Want(http.StatusAccepted)
		}
		require.Equal(t, []float64{12, 11, 10, 9, 8, 7, 6, 5, 4, 3}, numbers())
		require.True(t, named(), "it serves")
		large := strings.Repeat("\U0001F600", 199_000)
		w.prompt(large)
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		require.Eventually(t, func() bool { // a status compares the configuration, which takes time
			var serving int
			var draining string // one that drains is stored too
			err := w.db.Read().QueryRowContext(t.Context(), `SELECT serving, draining FROM deployments`).Scan(&serving, &draining)
			return err == nil && serving == 13 && draining == "[]"
		}, patience, pause)
		var size int
		require.NoError(t, w.db.Read().QueryRowContext(t.Context(), `SELECT size FROM deployment_revisions WHERE revision = 13`).Scan(&size))
		require.Greater(t, size, len(large))
		w.exec(`UPDATE deployment_revisions SET size = ` + strconv.Itoa(size)) // as if all were large
		h.redeploy("small", 14)
		require.Equal(t, []float64{14, 13, 12, 11, 10, 9}, numbers())
		require.False(t, named())
		require.NoError(t, w.db.Read().QueryRowContext(t.Context(), `SELECT SUM(size) FROM deployment_revisions`).Scan(&size))
		require.LessOrEqual(t, size, 4<<20)
	})
}

// The deployments of a machine are not controlled by a hub on another one, which does not start.
func TestDeploymentsBelongToAMachine(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.agent("default", "other")
		w.agent("default", "another")
		const other, another = "/api/v1/admin/agents/other/deploy", "/api/v1/admin/agents/another/deploy"
		on := func(machine string) func(*deployment.Config) {
			return func(c *deployment.Config) { c.Machine = machine }
		}
		early := w.start(on("second")) // before there are any
		n, err := early.Adopt(t.Context())
		require.NoError(t, err)
		require.Zero(t, n)
		require.Empty(t, early.server.Audit(api.SystemTenant), "nothing was changed")
		first := w.start(on("first"))
		first.ada.Post(path, nil).Want(http.StatusAccepted)
		first.reach("running")
		first.ada.Post(another, nil).Want(http.StatusAccepted)
		early.ada.Post(other, nil).Error(http.StatusServiceUnavailable, code.DeployerUnavailable)
		_, err = deployment.New(t.Context(), deployment.Config{Store: w.store(), Catalog: w.catalog, Driver: w.driver, PublicURL: "https://hub.example.com", Machine: "second"})
		require.ErrorIs(t, err, deployment.ErrOtherMachine)
		require.NoError(t, first.Close())
		early.ada.Post(path+"/stop", nil).Want(http.StatusAccepted) // it has no effect before the machine is back
		first = w.start(on("first"))
		first.reach("stopped")
		require.NoError(t, first.Close())
		n, err = first.Adopt(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, n)
		adopted := []string{`agent.adopt  {"count":2,"deploymentKeys":["default-another","default-helper"]}`}
		require.Equal(t, adopted, first.server.Audit(api.SystemTenant))
		second := w.start(on("second"))
		second.ada.Post(path+"/start", nil).Want(http.StatusAccepted)
		second.reach("running")
		second.ada.Delete(path).Want(http.StatusNoContent)
		second.ada.Delete(another).Want(http.StatusNoContent)
		second.reach("not_deployed")
		require.Eventually(t, func() bool { return second.ada.Get(another).Want(http.StatusOK)["state"] == "not_deployed" }, patience, pause)
		first = w.start(on("first"))
		first.ada.Post(path, nil).Want(http.StatusAccepted)
		first.reach("running")
	})
}
