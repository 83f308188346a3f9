package deployment_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/gateway/gatewaytest"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
)

// listed waits until the routes were listed some more times.
func (w *routed) listed(times int) {
	w.t.Helper()
	before := w.gateway.Listings()
	require.Eventually(w.t, func() bool { return w.gateway.Listings() >= before+times }, patience, 5*time.Millisecond)
}

// state returns the state of the only deployment, for a gateway or a runtime.
func (w *world) state() (state string) {
	_ = w.db.Read().QueryRowContext(context.Background(), `SELECT state FROM deployments`).Scan(&state) // "" if there is none
	return state
}

// deployMany deploys further agents, and waits for their routes.
func (w *routed) deployMany(h *hub, n int) {
	w.t.Helper()
	for i := range n {
		name := fmt.Sprintf("agent%d", i)
		w.agent("default", name)
		h.ada.Post("/api/v1/admin/agents/"+name+"/deploy", nil).Want(http.StatusAccepted)
	}
	require.Eventually(w.t, func() bool { return len(w.gateway.Names("routes")) == n }, patience, 5*time.Millisecond)
}

// A hub that starts only lists the routes if nothing has changed. When all are gone, at most eight
// calls at a time repair them.
func TestGatewayCallsAreBounded(t *testing.T) {
	onGateways(t, func(t *testing.T, w *routed) {
		const many = 10
		h := w.open()
		w.deployMany(h, many)
		require.NoError(t, h.Close())
		w.gateway.Writes()
		w.open()
		w.listed(many) // a page of Kong has three
		for _, call := range w.gateway.Calls() {
			require.True(t, strings.HasPrefix(call, http.MethodGet) && (strings.HasSuffix(call, "/routes") || strings.HasSuffix(call, "/services")), call)
		}

		var now, most atomic.Int64
		end := make(chan struct{})
		w.gateway.Fail(func(_ http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/routes") || strings.HasSuffix(r.URL.Path, "/services") {
				return false
			}
			n := now.Add(1)
			defer now.Add(-1)
			for before := most.Load(); n > before && !most.CompareAndSwap(before, n); before = most.Load() {
			}
			select {
			case <-end:
			case <-r.Context().Done():
			}
			return false
		})
		for _, name := range w.gateway.Names("routes") {
			w.gateway.Drop("routes", name)
		}
		require.Eventually(t, func() bool { return most.Load() >= 8 }, patience, time.Millisecond)
		w.listed(2)
		require.EqualValues(t, 8, most.Load())
		close(end)
		require.Eventually(t, func() bool { return len(w.gateway.Names("routes")) == many }, patience, 5*time.Millisecond)
	})
}

// The gateway stores whole seconds: a run limit of another form is not a change.
func TestRouteOfAFraction(t *testing.T) {
	onGateways(t, func(t *testing.T, w *routed) {
		c := w.agents("default")
		a := c.Get("/api/v1/admin/agents/helper").Want(http.StatusOK)
		a["limits"] = apitest.Object{"runTimeout": "90.5s"}
		c.Put("/api/v1/admin/agents/helper", a).Want(http.StatusOK)
		h := w.open()
		w.deploy(h)
		w.gateway.Writes()
		began := time.Now()
		w.listed(4)
		require.Greater(t, time.Since(began), 2*10*50*time.Millisecond, "with every tenth probe")
		require.False(t, slices.ContainsFunc(w.gateway.Calls(), func(call string) bool { return strings.HasSuffix(call, key) }))
		all, err := w.driver.Routes(t.Context(), w.owner())
		require.NoError(t, err)
		require.Equal(t, 151*time.Second, all[key].Timeout)
	})
}

// A deployment whose request is not stored has a route with the default limit.
func TestRouteWithoutARequest(t *testing.T) {
	onGateways(t, func(t *testing.T, w *routed) {
		h := w.open()
		w.deploy(h)
		require.NoError(t, h.Close())
		_, err := w.db.Write().ExecContext(t.Context(), `DELETE FROM deployment_revisions`)
		require.NoError(t, err)
		w.gateway.Drop("routes", key)
		w.open()
		w.left(key)
		all, err := w.driver.Routes(t.Context(), w.owner())
		require.NoError(t, err)
		require.Equal(t, 31*time.Minute, all[key].Timeout)
	})
}

// Routes without a deployment are removed in parts. One that cannot be removed delays no repair.
func TestUnownedRoutes(t *testing.T) {
	onGateways(t, func(t *testing.T, w *routed) {
		const many = 60
		for i := range many {
			name := fmt.Sprintf("gone%d", i)
			r := deploy.Route{Key: "default-" + name, Path: "/" + name, Target: "http://127.0.0.1:1", Timeout: time.Minute}
			require.NoError(t, w.driver.Put(t.Context(), w.owner(), r))
		}
		w.gateway.Fail(func(rw http.ResponseWriter, r *http.Request) bool {
			return r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/default-gone7") && gatewaytest.Status(http.StatusBadRequest)(rw, r)
		})
		w.gateway.Writes()
		h := w.open()
		w.deploy(h)
		w.left("default-gone7", key)
		part := 0
		for _, call := range w.gateway.Calls() {
			switch {
			case gatewaytest.IsListing(call):
				part = 0
			case strings.HasPrefix(call, http.MethodDelete) && strings.Contains(call, "/routes/"):
				part++
			}
			require.LessOrEqual(t, part, 50)
		}
		w.listed(10) // not ever more slowly
		w.gateway.Drop("routes", key)
		w.left("default-gone7", key)
	})
}

// A write that arrives late, such as one of a hub that was frozen, is reversed after the next
// listing.
func TestALateWrite(t *testing.T) {
	onGateways(t, func(t *testing.T, w *routed) {
		h := w.open()
		w.deploy(h)
		held, end := make(chan struct{}), make(chan struct{})
		release := sync.OnceFunc(func() { close(end) })
		t.Cleanup(release)
		var frozen atomic.Bool
		w.gateway.Fail(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPut && frozen.CompareAndSwap(false, true) {
				text, _ := io.ReadAll(r.Body) // the client is still there
				r.Body = io.NopCloser(bytes.NewReader(text))
				close(held)
				<-end
			}
			return false
		})
		h.redeploy("second", 2)
		<-held
		second := w.open() // another hub at the same time
		require.NoError(t, h.Close())
		second.redeploy("third", 3)
		prompt := func() string { _, prompt := w.get(second); return prompt }
		require.Eventually(t, func() bool { return prompt() == "third" }, patience, 5*time.Millisecond)
		second.awaitAlive(3)
		w.gateway.Writes()
		release()
		require.Eventually(t, func() bool { return len(w.gateway.Writes()) > 0 }, patience, 5*time.Millisecond) // the repair
		require.Eventually(t, func() bool { return prompt() == "third" }, patience, 5*time.Millisecond)
	})
}

// The pause between attempts to change a route doubles.
func TestPausesOfAGatewayThatFails(t *testing.T) {
	onGateways(t, func(t *testing.T, w *routed) {
		var attempts atomic.Int64
		w.gateway.Fail(func(rw http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet {
				return false
			}
			attempts.Add(1)
			return gatewaytest.Status(http.StatusInternalServerError)(rw, r)
		})
		h := w.open() // the first pause is 1 ms
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.until(isRouted(false))
		began := time.Now()
		w.listed(4)
		n := attempts.Load() // ten pauses of less than a second in total, and then one each second
		require.LessOrEqual(t, n, 12+int64(time.Since(began).Seconds()))
		require.Greater(t, n, int64(4))
	})
}

// A change of a user is published without the pause after a failure.
func TestChangeAfterAGatewayFailed(t *testing.T) {
	onGateways(t, func(t *testing.T, w *routed) {
		w.gateway.Fail(gatewaytest.Away)
		h := w.open(func(c *deployment.Config) { c.Backoff = time.Minute })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.until(isRouted(false))
		w.gateway.Fail(nil)
		h.redeploy("second", 2)
		require.Eventually(t, func() bool { return isRouted(true)(h.ada.Get(path).Want(http.StatusOK)) }, patience/2, pause)
	})
}

// The routes are listed less often while that fails, and then as often as before.
func TestListingsAfterAnOutage(t *testing.T) {
	onGateways(t, func(t *testing.T, w *routed) {
		var mu sync.Mutex // guards the listings
		var listings []time.Time
		var fails atomic.Bool
		fails.Store(true)
		w.gateway.Fail(func(rw http.ResponseWriter, r *http.Request) bool {
			if !gatewaytest.IsListing(r.Method + " " + r.URL.Path) {
				return false
			}
			mu.Lock()
			defer mu.Unlock()
			listings = append(listings, time.Now())
			return fails.Load() && gatewaytest.Status(http.StatusInternalServerError)(rw, r)
		})
		pauses := func(times int) (all []time.Duration) {
			t.Helper()
			require.Eventually(t, func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(listings) > times
			}, patience, pause)
			mu.Lock()
			defer mu.Unlock()
			for i, at := range listings[1:] {
				all = append(all, at.Sub(listings[i]))
			}
			return all
		}
		w.open(func(c *deployment.Config) { c.WatchEvery = 2 * time.Millisecond })
		failed := pauses(5) // each is twice as long as the one before
		var total time.Duration
		for _, p := range failed[:5] {
			total += p
		}
		require.Greater(t, total, (2+4+8+16+32)*20*time.Millisecond)
		fails.Store(false)
		all := pauses(len(failed) + 10)
		require.Less(t, slices.Min(all[len(failed)+1:])*4, slices.Max(failed), all)
	})
}

// A hub that could not list the routes does not remove that of a deployment which should run.
func TestNoListing(t *testing.T) {
	onGateways(t, func(t *testing.T, w *routed) {
		probes, away := w.probed()
		h := w.open()
		w.deploy(h)
		require.NoError(t, h.Close())
		away.Store(true)
		w.world.driver.Kill(key)
		w.gateway.Fail(func(rw http.ResponseWriter, r *http.Request) bool {
			return gatewaytest.IsListing(r.Method+" "+r.URL.Path) && gatewaytest.Status(http.StatusInternalServerError)(rw, r)
		})
		w.gateway.Writes()
		h = w.open()
		h.reach("starting")
		require.Eventually(t, func() bool { return len(w.gateway.Calls()) > 0 }, patience, pause)
		before := probes.Load()
		require.Eventually(t, func() bool { return probes.Load() >= before+3 }, patience, pause)
		require.Empty(t, w.gateway.Writes())
		w.gateway.Fail(nil)
		w.left()
		away.Store(false)
		w.left(key)
	})
}

// A route is not removed if a deployment has its key by the time.
func TestARouteThatIsOwnedInTheMeantime(t *testing.T) {
	onGateways(t, func(t *testing.T, w *routed) {
		w.agent("default", "other")
		h := w.start() // without the gateway
		agents := map[string]string{key: "helper", "default-other": "other"}
		var owned atomic.Pointer[string]
		deployed := make(chan error, 1)
		w.gateway.Fail(func(_ http.ResponseWriter, r *http.Request) bool {
			gone := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
			if r.Method != http.MethodDelete || agents[gone] == "" {
				return false
			}
			for left, name := range agents {
				if left != gone && owned.CompareAndSwap(nil, &left) { // of the first call
					_, err := h.Deploy(t.Context(), h.ada.Caller, name, bodies.DeployRequest{})
					deployed <- err
				}
			}
			return false
		})
		for left, name := range agents {
			require.NoError(t, w.driver.Put(t.Context(), w.owner(), deploy.Route{Key: left, Path: "/" + name, Target: "http://127.0.0.1:1", Timeout: time.Minute}))
		}
		w.open()
		require.Eventually(t, func() bool { return len(deployed) > 0 }, patience, pause)
		require.NoError(t, <-deployed)
		w.listed(2)
		for _, call := range w.gateway.Calls() {
			require.False(t, strings.HasPrefix(call, http.MethodDelete) && strings.HasSuffix(call, *owned.Load()), call)
		}
	})
}

// closed is a gateway that notes that its connections were closed.
type closed struct {
	deploy.Gateway
	called atomic.Bool
}

func (c *closed) CloseIdleConnections() { c.called.Store(true) }

// A hub that ends leaves no connections to the gateway.
func TestCloseOfAGateway(t *testing.T) {
	onGateways(t, func(t *testing.T, w *routed) {
		g := &closed{Gateway: w.driver}
		h := w.open(func(c *deployment.Config) { c.Gateway = g })
		require.NoError(t, h.Close())
		require.True(t, g.called.Load())
	})
}

// A slow gateway delays a deployment only for the time of a call.
func TestSlowGateway(t *testing.T) {
	onGateways(t, func(t *testing.T, w *routed) {
		h := w.open()
		end := make(chan struct{})
		var calls atomic.Int64
		w.gateway.Fail(func(_ http.ResponseWriter, r *http.Request) bool {
			calls.Add(1)
			select {
			case <-r.Context().Done():
				return true
			case <-end:
				return false
			}
		})
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		require.LessOrEqual(t, calls.Load(), int64(1), "it does not wait for the gateway")
		h.ada.Delete(path).Want(http.StatusNoContent)
		h.reach("not_deployed")
		close(end)
		w.left()
	})
}
