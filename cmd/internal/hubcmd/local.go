package hubcmd

import (
	"context"
	"crypto/subtle"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/rbac"
)

// Local is a hub for one developer, whose agents are processes of this machine.
type Local struct {
	Addr    string // to listen on
	DataDir string // of the database, the files and the deployments
	Getenv  func(string) string
	Logger  *slog.Logger

	// Token is the bearer token of the first account of the hub, an admin. Until there is one, it
	// is that of User, an admin whom the hub does not have.
	Token, User string

	// Started is called before the first request. The setup link is empty if a user exists.
	Started func(url, setupLink string)
}

// ServeLocal serves a hub until ctx ends. Of the environment, it uses what its agents may have.
func ServeLocal(ctx context.Context, cfg Local) error {
	own := map[string]string{"HUB_ADDR": cfg.Addr, "HUB_DATA_DIR": cfg.DataDir, "HUB_PROBE_ALLOW_PRIVATE": "true", "HUB_DRAIN_TIMEOUT": "1s", "OTEL_SDK_DISABLED": "true"}
	passed := localEnv()
	var served atomic.Pointer[hub.Hub] // from before the first request
	authenticate := func(r *http.Request) (*hub.Caller, error) { return cfg.authenticate(r, served.Load()) }
	s := &Settings{authenticate: authenticate, Getenv: func(name string) string {
		if value, ok := own[name]; ok {
			return value
		}

		if passed[name] {
			return cfg.Getenv(name)
		}

		return ""
	}}
	s.read(nil)
	return s.serve(ctx, cfg.Logger, func(h *hub.Hub, addr net.Addr) {
		served.Store(h)
		cfg.Started("http://"+addr.String(), setupLink(h))
	}, func(int) {})
}

// authenticate admits requests with the token.
func (cfg Local) authenticate(r *http.Request, h *hub.Hub) (*hub.Caller, error) {
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+cfg.Token)) == 0 {
		return nil, nil // the hub authenticates the request
	}

	if first, err := h.FirstAdmin(r.Context()); first != nil || err != nil {
		return first, err
	}

	return &hub.Caller{UserID: cfg.User, UserName: cfg.User, RoleNow: rbac.Admin}, nil
}
