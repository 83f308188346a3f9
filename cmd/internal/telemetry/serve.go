package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/seed93082962/agenthost/internal/httpapi"
)

// Start is New, and serves the metrics on an address, if it is not empty, until ctx ends. The
// caller shuts down what it returns.
func Start(ctx context.Context, cfg Config, addr string, hosts []string) (*Telemetry, error) {
	cfg.Metrics = addr != ""
	t, err := New(ctx, cfg)
	if err != nil || addr == "" {
		return t, err
	}

	listening, err := t.Serve(ctx, addr, hosts)
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
