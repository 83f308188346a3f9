package deployment_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/hub/wire"
)

// A probe does not decode a response that would take much memory.
func TestLargeResponseOfARuntime(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.driver.Serve = func(deploy.Request) (http.Handler, error) {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if strings.HasPrefix(r.URL.Path, "/health") {
					_, _ = io.WriteString(w, "{}")
					return
				}
				_, _ = io.WriteString(w, `[{"id":"helper","status":"ready"}`+strings.Repeat(",{}", 64<<10)+"]") // the hub may have left
			}), nil
		}
		h := w.start(func(c *deployment.Config) { c.StartTimeout = 50 * time.Millisecond })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		require.Contains(t, h.reach("failed")["error"], "the response is too large")
	})
}

// probed makes the runtimes count their requests, and reject them while away is true.
func (w *world) probed() (probes *atomic.Int64, away *atomic.Bool) {
	probes, away = new(atomic.Int64), new(atomic.Bool)
	serve := w.driver.Serve
	if serve == nil {
		serve = deploytest.Ready
	}
	w.driver.Serve = func(req deploy.Request) (http.Handler, error) {
		ready, err := serve(req)
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			probes.Add(1)
			if away.Load() {
				rw.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			ready.ServeHTTP(rw, r)
		}), err
	}
	return probes, away
}

// A runtime that does not respond to three probes is unhealthy, and has some time to recover.
func TestUnhealthyRuntimeRecovers(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		var mu sync.Mutex // guards states
		var states []string
		probes, away := w.probed()
		rejects := w.driver.Serve
		w.driver.Serve = func(req deploy.Request) (http.Handler, error) {
			handler, err := rejects(req)
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if away.Load() && strings.HasPrefix(r.URL.Path, "/health/") { // and not a request for MCP servers
					mu.Lock()
					defer mu.Unlock()
					states = append(states, w.state())
				}
				handler.ServeHTTP(rw, r)
			}), err
		}
		h := w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		before := h.reach("running")
		away.Store(true)
		s := h.reach("unhealthy")
		require.Equal(t, []any{"unhealthy", before["runtimeUrl"]}, []any{s["health"], s["runtimeUrl"]})
		require.Equal(t, []any{false, s["error"]}, []any{condition(s, "ready")["status"], condition(s, "ready")["message"]})
		require.Contains(t, s["error"], "the runtime is not ready")
		e, err := h.Endpoint(t.Context(), "default", "helper")
		require.NoError(t, err, "some of its requests may succeed")
		require.Equal(t, before["runtimeUrl"], e.URL)
		n := probes.Load()
		require.Eventually(t, func() bool { return probes.Load() >= n+5 }, patience, pause)
		mu.Lock()
		require.Equal(t, []string{"running", "running", "running", "unhealthy"}, states[:4])
		mu.Unlock()
		away.Store(false)
		s = h.reach("running")
		require.Equal(t, []any{"healthy", before["startedAt"], 0.0, nil}, []any{s["health"], s["startedAt"], s["restartCount"], s["error"]})
	})
}

// preparing is a driver whose platform prepares each start until ready is set.
type preparing struct {
	deploy.Driver
	ready atomic.Bool
	first atomic.Pointer[time.Time]
}

func (p *preparing) Observe(ctx context.Context, ref deploy.Ref) (deploy.Observed, error) {
	o, err := p.Driver.Observe(ctx, ref)
	for i := range o.Runtimes {
		if r := &o.Runtimes[i]; r.Phase == deploy.Running && !p.ready.Load() {
			r.Preparing, r.Message = true, "the image is pulled"
			p.first.CompareAndSwap(nil, new(time.Now()))
		}
	}
	return o, err
}

// The time to start begins when the platform has prepared the start.
func TestPreparation(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.driver.Serve = func(req deploy.Request) (http.Handler, error) {
			req.AgentID = "other"
			return deploytest.Ready(req)
		}
		const start = 50 * time.Millisecond
		slow := &preparing{Driver: w.driver}
		h := w.start(func(c *deployment.Config) { c.Driver, c.StartTimeout = slow, start })
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		require.Eventually(t, func() bool { return slow.first.Load() != nil && time.Since(*slow.first.Load()) > 10*start }, patience, pause)
		status := h.reach("starting")
		require.EqualValues(t, 0, status["restartCount"])
		require.NotEmpty(t, status["runtimeUrl"])
		var failures int
		require.NoError(t, w.db.Read().QueryRowContext(t.Context(), `SELECT failures FROM deployments`).Scan(&failures))
		require.Zero(t, failures)
		_, err := h.Endpoint(t.Context(), "default", "helper")
		require.ErrorIs(t, err, wire.Unavailable)
		require.Contains(t, fmt.Sprint(status["conditions"]), "the image is pulled")
		slow.ready.Store(true)
		require.Contains(t, h.reach("failed")["error"], "The agent was not ready after 50ms: another runtime")
	})
}

func TestPreparationWithoutAnEnd(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.driver.Serve = func(req deploy.Request) (http.Handler, error) {
			req.AgentID = "other"
			return deploytest.Ready(req)
		}
		h := w.start(func(c *deployment.Config) {
			c.Driver, c.StartTimeout, c.PrepareTimeout = &preparing{Driver: w.driver}, 50*time.Millisecond, 50*time.Millisecond
		})
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		require.Contains(t, h.reach("failed")["error"], "The agent was not ready after 50ms: the image is pulled")
	})
}

// Only probes that fail in sequence make a runtime unhealthy.
func TestProbesThatFailInSequence(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		var failing atomic.Bool
		var probes atomic.Int64
		w.driver.Serve = func(req deploy.Request) (http.Handler, error) {
			ready, err := deploytest.Ready(req)
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if failing.Load() && strings.HasPrefix(r.URL.Path, "/health") && probes.Add(1)%3 != 0 {
					rw.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				ready.ServeHTTP(rw, r)
			}), err
		}
		h := w.start()
		h.ada.Post(path, nil).Want(http.StatusAccepted)
		h.reach("running")
		failing.Store(true)
		for probes.Load() < 18 {
			require.Equal(t, "running", h.ada.Get(path).Want(http.StatusOK)["state"])
		}
	})
}
