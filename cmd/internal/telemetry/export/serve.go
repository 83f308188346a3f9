package export

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/seed93082962/agenthost/cmd/internal/telemetry"
	"github.com/seed93082962/agenthost/internal/httpapi"
)

// Start implements telemetry.Start.
func Start(ctx context.Context, cfg telemetry.Config) (telemetry.Telemetry, error) {
	t, err := New(ctx, cfg)
	if err != nil {
		return nil, err // and not a nil pointer in an interface
	}

	if cfg.Addr == "" {
		return t, nil
	}

	listening, err := t.Serve(ctx, cfg.Addr, cfg.Hosts)
	if err != nil {
		t.Shutdown(ctx)
		return nil, err
	}

	cfg.Logger.Info("serving metrics", "addr", listening.String())
	return t, nil
}

// Serve serves the metrics on a separate address until ctx ends, and returns the address. It
// requires no key, and therefore one of the host names, localhost or an address.
func (t *Telemetry) Serve(ctx context.Context, addr string, hosts []string) (net.Addr, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}

	metrics := t.Handler()
	guarded := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !httpapi.AllowsHost(r, hosts) {
			http.Error(w, "host name not allowed: add it to --allowed-hosts", http.StatusForbidden)
			return
		}

		metrics.ServeHTTP(w, r)
	})
	server := &http.Server{
		Handler: guarded, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(t.log.Handler(), slog.LevelWarn),
	}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			t.log.Error("serve metrics", "err", err)
		}
	}()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return listener.Addr(), nil
}
