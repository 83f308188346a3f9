// Package daemon is what the server commands have in common: how they log, which version they are, and how they serve,
// drain and stop.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// shutdownTimeout is how long open connections get after the work has ended.
const shutdownTimeout = 5 * time.Second

// Server is one HTTP server and how it comes to its end.
type Server struct {
	Handler  http.Handler
	Listener net.Listener
	Log      *slog.Logger

	// Drain is called when the server is to stop. The port answers until it returns; its context ends after DrainTimeout.
	Drain        func(context.Context) error
	DrainTimeout time.Duration

	// Welcome, if set, is called when the port answers.
	Welcome func()
}

// Serve answers requests until ctx ends, drains then, and closes what is left.
func (s *Server) Serve(ctx context.Context) error {
	server := &http.Server{
		Handler:           s.Handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn),

		DisableGeneralOptionsHandler: true, // OPTIONS * is answered as everything else is
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(s.Listener) }()
	if s.Welcome != nil {
		s.Welcome()
	}

	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	s.Log.Info("draining", "timeout", s.DrainTimeout.String())
	background := context.WithoutCancel(ctx)
	patience, cancel := context.WithTimeout(background, s.DrainTimeout)
	defer cancel()
	if err := s.Drain(patience); err != nil {
		s.Log.Error("drain", "err", err)
	}
	closing, cancel := context.WithTimeout(background, shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(closing); err != nil {
		s.Log.Warn("connections were cut", "err", err)
		_ = server.Close()
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	s.Log.Info("stopped")
	return nil
}
