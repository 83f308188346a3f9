package deployment_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

func TestMemoryDriver(t *testing.T) {
	t.Parallel()
	deploytest.Suite(t, func(t *testing.T) deploytest.Harness {
		m := &deploytest.Memory{}
		return deploytest.Harness{
			Driver: func(*testing.T) deploy.Driver { return m },
			Kill:   func(_ *testing.T, ref deploy.Ref, revision int64) { m.KillRevision(ref.Key, revision) },
		}
	})
}

func TestLifeOfADeployment(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		absent := h.ada.Get(path).Want(http.StatusOK)
		require.Equal(t, apitest.Object{
			"agentName": "helper", "deploymentKey": key, "desired": "absent", "state": "not_deployed", "health": "unknown",
			"publicUrl": "https://hub.example.com/runtime/helper", "backend": "memory", "configDrift": false, "restartCount": 0.0, "conditions": []any{},
		}, absent)
		h.ada.Post(path+"/stop", nil).Error(http.StatusConflict, code.AgentNotDeployed)
		h.ada.Post(path+"/start", nil).Error(http.StatusConflict, code.AgentNotDeployed)
		h.ada.Get(path+"/logs").Error(http.StatusConflict, code.AgentNotDeployed)
		h.ada.Delete(path).Want(http.StatusNoContent)

		require.Equal(t, "deploying", h.ada.Post(path, nil).Want(http.StatusAccepted)["state"])
		running := h.reach("running")
		require.Equal(t, "healthy", running["health"])
		require.Equal(t, "ada", running["deployedBy"])
		require.NotEmpty(t, running["runtimeUrl"])
		require.Equal(t, "default", w.driver.Request(key).Tenant)
		apiKey := running["apiKey"]
		require.Regexp(t, "^rt_[0-9a-f]{48}$", apiKey)
		require.Contains(t, h.ada.Get(path + "/logs?tail=1").Want(http.StatusOK)["lines"].([]any)[0], "listening")

		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.ada.Post(path+"/start", nil).Want(http.StatusAccepted)
		require.Equal(t, 1, w.driver.Applied(), "the same configuration runs already")
		h.ada.Post(path, apitest.Object{"force": true}).Want(http.StatusAccepted)
		require.Eventually(t, func() bool { return w.driver.Applied() == 2 }, patience, pause)

		stopping := h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
		require.Equal(t, []any{"stopping", "unknown", nil}, []any{stopping["state"], stopping["health"], stopping["runtimeUrl"]})
		stopped := h.reach("stopped")
		require.Equal(t, "stopped", stopped["desired"])
		require.Nil(t, stopped["runtimeUrl"])
		require.Equal(t, "stopped", h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)["state"])
		require.Equal(t, "starting", h.ada.Post(path+"/start", nil).Want(http.StatusAccepted)["state"])
		require.Equal(t, apiKey, h.reach("running")["apiKey"])

		h.ada.Delete(path).Want(http.StatusNoContent)
		h.ada.Delete(path).Want(http.StatusNoContent)
		require.Equal(t, absent, h.reach("not_deployed"))
		keys, err := w.driver.List(t.Context(), w.owner())
		require.NoError(t, err)
		require.Empty(t, keys)
		hash := running["specHash"].(string)
		require.Equal(t, []string{
			`agent.deploy helper {"deploymentKey":"default-helper","specHash":"` + hash + `","force":false}`,
			`agent.deploy helper {"deploymentKey":"default-helper","specHash":"` + hash + `","force":true}`,
			`agent.stop helper {"deploymentKey":"default-helper"}`,
			`agent.start helper {"deploymentKey":"default-helper"}`,
			`agent.undeploy helper {"deploymentKey":"default-helper"}`,
		}, h.audit())
	})
}

func TestDriftIsShownUntilTheNextDeploy(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		first := h.reach("running")
		require.Equal(t, false, first["configDrift"])
		w.skill(http.MethodPost, "b", "second")
		w.skill(http.MethodPost, "a", "first")
		agent := w.agents("default").Get("/api/v1/admin/agents/helper").Want(http.StatusOK)
		agent["skills"] = []string{"b", "a"}
		w.agents("default").Put("/api/v1/admin/agents/helper", agent).Want(http.StatusOK)
		require.Equal(t, true, h.ada.Get(path).Want(http.StatusOK)["configDrift"])
		h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
		h.ada.Post(path+"/start", nil).Want(http.StatusAccepted)
		require.Equal(t, true, h.reach("running")["configDrift"], "the deployed configuration is started again")
		require.Empty(t, w.driver.Request(key).Skills)
		accepted := h.ada.Post(path, nil).Want(http.StatusAccepted)
		require.Equal(t, false, accepted["configDrift"])
		require.NotEqual(t, first["specHash"], h.serves(int(accepted["revision"].(float64)))["specHash"])
		require.Equal(t, "a", w.driver.Request(key).Skills[0].Name, "sorted by name")
		links := func() string {
			config, err := w.catalog.Deployment(t.Context(), "default", "helper")
			require.NoError(t, err)
			return config.SkillArchives[0].URL
		}
		linked := links()
		require.Eventually(t, func() bool { return links() != linked }, patience, pause)
		require.Equal(t, false, h.ada.Get(path).Want(http.StatusOK)["configDrift"], "links differ each time")
	})
}

func TestRedeployAfterDeleteIsANewDeployment(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		before := h.reach("running")["apiKey"]
		w.driver.Fail(deploy.ErrUnavailable) // so that it is not deleted yet
		h.ada.Post(path+"/rotate-key", nil).Want(http.StatusAccepted)
		h.ada.Delete(path).Want(http.StatusNoContent)
		require.Equal(t, "deleting", h.ada.Get(path).Want(http.StatusOK)["state"])
		h.ada.Post(path+"/stop", nil).Error(http.StatusConflict, code.AgentNotDeployed)
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		var rotation string
		require.NoError(t, w.db.Read().QueryRowContext(t.Context(), `SELECT rotation FROM deployments`).Scan(&rotation))
		require.Empty(t, rotation, "that of the former key has ended")
		w.driver.Fail(nil)
		require.NotEqual(t, before, h.reach("running")["apiKey"])
	})
}

// A deployment that is being deleted is not one, also when its agent is gone.
func TestDeploymentThatIsBeingDeleted(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		w.driver.Fail(errors.New("in use"))
		h.ada.Delete(path).Want(http.StatusNoContent)
		h.ada.Get(path + "/logs").Want(http.StatusOK)
		check := func(status int, code wire.Code) {
			t.Helper()
			h.ada.Get(path+"/revisions").Error(status, code)
			h.ada.Post(path+"/rollback", nil).Error(status, code)
			h.ada.Post(path+"/start", nil).Error(status, code)
			_, err := h.Endpoint(t.Context(), "default", "helper")
			require.ErrorIs(t, err, code)
		}
		check(http.StatusConflict, code.AgentNotDeployed)
		w.agents("default").Delete("/api/v1/admin/agents/helper").Want(http.StatusNoContent)
		check(http.StatusNotFound, wire.NotFound)
		h.ada.Get(path+"/logs").Error(http.StatusNotFound, wire.NotFound)
		h.ada.Get(path).Error(http.StatusNotFound, wire.NotFound)
	})
}

// The status of a deployment is that of its last configuration if the present one cannot be used.
func TestStatusOfADisabledAgent(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		require.Equal(t, false, h.reach("running")["configDrift"])
		const agents = "/api/v1/admin/agents/helper"
		a := w.agents("default").Get(agents).Want(http.StatusOK)
		a["enabled"] = false
		w.agents("default").Put(agents, a).Want(http.StatusOK)
		require.Equal(t, true, h.reach("running")["configDrift"])
	})
}

func TestErrorsOfTheDriver(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		w.driver.Fail(errors.New("write configuration: no space left on device"))
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		failed := h.reach("failed")
		require.Equal(t, "write configuration: no space left on device", failed["error"])
		applied := failed["conditions"].([]any)[1].(apitest.Object)
		require.Equal(t, apitest.Object{"type": "applied", "status": false, "message": failed["error"], "changedAt": applied["changedAt"]}, applied)
		w.driver.Fail(deploy.ErrUnavailable)
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.until(func(s apitest.Object) bool {
			return s["state"] == "deploying" && s["error"] == "deployer is unavailable"
		})
		w.driver.Fail(nil)
		require.Nil(t, h.reach("running")["error"])
	})
}

func TestRuntimeWithoutTheAgentIsNotRunning(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.driver.Serve = func(req deploy.Request) (http.Handler, error) {
			req.AgentID = "other"
			return deploytest.Ready(req)
		}
		h := w.start(func(c *deployment.Config) { c.StartTimeout = 50 * time.Millisecond })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		require.Contains(t, h.reach("failed")["error"], "The agent was not ready after 50ms: another runtime responds at this address")
		_, err := h.Endpoint(t.Context(), "default", "helper")
		require.ErrorIs(t, err, wire.Unavailable)
	})
}

func TestRuntimeWithAnUnavailableAgentIsNotRunning(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.driver.Serve = func(deploy.Request) (http.Handler, error) {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				body := `{"status":"ready"}`
				if r.URL.Path == "/v1/agents" {
					body = `[{"id":"helper","status":"unavailable"}]`
				}
				_, _ = io.WriteString(w, body) // the hub may have left
			}), nil
		}
		h := w.start(func(c *deployment.Config) { c.StartTimeout = 50 * time.Millisecond })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		require.Contains(t, h.reach("failed")["error"], "the agent is unavailable: the log of the runtime has the reason")
	})
}

func TestPermissionsAndTenants(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start(func(c *deployment.Config) { c.HideAPIKey = true })
		bob, eve := h.server.As("default", "bob", rbac.Member), h.server.As("acme", "eve", rbac.Admin)
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		require.NotEmpty(t, h.reach("running")["apiKey"])
		seen := bob.Get(path).Want(http.StatusOK)
		require.Nil(t, seen["apiKey"])
		require.NotEmpty(t, seen["runtimeUrl"])
		for _, c := range []*apitest.Client{bob, eve} {
			status, code := http.StatusForbidden, wire.Forbidden
			if c == eve {
				status, code = http.StatusNotFound, wire.NotFound
				c.Get(path).Error(status, code)
			}
			c.Post(path, nil).Error(status, code)
			c.Post(path+"/stop", nil).Error(status, code)
			c.Post(path+"/start", nil).Error(status, code)
			c.Get(path+"/logs").Error(status, code)
			c.Delete(path).Error(status, code)
		}
		nobody := api.Caller{TenantID: "default"}
		for name, call := range map[string]func() error{
			"deploy": func() error {
				_, err := h.Deploy(t.Context(), bob.Caller, "helper", bodies.DeployRequest{})
				return err
			},
			"rollback": func() error {
				_, err := h.Rollback(t.Context(), bob.Caller, "helper", bodies.RollbackRequest{})
				return err
			},
			"logs":      func() error { _, err := h.Logs(t.Context(), bob.Caller, "helper", 1); return err },
			"stop":      func() error { _, err := h.Stop(t.Context(), bob.Caller, "helper"); return err },
			"status":    func() error { _, err := h.Status(t.Context(), nobody, "helper"); return err },
			"revisions": func() error { _, err := h.Revisions(t.Context(), nobody, "helper"); return err },
		} {
			var denied *rbac.DeniedError
			require.ErrorAs(t, call(), &denied, name)
		}
		bob.Get(path + "/revisions").Want(http.StatusOK)
		const agents = "/api/v1/admin/agents/helper"
		a := w.agents("default").Get(agents).Want(http.StatusOK)
		a["access"] = apitest.Object{"users": []string{"eve"}}
		w.agents("default").Put(agents, a).Want(http.StatusOK)
		h.ada.Get(path).Want(http.StatusOK)
		h.ada.Get(path + "/revisions").Want(http.StatusOK)
		bob.Get(path).Error(http.StatusNotFound, wire.NotFound)
		bob.Get(path+"/revisions").Error(http.StatusNotFound, wire.NotFound)
		for _, tail := range []string{"0", "-1", "x", "5001"} {
			h.ada.Get(path+"/logs?tail="+tail).Error(http.StatusBadRequest, wire.InvalidRequest)
		}
	})
}

func TestDeploymentKeysAreUnique(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start(func(c *deployment.Config) { c.External, c.GatewayURL = true, "https://gateway.example.com/" })
		w.agent("a", "b-c")
		w.agent("a-b", "c")
		first, second := h.server.As("a", "ada", rbac.Admin), h.server.As("a-b", "eve", rbac.Admin)
		status := first.Post("/api/v1/admin/agents/b-c/deploy", nil).Want(http.StatusAccepted)
		require.Equal(t, "a-b-c", status["deploymentKey"])
		require.Equal(t, "https://gateway.example.com/a/b-c", status["publicUrl"])
		second.Post("/api/v1/admin/agents/c/deploy", nil).Error(http.StatusConflict, code.DeploymentKeyTaken)
		require.Equal(t, "not_deployed", second.Get("/api/v1/admin/agents/c/deploy").Want(http.StatusOK)["state"])
	})
}

func TestConcurrentDeploysAreOne(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start()
		var all sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			all.Go(func() { _, errs[i] = h.Deploy(t.Context(), h.ada.Caller, "helper", bodies.DeployRequest{}) })
		}
		all.Wait()
		require.NoError(t, errors.Join(errs...))
		h.reach("running")
		require.Equal(t, 1, w.driver.Applied())
		require.Len(t, h.audit(), 1)
	})
}

func TestWithoutADriver(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.start(func(c *deployment.Config) { c.Driver = nil })
		h.ada.Get(path).Error(http.StatusServiceUnavailable, code.DeployerUnavailable)
		h.ada.Post(path, nil).Error(http.StatusServiceUnavailable, code.DeployerUnavailable)
		h.ada.Delete(path).Error(http.StatusServiceUnavailable, code.DeployerUnavailable)
	})
}

// A runtime that ignores the first requests to end is killed by a later one.
func TestStopIsRepeatedUntilTheRuntimeEnds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		slow := &stubborn{Driver: w.driver}
		h := w.start(func(c *deployment.Config) { c.Driver = slow })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		started := h.reach("running")["startedAt"]
		h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
		require.Eventually(t, func() bool { return slow.stops.Load() > 0 }, patience, pause)
		h.ada.Post(path+"/start", nil).Want(http.StatusAccepted)
		require.NotEqual(t, started, h.reach("running")["startedAt"])
	})
}

func TestFailedRuntimeIsStopped(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.driver.Serve = func(req deploy.Request) (http.Handler, error) {
			req.AgentID = "other"
			return deploytest.Ready(req)
		}
		slow := &stubborn{Driver: w.driver}
		slow.stops.Store(-10) // it continues after the last attempt
		h := w.start(func(c *deployment.Config) { c.Driver, c.StartTimeout = slow, time.Nanosecond })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("failed")
		require.Eventually(t, func() bool {
			o, err := w.driver.Observe(t.Context(), w.driver.Last(key))
			return err == nil && o.Runtime(1).Phase == deploy.Stopped
		}, patience, pause)
	})
}

// stubborn is a driver whose runtimes end after three requests.
type stubborn struct {
	deploy.Driver
	stops atomic.Int64
}

func (s *stubborn) Stop(ctx context.Context, ref deploy.Ref, revision int64, patience time.Duration) error {
	if s.stops.Add(1) <= 3 {
		return nil
	}
	return s.Driver.Stop(ctx, ref, revision, patience)
}

func (s *stubborn) Observe(ctx context.Context, ref deploy.Ref) (deploy.Observed, error) {
	o, err := s.Driver.Observe(ctx, ref)
	for i, r := range o.Runtimes {
		if n := s.stops.Load(); n > 0 && r.Phase == deploy.Running && n <= 3 {
			o.Runtimes[i].Phase, o.Runtimes[i].URL = deploy.Stopping, ""
		}
	}
	return o, err
}
