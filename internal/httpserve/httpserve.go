// Package httpserve serves HTTP until a program is requested to end, and drains.
package httpserve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// shutdownTimeout bounds the time for open connections after draining.
const shutdownTimeout = 5 * time.Second

// Server is an HTTP server and its shutdown.
type Server struct {
	Handler  http.Handler
	Listener net.Listener
	Log      *slog.Logger

	// Drain is called before the server stops. The port accepts requests until it returns. Its
	// context ends after DrainTimeout, and with the second signal of [Signals].
	Drain        func(context.Context) error
	DrainTimeout time.Duration

	// Welcome, if set, is called when the port accepts requests.
	Welcome func()
}

// hurry is the key of the context that ends with the second signal.
type hurry struct{}

// Signals returns a context that ends with the first signal, and one that ends with the second
// signal, with which [Server.Serve] cancels what it waits for.
func Signals(parent context.Context, signals <-chan os.Signal) (context.Context, context.Context) {
	second, endSecond := context.WithCancel(parent)
	first, endFirst := context.WithCancel(context.WithValue(parent, hurry{}, second))
	go func() {
		for _, end := range []func(){endFirst, endSecond} {
			select {
			case <-signals:
			case <-parent.Done():
			}

			end()
		}
	}()
	return first, second
}

// Serve serves until ctx ends, drains, and closes the remaining connections.
func (s *Server) Serve(ctx context.Context) error {
	server := &http.Server{
		Handler:           s.Handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn),

		DisableGeneralOptionsHandler: true, // OPTIONS * has no special handling
	}
	var open atomic.Int64 // connections
	server.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
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
	if second, ok := ctx.Value(hurry{}).(context.Context); ok {
		defer context.AfterFunc(second, cancel)()
	}

	if err := s.Drain(patience); err != nil {
		s.Log.Error("drain", "err", err)
	}

	closing, cancel := context.WithTimeout(background, shutdownTimeout)
	defer cancel()
	waiting := refuse(s.Listener)
	server.SetKeepAlivesEnabled(false)
	awaitNone(closing, func() bool { return waiting() == 0 && open.Load() == 0 })
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

// none is the number of connections that wait for a server of which it is unknown.
func none() uint32 { return 0 }

// awaitNone waits until there has been no connection for a moment, in which the server notices one
// that it has accepted, or ctx ends. [http.Server.Shutdown] drops requests that it receives.
func awaitNone(ctx context.Context, ended func() bool) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for quiet := 0; quiet < 5; quiet++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}

		if !ended() {
			quiet = 0
		}
	}
}
