package hub

import (
	"context"
	_ "embed"
	"errors"
	"net/http"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/internal/apidocs"
)

// readyTimeout bounds the checks of a readiness probe.
const readyTimeout = 2 * time.Second

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
		h.cfg.Logger.Warn("not ready", "err", err)
		return api.Encode(w, http.StatusServiceUnavailable, readiness{"unavailable"})
	}
	return api.Encode(w, http.StatusOK, readiness{"ready"})
}

// Ready returns an error if the database cannot be reached, takes no writes or lacks a migration of
// this version, or if a signing key in it cannot be opened with the encryption keys.
func (h *Hub) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := h.db.Ping(ctx); err != nil {
		return err
	}
	// A newer replica may have migrated the database: this one serves until it is replaced too.
	if err := h.db.Migrated(ctx, h.migrations()...); err != nil && !errors.Is(err, db.ErrNewer) {
		return err
	}
	return h.identity.Ready(ctx)
}
