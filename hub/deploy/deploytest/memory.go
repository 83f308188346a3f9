// Package deploytest has the suite that every deploy.Driver passes, and a driver in memory for
// tests of other packages.
package deploytest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/internal/replica"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// Memory is a driver whose runtimes are HTTP servers in this process.
type Memory struct {
	// Serve returns the handler of a runtime. Defaults to [Ready].
	Serve func(deploy.Request) (http.Handler, error)

	mu      sync.Mutex // guards the fields below
	runs    map[deploy.Ref]map[int64]*run
	last    map[string]deploy.Ref // that was applied last, by key
	failure error
	applied int
}

// run is the runtime of a revision. A nil server is a runtime that ended.
type run struct {
	deploy.Runtime
	request deploy.Request
	server  *httptest.Server
	handler atomic.Value // of the server, a func(http.ResponseWriter, *http.Request)
	active  atomic.Int64 // requests
	log     []string
}

var _ deploy.Driver = (*Memory)(nil)

// Ready returns the handler of a runtime whose agent is ready. It has only the routes that a
// deployment needs, and requires the API key of the request to list agents. A run lasts until the
// model has responded.
func Ready(req deploy.Request) (http.Handler, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health/ready", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, map[string]string{"status": "ready"})
	})
	mux.HandleFunc("GET /v1/agents", func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(strings.Split(string(req.Env[deploy.EnvAPIKey]), ","), (r.Header.Get("X-Api-Key"))) {
			respond(w, http.StatusUnauthorized, wire.ErrorBody{Error: "Unauthorized"})
			return
		}

		respond(w, http.StatusOK, []wire.AgentSummary{{ID: req.AgentID, Name: req.AgentID, Model: req.Config.Model, Status: "ready"}})
	})
	mux.HandleFunc("POST /v1/agents/{id}/runs", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise, the context does not end with the connection
		model, err := http.NewRequestWithContext(r.Context(), http.MethodPost, string(req.Config.Provider.BaseURL), http.NoBody)
		if err == nil {
			var res *http.Response
			if res, err = new(http.Client).Do(model); err == nil {
				err = res.Body.Close()
			}
		}

		if err != nil {
			respond(w, http.StatusBadGateway, wire.ErrorBody{Error: err.Error()})
			return
		}

		respond(w, http.StatusOK, wire.RunResponse{State: wire.StateCompleted, Text: "finished"})
	})
	return mux, nil
}

func respond(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // an error means that the client disconnected
}

// Backend returns "memory".
func (m *Memory) Backend() string { return "memory" }

// CheckDeployment returns an error for several replicas: a runtime is one server.
func (m *Memory) CheckDeployment(d agent.Deployment) error { return replica.One(m.Backend(), d) }

// Fail makes all calls that change something fail with err, until it is called with nil.
func (m *Memory) Fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failure = err
}

// Applied returns how many requests were applied.
func (m *Memory) Applied() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.applied
}

// of returns the runtimes of the deployment of a key that was applied last.
func (m *Memory) of(key string) map[int64]*run { return m.runs[m.last[key]] }

// lastRun returns the runtime of the last revision, or nil.
func (m *Memory) lastRun(key string) *run {
	var last *run
	for _, r := range m.of(key) {
		if last == nil || r.Revision > last.Revision {
			last = r
		}
	}

	return last
}

// Last returns the deployment of a key that was applied last.
func (m *Memory) Last(key string) deploy.Ref {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last[key]
}

// Request returns the last request of a deployment.
func (m *Memory) Request(key string) deploy.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.lastRun(key); r != nil {
		return r.request
	}

	return deploy.Request{}
}

// Kill ends the runtime of the last revision of a deployment as a crash does, with a line in its
// log.
func (m *Memory) Kill(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lastRun(key).crash()
}

// KillRevision is Kill for one revision.
func (m *Memory) KillRevision(key string, revision int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(key)[revision].crash()
}

// Remove removes the runtime of the last revision of a deployment, as someone does on the platform.
func (m *Memory) Remove(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.lastRun(key); r != nil {
		r.end(deploy.Stopped)
		delete(m.of(key), r.Revision)
	}
}

func (r *run) crash() {
	if r != nil && r.server != nil {
		r.end(deploy.Exited)
		r.log = append(r.log, `{"level":"error","message":"out of memory"}`)
	}
}

// Log appends lines to the log of the last revision of a deployment.
func (m *Memory) Log(key string, lines ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.lastRun(key); r != nil {
		r.log = append(r.log, lines...)
	}
}

// Close ends all runtimes.
func (m *Memory) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, all := range m.runs {
		for _, r := range all {
			r.end(deploy.Stopped)
		}
	}
}

func (r *run) end(phase deploy.Phase) {
	if r.server != nil {
		r.server.CloseClientConnections()
		r.server.Close()
		r.server = nil
	}

	r.Phase, r.URL = phase, ""
}

// change calls do with the runtimes of the deployment, which is nil if there is none.
func (m *Memory) change(ref deploy.Ref, do func(map[int64]*run) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failure != nil {
		return m.failure
	}

	return do(m.runs[ref])
}

// Apply implements deploy.Driver.
func (m *Memory) Apply(_ context.Context, ref deploy.Ref, revision int64, req deploy.Request) error {
	if err := m.CheckDeployment(req.Deployment); err != nil {
		return err
	}

	return m.change(ref, func(all map[int64]*run) error {
		if all == nil {
			if m.runs == nil {
				m.runs, m.last = map[deploy.Ref]map[int64]*run{}, map[string]deploy.Ref{}
			}

			all = map[int64]*run{}
			m.runs[ref], m.last[ref.Key] = all, ref
		}

		r := all[revision]
		if r == nil {
			r = &run{Runtime: deploy.Runtime{Revision: revision, Phase: deploy.Stopped}}
			all[revision] = r
		}

		if r.server != nil {
			return nil
		}

		r.request = req
		m.applied++
		if err := m.handle(r); err != nil {
			return err
		}

		r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			r.active.Add(1)
			defer r.active.Add(-1)
			r.handler.Load().(func(http.ResponseWriter, *http.Request))(w, req)
		}))
		r.Phase, r.URL = deploy.Running, r.server.URL
		r.StartedAt = later(r.StartedAt)
		r.log = append(r.log, "listening on "+r.URL)
		return nil
	})
}

// handle replaces the handler of a runtime by that of its request.
func (m *Memory) handle(r *run) error {
	serve := m.Serve
	if serve == nil {
		serve = Ready
	}

	handler, err := serve(r.request)
	if err == nil {
		r.handler.Store(handler.ServeHTTP)
	}

	return err
}

// SetKeys implements deploy.Driver.
func (m *Memory) SetKeys(_ context.Context, ref deploy.Ref, keys []agent.Secret) error {
	list := make([]string, len(keys))
	for i, key := range keys {
		list[i] = string(key)
	}

	return m.change(ref, func(all map[int64]*run) error {
		for _, r := range all {
			r.request.Env = maps.Clone(r.request.Env)
			r.request.Env[deploy.EnvAPIKey] = agent.Secret(strings.Join(list, ","))
			if err := m.handle(r); err != nil {
				return err
			}
		}

		return nil
	})
}

// later returns the time, in microseconds and after the given one.
func later(than time.Time) time.Time {
	now := time.Now().UTC().Truncate(time.Microsecond)
	if !now.After(than) {
		now = than.Add(time.Microsecond)
	}

	return now
}

// Observe implements deploy.Driver.
func (m *Memory) Observe(_ context.Context, ref deploy.Ref) (deploy.Observed, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.runs[ref]
	o := deploy.Observed{Exists: all != nil}
	for _, revision := range slices.Sorted(maps.Keys(all)) {
		r := all[revision]
		if r.Phase == deploy.Stopping && r.active.Load() == 0 {
			r.end(deploy.Stopped)
		}

		o.Runtimes = append(o.Runtimes, r.Runtime)
	}

	return o, nil
}

// Stop implements deploy.Driver. A request in progress is a run. Without patience, it is cut.
func (m *Memory) Stop(_ context.Context, ref deploy.Ref, revision int64, patience time.Duration) error {
	return m.change(ref, func(all map[int64]*run) error {
		switch r := all[revision]; {
		case r == nil:
		case r.server == nil || patience == 0 || r.active.Load() == 0:
			r.end(deploy.Stopped)
		case r.Phase == deploy.Running:
			r.Phase = deploy.Stopping
			r.handler.Store(func(w http.ResponseWriter, _ *http.Request) {
				respond(w, http.StatusServiceUnavailable, wire.ErrorBody{Error: "Draining"})
			})
		}

		return nil
	})
}

// Discard implements deploy.Driver.
func (m *Memory) Discard(_ context.Context, ref deploy.Ref, revision int64) error {
	return m.change(ref, func(all map[int64]*run) error {
		if r := all[revision]; r != nil {
			r.end(deploy.Stopped)
			delete(all, revision)
		}

		return nil
	})
}

// Delete implements deploy.Driver.
func (m *Memory) Delete(_ context.Context, ref deploy.Ref) error {
	return m.change(ref, func(all map[int64]*run) error {
		for _, r := range all {
			r.end(deploy.Stopped)
		}

		delete(m.runs, ref)
		return nil
	})
}

// Logs implements deploy.Driver.
func (m *Memory) Logs(_ context.Context, ref deploy.Ref, revision int64, tail int) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if errors.Is(m.failure, deploy.ErrUnavailable) {
		return nil, m.failure
	}

	r := m.runs[ref][revision]
	if r == nil {
		return nil, nil
	}

	return slices.Clone(r.log[max(len(r.log)-tail, 0):]), nil
}

// List implements deploy.Driver.
func (m *Memory) List(_ context.Context, owner string) ([]deploy.Ref, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []deploy.Ref
	for ref := range m.runs {
		if ref.Owner == owner {
			all = append(all, ref)
		}
	}

	return all, nil
}
