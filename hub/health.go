package hub

import (
	"context"
	_ "embed"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/internal/apidocs"
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
		{Method: http.MethodGet, Path: "/docs", Access: api.Open, Handle: docs.ServePage},
	}
}

type health struct {
	Status   string `json:"status"`
	Version  string `json:"version"`
	UptimeMS int64  `json:"uptimeMs"`
}

// health reports that the process is alive, whatever the state of the database.
func (h *Hub) health(w http.ResponseWriter, _ *http.Request) error {
	return api.Encode(w, http.StatusOK, health{"ok", h.cfg.Version, h.cfg.Now().Sub(h.begin).Milliseconds()})
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
	if err := h.db.Migrated(ctx, h.migrations()...); err != nil && !errors.Is(err, db.ErrNewer) {
		return err
	}
	return h.sessions.Ready(ctx)
}
