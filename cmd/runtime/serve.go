package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// shutdownTimeout is how long open connections get after the last run has ended.
const shutdownTimeout = 5 * time.Second

func newRuntime(ctx context.Context, s *settings, file *agent.File, log *slog.Logger) (*runtime.Runtime, error) {
	keys := make([]string, len(file.Auth.APIKeys))
	for i, key := range file.Auth.APIKeys {
		keys[i] = string(key)
	}
	return runtime.New(ctx, runtime.Config{
		Agents:     file.Agents,
		APIKeys:    keys,
		CWD:        file.CWD,
		Limits:     file.Limits,
		HTTPClient: &http.Client{Transport: transport()},
		Version:    version(),
		Logger:     log,
	})
}

// transport reaches models through the proxy that the environment names, if it names one.
func transport() *http.Transport {
	t := runtime.NewTransport()
	t.Proxy = http.ProxyFromEnvironment
	return t
}

// check tells how every agent stands.
func check(ctx context.Context, s *settings, file *agent.File, log *slog.Logger, stdout io.Writer) error {
	rt, err := newRuntime(ctx, s, file, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer rt.Close()
	unavailable := rt.Unavailable()
	for i := range file.Agents {
		id, status := file.Agents[i].ID, "ready"
		if err := unavailable[id]; err != nil {
			status = "unavailable: " + err.Error()
		}
		fmt.Fprintf(stdout, "%s: %s\n", id, status)
	}
	return nil
}

// serve answers requests until ctx ends, and drains then.
func serve(ctx context.Context, s *settings, file *agent.File, log *slog.Logger, stdout io.Writer) error {
	rt, err := newRuntime(ctx, s, file, log)
	if err != nil {
		return err
	}
	defer rt.Close()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.Addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	open := len(file.Auth.APIKeys) == 0
	if addr, ok := listener.Addr().(*net.TCPAddr); ok && open && !addr.IP.IsLoopback() {
		log.Warn("anybody who reaches this address can run agents: set AGENT_HTTP_API_KEY", "addr", addr.String())
	}
	server := &http.Server{
		Handler:           rt,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	welcome(stdout, listener.Addr(), file)

	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	log.Info("draining", "timeout", s.DrainTimeout.String())
	// The port answers while runs come to their end: new ones with 503, cancels as ever.
	background := context.WithoutCancel(ctx)
	patience, cancel := context.WithTimeout(background, s.DrainTimeout)
	defer cancel()
	if err := rt.Drain(patience); err != nil {
		log.Error("drain", "err", err)
	}
	closing, cancel := context.WithTimeout(background, shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(closing); err != nil {
		log.Warn("connections were cut", "err", err)
		_ = server.Close()
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	log.Info("stopped")
	return nil
}

// welcome says where the runtime is, and how to try it.
func welcome(w io.Writer, addr net.Addr, file *agent.File) {
	url := "http://" + addr.String()
	fmt.Fprintf(w, "agenthost runtime %s, listening on %s\n", version(), url)
	if len(file.Agents) == 0 {
		return
	}
	key := ""
	if len(file.Auth.APIKeys) > 0 {
		key = ` -H "x-api-key: $AGENT_HTTP_API_KEY"`
	}
	fmt.Fprintf(w, "Try it:\n\n  curl -N%s -d '{\"message\": \"Hello!\"}' %s/v1/agents/%s/runs\n\n", key, url, file.Agents[0].ID)
}
