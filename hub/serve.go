package hub

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/apidocs"
	"github.com/seed93082962/agenthost/internal/db"
)

// An outage is visible within two seconds: a result is used for readyAge, and the next check takes
// at most readyTimeout.
const (
	readyAge     = 500 * time.Millisecond
	readyTimeout = 1500 * time.Millisecond
)

//go:embed openapi.yaml
var document []byte

func (h *Hub) healthRoutes() []api.Route {
	docs := apidocs.New(document)
	return []api.Route{
		{Method: http.MethodGet, Path: "/health", Access: api.Open, Quiet: true, Handle: h.health},
		{Method: http.MethodGet, Path: "/health/ready", Access: api.Open, Quiet: true, Handle: h.ready},
		{Method: http.MethodGet, Path: "/openapi.yaml", Access: api.Open, Handle: docs.ServeYAML},
		{Method: http.MethodGet, Path: "/openapi.json", Access: api.Open, Handle: docs.ServeJSON},
		{Method: http.MethodGet, Path: "/docs", Access: api.Open, Handle: docs.ServePage},
	}
}

// health reports that the process is alive, whatever the state of the database.
func (h *Hub) health(w http.ResponseWriter, _ *http.Request) error {
	return api.Encode(w, http.StatusOK, wire.Health{Status: "ok", Version: h.cfg.Version, UptimeMS: h.cfg.Now().Sub(h.begin).Milliseconds()})
}

type readiness struct {
	Status string `json:"status"`
}

// ready reports whether the hub should receive requests.
func (h *Hub) ready(w http.ResponseWriter, r *http.Request) error {
	if h.draining.Load() {
		return api.Encode(w, http.StatusServiceUnavailable, readiness{"draining"})
	}

	if err := h.Ready(r.Context()); err != nil {
		return api.Encode(w, http.StatusServiceUnavailable, readiness{"unavailable"})
	}

	return api.Encode(w, http.StatusOK, readiness{"ready"})
}

// readyState is the result of the last check.
type readyState struct {
	mu        sync.Mutex // guards the fields below; held during a check
	checkedAt time.Time
	err       error
}

// Ready returns an error if the database cannot be reached, takes no writes or lacks a migration of
// this version, or if a signing key in it cannot be opened with the encryption keys. It changes
// nothing. Anyone can send a readiness probe, so concurrent callers, and callers within half a
// second, share one result.
func (h *Hub) Ready(ctx context.Context) error {
	r := &h.readiness
	r.mu.Lock()
	defer r.mu.Unlock()
	if age := h.cfg.Now().Sub(r.checkedAt); age >= 0 && age < readyAge {
		return r.err
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout) // other callers wait for the result too
	defer cancel()
	r.err = h.checkReady(ctx)
	r.checkedAt = h.cfg.Now()
	if r.err != nil {
		h.cfg.Logger.Warn("not ready", "err", r.err)
	}

	return r.err
}

func (h *Hub) checkReady(ctx context.Context) error {
	if err := h.db.Ping(ctx); err != nil {
		return err
	}

	// A newer replica may have migrated the database: this one serves until it is replaced too.
	if err := h.db.Migrated(ctx, migrations()...); err != nil && !errors.Is(err, db.ErrNewer) {
		return err
	}

	return h.sessions.Ready(ctx)
}

// requests counts the requests in progress.
type requests struct {
	mu   sync.Mutex // guards the fields below
	n    int
	idle chan struct{} // closed when n is 0; nil if no caller waits
}

func (r *requests) begin() {
	r.mu.Lock()
	r.n++
	r.mu.Unlock()
}

func (r *requests) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n--; r.n == 0 && r.idle != nil {
		close(r.idle)
		r.idle = nil
	}
}

// wait waits until no request is in progress.
func (r *requests) wait(ctx context.Context) error {
	r.mu.Lock()
	if r.n == 0 {
		r.mu.Unlock()
		return nil
	}

	if r.idle == nil {
		r.idle = make(chan struct{})
	}

	idle := r.idle
	r.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		return fmt.Errorf("wait for requests, %d of which are in progress: %w", r.n, context.Cause(ctx))
	}
}

// ServeHTTP serves a request of the API.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	requests := h.requests.Load()
	requests.begin()
	defer requests.end()
	h.handler.ServeHTTP(w, r)
}

// shutdownWithin bounds the time in which the answers are stored, and the runs at /runtime counted,
// that outlast a drain.
const shutdownWithin = 10 * time.Second

// closeWithin bounds the time in which the runs at /runtime are counted that are in progress at the
// end of the hub: they end within 6 s, and wait 10 s for the database.
const closeWithin = 20 * time.Second

// lastEvents bounds the time in which the last events of these answers are sent.
const lastEvents = time.Second

// noticeWithin is the time in which load balancers notice that a hub drains. Those that do not
// look, such as nginx, continue to send requests.
const noticeWithin = time.Second

// Drain makes GET /health/ready respond with 503, so that load balancers send no new requests, and
// waits until no request and no answer is in progress. After a second, the hub rejects new answers
// and runs with 503, continues to serve other requests, and waits only for those that have begun.
// When ctx ends, it cancels the answers in progress with the reason shutdown, and the runs at
// /runtime, and waits at most 10 s until they are stored; it returns an error if a request other
// than these is in progress.
func (h *Hub) Drain(ctx context.Context) error {
	h.draining.Store(true)
	begun := h.requests.Load()
	notice, cancel := context.WithTimeout(ctx, noticeWithin)
	defer cancel()
	if h.chat.Drain(notice) == nil && begun.wait(notice) == nil {
		return nil
	}

	h.chat.Reject()
	h.gateway.Reject()
	h.requests.Store(new(requests))
	answers := h.chat.Drain(ctx)
	err := errors.Join(answers, begun.wait(ctx))
	if err == nil {
		return nil
	}

	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), shutdownWithin)
	defer cancel()
	var ending sync.WaitGroup
	ending.Go(func() { h.chat.Shutdown(ctx) })
	h.gateway.Shutdown(ctx)
	ending.Wait()
	ctx, cancel = context.WithTimeout(ctx, lastEvents)
	defer cancel()
	if begun.wait(ctx) == nil {
		return nil
	}

	return err
}
