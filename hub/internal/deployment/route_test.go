package deployment_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
	"github.com/seed93082962/agenthost/hub/gateway/apisix"
	"github.com/seed93082962/agenthost/hub/gateway/gatewaytest"
	"github.com/seed93082962/agenthost/hub/gateway/kong"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
)

// routed is a world with a gateway.
type routed struct {
	*world
	gateway *gatewaytest.Server
	driver  deploy.Gateway
}

func onGateways(t *testing.T, test func(t *testing.T, w *routed)) {
	t.Helper()
	each(t, func(t *testing.T, plain *world) {
		plain.driver.Serve = func(req deploy.Request) (http.Handler, error) {
			ready, err := deploytest.Ready(req)
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Prompt", req.Config.SystemPrompt)
				ready.ServeHTTP(w, r)
			}), err
		}
		w := &routed{world: plain}
		var err error
		if strings.HasSuffix(t.Name(), "postgres") { // each gateway with one of the databases
			w.gateway = gatewaytest.APISIX(t)
			w.driver, err = apisix.New(apisix.Config{AdminURL: w.gateway.Admin, AdminKey: gatewaytest.AdminKey})
		} else {
			w.gateway = gatewaytest.Kong(t)
			w.driver, err = kong.New(kong.Config{AdminURL: w.gateway.Admin, AdminKey: gatewaytest.AdminKey})
		}
		require.NoError(t, err)
		test(t, w)
	})
}

// open starts a hub with the gateway.
func (w *routed) open(change ...func(*deployment.Config)) *hub {
	w.t.Helper()
	return w.start(append([]func(*deployment.Config){func(c *deployment.Config) { c.Gateway, c.GatewayURL = w.driver, w.gateway.Proxy }}, change...)...)
}

// get returns the status of the agent's list at its public address, and the prompt of its revision.
func (w *routed) get(h *hub) (status int, prompt string) {
	w.t.Helper()
	s := h.ada.Get(path).Want(http.StatusOK)
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, s["publicUrl"].(string)+"/v1/agents", http.NoBody)
	require.NoError(w.t, err)
	req.Header.Set("X-Api-Key", s["apiKey"].(string))
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	require.NoError(w.t, err)
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(w.t, err)
	require.NoError(w.t, res.Body.Close())
	return res.StatusCode, res.Header.Get("X-Prompt")
}

func isRouted(status bool) func(apitest.Object) bool {
	return func(s apitest.Object) bool {
		c := condition(s, "Routed")
		return c != nil && c["status"] == status
	}
}

func (w *routed) deploy(h *hub) {
	w.t.Helper()
	h.ada.Post(path, nil).Want(http.StatusAccepted)
	h.reach("running")
	h.until(isRouted(true))
}

// left waits until the gateway has no entity of the key.
func (w *routed) left(names ...string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		return slices.Equal(names, w.gateway.Names("routes")) && len(w.gateway.Names("services")) <= len(names)
	}, patience,
		pause, "%v", names)
}

func TestRouteOfADeployment(t *testing.T) {
	onGateways(t, func(t *testing.T, w *routed) {
		h := w.open()
		w.deploy(h)
		status, prompt := w.get(h)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "first", prompt)
		require.Equal(t, []string{key}, w.gateway.Names("routes"))
		require.NotContains(t, condition(h.ada.Get(path).Want(http.StatusOK), "Routed"), "code")

		var early atomic.Bool // the runtime stopped before its route was removed
		w.gateway.Fail(func(_ http.ResponseWriter, r *http.Request) bool {
			o, _ := w.world.driver.Observe(r.Context(), w.world.driver.Last(key)) // it does not fail
			alive := slices.ContainsFunc(o.Runtimes, func(r deploy.Runtime) bool { return r.Phase == deploy.Running })
			early.Store(early.Load() || r.Method == http.MethodDelete && !alive)
			return false
		})
		h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
		require.Nil(t, condition(h.reach("stopped"), "Routed"))
		w.left()
		h.ada.Post(path+"/start", nil).Want(http.StatusAccepted)
		h.until(isRouted(true))
		h.ada.Delete(path).Want(http.StatusNoContent)
		h.reach("not_deployed")
		w.left()
		require.False(t, early.Load())
	})
}

// A gateway with an address has routes for all hosts.
func TestRouteOfAnAddress(t *testing.T) {
	onGateways(t, func(t *testing.T, w *routed) {
		url := strings.Replace(w.gateway.Proxy, "localhost", "127.0.0.1", 1)
		w.deploy(w.open(func(c *deployment.Config) { c.GatewayURL = url }))
		all, err := w.driver.Routes(t.Context(), w.owner())
		require.NoError(t, err)
		require.Contains(t, all, key)
		require.Empty(t, all[key].Host)
	})
}

// A route has the public path of the agent, and the limit of its runs.
func TestRouteOfAnOrganization(t *testing.T) {
	onGateways(t, func(t *testing.T, w *routed) {
		w.agent("acme", "bot")
		h := w.open(func(c *deployment.Config) { c.External = true })
		ada := h.server.As("acme", "ada", "maintainer")
		ada.Post("/api/v1/admin/agents/bot/deploy", nil).Want(http.StatusAccepted)
		var all map[string]deploy.Route
		require.Eventually(t, func() bool {
			var err error
			all, err = w.driver.Routes(t.Context(), w.owner())
			require.NoError(t, err)
			return len(all) == 1 && all["acme-bot"].Path != "" // it is complete
		}, patience, pause)
		s := ada.Get("/api/v1/admin/agents/bot/deploy").Want(http.StatusOK)
		require.Equal(t, w.gateway.Proxy+"/acme/bot", s["publicUrl"])
		require.Equal(t, deploy.Route{
			Key: "acme-bot", Host: "localhost", Path: "/acme/bot", Target: s["runtimeUrl"].(string), Timeout: 31 * time.Minute,
		}, all["acme-bot"])
	})
}

// The route moves to the next revision before the former one drains. While it cannot be moved, the
// former one continues for a while.
func TestRouteMoves(t *testing.T) {
	onGateways(t, func(t *testing.T, w *routed) {
		h := w.open()
		w.deploy(h)
		h.redeploy("second", 2)
		require.Eventually(t, func() bool {
			status, prompt := w.get(h)
			require.Equal(t, http.StatusOK, status)
			return prompt == "second"
		}, patience, pause)

		w.gateway.Fail(gatewaytest.Away)
		h.redeploy("third", 3)
		s := h.until(isRouted(false))
		require.Equal(t, "gateway_failed", condition(s, "Routed")["code"])
		require.Equal(t, "the admin interface of the gateway cannot be reached", condition(s, "Routed")["message"], "without its address")
		require.Equal(t, "running", s["state"])
		status, prompt := w.get(h)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "second", prompt, "it continues")
		w.gateway.Fail(nil)
		require.NotContains(t, condition(h.until(isRouted(true)), "Routed"), "code")
		_, prompt = w.get(h)
		require.Equal(t, "third", prompt)
		w.awaitAlive(3)

		w.gateway.Fail(gatewaytest.Status(http.StatusInternalServerError))
		began := time.Now()
		h.redeploy("fourth", 4)
		w.awaitAlive(4) // not for ever
		require.Greater(t, time.Since(began), 60*50*time.Millisecond+3*time.Second)
	})
}

// A gateway that fails stops neither a deploy nor a stop nor a delete, and is changed when it
// responds again.
func TestGatewayFails(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"away": gatewaytest.Away,
		"401":  gatewaytest.Status(http.StatusUnauthorized),
		"writes fail": func(w http.ResponseWriter, r *http.Request) bool {
			return r.Method != http.MethodGet && gatewaytest.Status(http.StatusInternalServerError)(w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			onGateways(t, func(t *testing.T, w *routed) {
				h := w.open()
				w.gateway.Fail(fault)
				h.ada.Post(path, nil).Want(http.StatusAccepted)
				h.reach("running")
				require.Equal(t, "gateway_failed", condition(h.until(isRouted(false)), "Routed")["code"])
				w.gateway.Fail(nil)
				h.until(isRouted(true))

				w.gateway.Fail(fault)
				h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
				h.until(func(s apitest.Object) bool { return s["state"] == "stopped" && isRouted(false)(s) })
				require.Empty(t, w.alive())
				w.gateway.Fail(nil)
				w.left()
				h.ada.Post(path+"/start", nil).Want(http.StatusAccepted)
				h.until(isRouted(true))

				w.gateway.Fail(fault)
				h.ada.Delete(path).Want(http.StatusNoContent)
				h.reach("not_deployed")
				require.Equal(t, []string{key}, w.gateway.Names("routes"))
				w.gateway.Fail(nil)
				w.left()
			})
		})
	}
}

// A route that an operator changes is repaired, and routes without a deployment are removed, but
// only those of the hub.
func TestRoutesAreRepaired(t *testing.T) {
	onGateways(t, func(t *testing.T, w *routed) {
		foreign := deploy.Route{Key: "default-foreign", Path: "/foreign", Target: "http://127.0.0.1:1", Timeout: time.Minute}
		require.NoError(t, w.driver.Put(t.Context(), "another", foreign))
		orphan := deploy.Route{Key: "default-gone", Path: "/gone", Target: "http://127.0.0.1:1", Timeout: time.Minute}
		require.NoError(t, w.driver.Put(t.Context(), w.owner(), orphan))
		h := w.open()
		w.deploy(h)
		w.left("default-foreign", key)
		w.gateway.Drop("routes", key)
		w.left("default-foreign", key)
		for _, edit := range []func(gatewaytest.Object){
			func(e gatewaytest.Object) { e["methods"] = []any{"POST"} },
			func(e gatewaytest.Object) {
				e["timeout"], e["paths"] = gatewaytest.Object{"connect": 1.0, "send": 1.0, "read": 1.0}, []any{"/other"}
			},
		} {
			w.gateway.Edit("routes", key, edit)
			require.Eventually(t, func() bool {
				all, err := w.driver.Routes(t.Context(), w.owner())
				require.NoError(t, err)
				return all[key].Path == "/helper"
			}, patience, pause)
		}
		status, _ := w.get(h)
		require.Equal(t, http.StatusOK, status)
		all, err := w.driver.Routes(t.Context(), "another")
		require.NoError(t, err)
		require.Equal(t, foreign, all["default-foreign"])

		h.ada.Post(path+"/stop", nil).Want(http.StatusAccepted)
		h.reach("stopped")
		require.NoError(t, w.driver.Put(t.Context(), w.owner(), deploy.Route{Key: key, Path: "/helper", Target: "http://127.0.0.1:1", Timeout: time.Minute}))
		w.left("default-foreign") // a stopped deployment has none
	})
}

// A name that another program has at the gateway is not taken.
func TestForeignRoute(t *testing.T) {
	onGateways(t, func(t *testing.T, w *routed) {
		foreign := deploy.Route{Key: key, Path: "/helper", Target: "http://127.0.0.1:1", Timeout: time.Minute}
		require.NoError(t, w.driver.Put(t.Context(), "another", foreign))
		w.gateway.Writes()
		h := w.open()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		s := h.until(isRouted(false))
		require.Contains(t, condition(s, "Routed")["message"], "does not belong to this hub")
		h.reach("running")
		h.ada.Delete(path).Want(http.StatusNoContent)
		h.reach("not_deployed")
		require.Empty(t, w.gateway.Writes())
	})
}

// A runtime that is unhealthy, or that ended, has no route until it is ready again.
func TestRouteOfACrash(t *testing.T) {
	onGateways(t, func(t *testing.T, w *routed) {
		probes, away := w.probed()
		h := w.open()
		w.deploy(h)
		away.Store(true)
		h.reach("unhealthy")
		w.left()
		h.until(func(s apitest.Object) bool { return s["state"] == "unhealthy" && condition(s, "Routed") == nil })
		away.Store(false)
		h.until(isRouted(true))
		var early atomic.Bool // a route was removed before the state was stored
		w.gateway.Fail(func(_ http.ResponseWriter, r *http.Request) bool {
			early.Store(early.Load() || r.Method == http.MethodDelete && w.state() == "running")
			return false
		})
		away.Store(true)
		w.world.driver.Kill(key)
		w.left()
		require.False(t, early.Load())
		before := probes.Load() // of the next runtime
		require.Eventually(t, func() bool { return probes.Load() >= before+5 }, patience, pause)
		require.Empty(t, w.gateway.Names("routes"))
		away.Store(false)
		h.until(func(s apitest.Object) bool {
			return s["restartCount"] == 1.0 && s["state"] == "running" && isRouted(true)(s)
		})
		status, _ := w.get(h)
		require.Equal(t, http.StatusOK, status)
	})
}

// The next hub finds the routes of the former one, and changes nothing. Without a gateway, it
// forgets the condition.
func TestRoutesOfTwoHubs(t *testing.T) {
	onGateways(t, func(t *testing.T, w *routed) {
		first := w.open()
		w.deploy(first)
		w.gateway.Writes()
		second := w.open()
		require.NoError(t, first.Close())
		second.prompt("second")
		second.ada.Post(path, nil).Want(http.StatusAccepted)
		second.serves(2)
		second.until(isRouted(true))
		for _, call := range w.gateway.Writes() {
			require.True(t, strings.HasPrefix(call, http.MethodPut), "%s: the route has moved, and nothing was deleted", call)
		}
		require.NoError(t, second.Close())
		third := w.start()
		third.until(func(s apitest.Object) bool { return condition(s, "Routed") == nil })
	})
}

func TestGatewayNeedsAnAddress(t *testing.T) {
	onGateways(t, func(t *testing.T, w *routed) {
		const path, name, same = "without a path", "is not a name", "have the same host"
		for url, want := range map[string]string{
			"": path, "https://gateway.example.com/agents": path, "https://": path, "http://[": path,
			"https://my_gateway.local": name, "https://gateway.example.com.": name, "https://gäteway.example.com": name,
			"https://hub.example.com": same, "http://Hub.Example.Com:8000": same,
		} {
			_, err := deployment.New(t.Context(), deployment.Config{Store: w.store(), Catalog: w.catalog, Driver: w.world.driver, PublicURL: "https://hub.example.com", Gateway: w.driver, GatewayURL: url})
			require.ErrorContains(t, err, want, url)
		}
		for public, want := range map[string]string{w.gateway.Proxy: same, "http://localhost:1": "", "https://192.0.2.1": ""} {
			s, err := deployment.New(t.Context(), deployment.Config{Store: w.store(), Catalog: w.catalog, Driver: w.world.driver, PublicURL: public, Gateway: w.driver, GatewayURL: w.gateway.Proxy})
			if want != "" {
				require.ErrorContains(t, err, want)
				continue
			}
			require.NoError(t, err)
			require.NoError(t, s.Close())
		}
		_, err := deployment.New(t.Context(), deployment.Config{Store: w.store(), Catalog: w.catalog, Driver: w.world.driver, PublicURL: "http://[", Gateway: w.driver, GatewayURL: w.gateway.Proxy})
		require.ErrorContains(t, err, "PublicURL is not a URL")
		for _, url := range []string{"http://192.0.2.1:8000", "http://[2001:db8::1]:8000"} { // also with another port
			_, err := deployment.New(t.Context(), deployment.Config{Store: w.store(), Catalog: w.catalog, Driver: w.world.driver, PublicURL: url[:len(url)-1], Gateway: w.driver, GatewayURL: url})
			require.ErrorContains(t, err, same)
		}
	})
}
