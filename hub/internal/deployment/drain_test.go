package deployment_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
	"github.com/seed93082962/agenthost/hub/gateway/gatewaytest"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// upstream is a model that responds when the test releases it.
func upstream(t *testing.T) (url string, release func()) {
	held := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-held:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() {
		server.CloseClientConnections() // of runs that a failed test has left
		server.Close()
	})
	return server.URL, func() { close(held) }
}

// run starts a run in the runtime that serves, and returns its result.
func (h *hub) run() chan string {
	h.t.Helper()
	e, err := h.Endpoint(h.t.Context(), "default", "helper")
	require.NoError(h.t, err)
	result := make(chan string, 1)
	go func() {
		res, err := http.Post(e.URL+"/v1/agents/helper/runs", "application/json", strings.NewReader("{}"))
		if err != nil {
			result <- err.Error()
			return
		}
		defer res.Body.Close()
		var body struct{ Text string }
		_ = json.NewDecoder(res.Body).Decode(&body)
		result <- strconv.Itoa(res.StatusCode) + body.Text
	}()
	return result
}

// A redeploy cuts no run, also if the hub changes. At most three revisions drain, and the next one
// waits for one of them.
func TestRedeployCutsNoRun(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		model, release := upstream(t)
		w.driver.Serve = func(req deploy.Request) (http.Handler, error) {
			req.Config.Provider.BaseURL = agent.Secret(model)
			return deploytest.Ready(req)
		}
		h := w.start()
		var results []chan string
		for n := 1; n <= 4; n++ {
			h.redeploy(strconv.Itoa(n), n)
			results = append(results, h.run())
		}
		h.prompt("5")
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		s := h.until(func(s apitest.Object) bool {
			message, _ := condition(s, "Progressing")["message"].(string)
			return strings.Contains(message, "when the runs of an earlier one have ended")
		})
		require.Equal(t, 4.0, s["servingRevision"])
		require.NoError(t, h.Close())
		h = w.start()
		require.Equal(t, []int64{1, 2, 3, 4}, w.alive())
		release()
		for _, result := range results {
			require.Equal(t, "200finished", <-result)
		}
		h.serves(5)
		w.awaitAlive(5)
	})
}

// What a user does after the revision that serves has failed cuts no run of a former one.
func TestAFailureCutsNoRun(t *testing.T) {
	t.Parallel()
	for name, repair := range map[string]func(h *hub){
		"deploy":   func(h *hub) { h.redeploy("third", 3) },
		"rollback": func(h *hub) { h.ada.Post(path+"/rollback", nil).Want(http.StatusAccepted); h.serves(3) },
		"start":    func(h *hub) { h.ada.Post(path+"/start", nil).Want(http.StatusAccepted); h.serves(2) },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				model, release := upstream(t)
				var broken atomic.Bool
				w.driver.Serve = func(req deploy.Request) (http.Handler, error) {
					if broken.Load() {
						return nil, errors.New("no space left on device")
					}
					req.Config.Provider.BaseURL = agent.Secret(model)
					return deploytest.Ready(req)
				}
				h := w.start()
				h.redeploy("first", 1)
				result := h.run()
				h.redeploy("second", 2)
				broken.Store(true)
				w.driver.Kill(key)
				h.reach("failed")
				broken.Store(false)
				repair(h)
				h.reach("running")
				require.Equal(t, int64(1), w.alive()[0])
				release()
				require.Equal(t, "200finished", <-result)
			})
		})
	}
}

// A stop ends the runs of former revisions too, also if a start follows before they have ended.
func TestAStopEndsFormerRuns(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		model, release := upstream(t)
		w.driver.Serve = func(req deploy.Request) (http.Handler, error) {
			req.Config.Provider.BaseURL = agent.Secret(model)
			return deploytest.Ready(req)
		}
		f := w.failing()
		h := w.start(func(c *deployment.Config) { c.Driver = f })
		h.redeploy("first", 1)
		result := h.run()
		h.redeploy("second", 2)
		f.set("Stop", errors.New("the platform is busy"))
		h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
		h.ada.Post(path+"/start", nil).Want(http.StatusAccepted)
		w.awaitAlive(2)
		require.NotEqual(t, "200finished", <-result)
		release()
	})
}

// A former revision accepts runs for a while: other hubs, and a gateway, may still send some.
func TestAFormerRevisionAcceptsRuns(t *testing.T) {
	onGateways(t, func(t *testing.T, w *routed) {
		for _, row := range []struct {
			open func(...func(*deployment.Config)) *hub
			want time.Duration
		}{{w.start, 3 * time.Second}, {w.open, 15 * 250 * time.Millisecond}} {
			waiting := &patient{Driver: w.world.driver, first: make(chan time.Duration, 1)}
			h := row.open(func(c *deployment.Config) { c.Driver, c.WatchEvery = waiting, 250*time.Millisecond })
			h.ada.Post(path, nil).Want(http.StatusAccepted)
			h.reach("running")
			began := time.Now()
			h.redeploy("second", 2)
			require.Eventually(t, func() bool { return len(waiting.first) > 0 }, patience, time.Millisecond)
			require.GreaterOrEqual(t, time.Since(began), row.want)
			h.ada.Delete(path).Want(http.StatusNoContent)
			h.reach("not_deployed")
			w.prompt("first")
			require.NoError(t, h.Close())
		}
	})
}

// A revision that drains has its run limit, also if many others were deployed since and another hub
// ends it.
func TestARevisionKeepsItsLimit(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		model, release := upstream(t)
		w.faulty()
		serve := w.driver.Serve
		w.driver.Serve = func(req deploy.Request) (http.Handler, error) {
			req.Config.Provider.BaseURL = agent.Secret(model)
			return serve(req)
		}
		c := w.agents("default")
		a := c.Get("/api/v1/admin/agents/helper").Want(http.StatusOK)
		a["limits"] = apitest.Object{"runTimeout": "4h"}
		c.Put("/api/v1/admin/agents/helper", a).Want(http.StatusOK)
		h := w.start()
		h.redeploy("first", 1)
		result := h.run()
		h.redeploy("second", 2)
		w.prompt("faulty")
		for range 10 {
			h.ada.Post(path, apitest.Object{"force": true}).Want(http.StatusAccepted)
		}
		require.NoError(t, h.Close())
		patient := &patient{Driver: w.driver, first: make(chan time.Duration, 1)}
		w.start(func(c *deployment.Config) { c.Driver = patient })
		require.Equal(t, 4*time.Hour, <-patient.first)
		release()
		require.Equal(t, "200finished", <-result)
	})
}

// patient is a driver that sends the patience with which revision 1 is stopped.
type patient struct {
	deploy.Driver
	first chan time.Duration
}

func (p *patient) Stop(ctx context.Context, ref deploy.Ref, revision int64, patience time.Duration) error {
	if revision == 1 {
		select {
		case p.first <- patience:
		default:
		}
	}
	return p.Driver.Stop(ctx, ref, revision, patience)
}

// The runtimes of a deployment are found without the platform if no former revision drains, and
// otherwise with one call at a time.
func TestDrainingIsFoundOnce(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		model, release := upstream(t)
		w.driver.Serve = func(req deploy.Request) (http.Handler, error) {
			req.Config.Provider.BaseURL = agent.Secret(model)
			return deploytest.Ready(req)
		}
		held := &observed{Driver: w.driver, resume: make(chan struct{})}
		h := w.start(func(c *deployment.Config) { c.Driver = held })
		h.redeploy("first", 1)
		former, err := h.Endpoint(t.Context(), "default", "helper")
		require.NoError(t, err)
		ctx := context.WithValue(t.Context(), counted{}, true)
		urls, err := h.Draining(ctx, former.Key, string(former.APIKey), former.URL)
		require.NoError(t, err)
		require.Empty(t, urls)
		result := h.run()
		h.redeploy("second", 2)
		require.Zero(t, held.calls.Load())

		e, err := h.Endpoint(t.Context(), "default", "helper")
		require.NoError(t, err)
		held.hold.Store(true)
		var begun, ended sync.WaitGroup
		for range 20 {
			begun.Add(1)
			ended.Go(func() {
				begun.Done()
				if urls, err := h.Draining(ctx, e.Key, string(e.APIKey), e.URL); err != nil || len(urls) != 1 || urls[0] != former.URL {
					t.Error(urls, err)
				}
			})
		}
		begun.Wait()
		require.Eventually(t, func() bool { return held.calls.Load() > 0 }, time.Minute, time.Millisecond)
		for range 20 {
			h.ada.Get(path).Want(http.StatusOK) // in the meantime, the others would call it too
		}
		require.EqualValues(t, 1, held.calls.Load())
		close(held.resume)
		ended.Wait()
		urls, err = h.Draining(ctx, former.Key, string(former.APIKey), former.URL) // a hub that does not know the next one yet
		require.NoError(t, err)
		require.Equal(t, []string{e.URL}, urls)
		urls, err = h.Draining(ctx, e.Key, "replaced", e.URL) // a hub that does not know the next key yet
		require.NoError(t, err)
		require.Equal(t, []string{former.URL}, urls)
		release()
		require.Equal(t, "200finished", <-result)
		h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
		h.reach("stopped")
		urls, err = h.Draining(ctx, e.Key, "replaced", e.URL)
		require.NoError(t, err)
		require.Empty(t, urls)
		w.exec(`ALTER TABLE deployments RENAME TO gone`)
		_, err = h.Draining(ctx, e.Key, string(e.APIKey), e.URL)
		require.ErrorContains(t, err, "read deployment")
	})
}

// observed is a driver that counts calls of Observe by the test, and holds them.
type observed struct {
	deploy.Driver
	calls  atomic.Int64
	hold   atomic.Bool
	resume chan struct{}
}

type counted struct{}

func (o *observed) Observe(ctx context.Context, ref deploy.Ref) (deploy.Observed, error) {
	if ctx.Value(counted{}) != nil {
		o.calls.Add(1)
		if o.hold.Load() {
			<-o.resume
		}
	}
	return o.Driver.Observe(ctx, ref)
}

// While a route that an operator changed cannot be written, it may lead to a former revision, whose
// time begins again afterwards.
func TestAChangedRouteDelaysTheEndOfAFormerRevision(t *testing.T) {
	onGateways(t, func(t *testing.T, w *routed) {
		const every = 80 * time.Millisecond
		h := w.open(func(c *deployment.Config) { c.WatchEvery = every })
		w.deploy(h)
		began := time.Now()
		h.redeploy("second", 2)
		h.until(isRouted(true))
		w.gateway.Fail(func(rw http.ResponseWriter, r *http.Request) bool {
			return r.Method != http.MethodGet && gatewaytest.Status(http.StatusInternalServerError)(rw, r)
		})
		w.gateway.Edit("routes", key, func(e gatewaytest.Object) { e["methods"] = []any{"POST"} })
		h.until(isRouted(false))
		w.awaitAlive(2)
		require.Greater(t, time.Since(began), 60*every+3*time.Second)
	})
}
