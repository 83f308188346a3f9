package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// shutdownTimeout is how long open connections get after the last run has ended.
const shutdownTimeout = 5 * time.Second

// check tells how every agent stands. An unavailable one is no error: it would not keep the
// others from being served.
func (s *settings) check(ctx context.Context, file *agent.File, stdout io.Writer) error {
	rt, err := s.newHost(ctx, file, nil, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer func() { _ = rt.Close() }() // there are no runs to wait for
	if len(file.Agents) == 0 {
		fmt.Fprintln(stdout, "no agents are configured")
	}
	unavailable := rt.Unavailable()
	for i := range file.Agents {
		id, status := file.Agents[i].ID, "ready"
		if err := unavailable[id]; err != nil {
			status = "unavailable: " + strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		fmt.Fprintf(stdout, "%s: %s\n", id, status)
	}
	return nil
}

// serve answers requests until ctx ends, and drains then.
func (s *settings) serve(ctx context.Context, file *agent.File, log *slog.Logger, stdout io.Writer) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.Addr)
	if err != nil {
		return err // which says "listen tcp" and the address
	}
	defer func() { _ = listener.Close() }() // the server has, if it was ever started
	sessions, err := s.openSessions(file, log)
	if err != nil {
		return err
	}
	background := context.WithoutCancel(ctx)
	serving, stop := context.WithCancel(background)
	defer stop()
	var counts *metrics
	if s.MetricsAddr != "" {
		counts = newMetrics()
		addr, err := counts.serve(serving, s.MetricsAddr, log)
		if err != nil {
			_ = sessions.Close() // nothing was said in them
			return err
		}
		log.Info("serving metrics", "addr", addr.String())
	}
	rt, err := s.newHost(ctx, file, sessions, counts, log)
	if err != nil {
		return err
	}
	defer func() {
		if err := rt.Close(); err != nil {
			log.Error("close", "err", err)
		}
	}()
	addr := listener.Addr()
	if exposed(addr, file.Auth.APIKeys) {
		log.Warn("anybody who reaches this address can run agents: set AGENT_HTTP_API_KEY", "addr", addr.String())
	}
	server := &http.Server{
		Handler:           rt,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	s.welcome(stdout, addr, file, rt.Unavailable())

	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	log.Info("draining", "timeout", s.DrainTimeout.String())
	// The port answers while runs come to their end: new ones with 503, cancels as ever.
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

// exposed tells whether others than this machine reach the address, and nothing holds them back.
func exposed(addr net.Addr, keys []agent.Secret) bool {
	tcp, ok := addr.(*net.TCPAddr)
	loopback := ok && tcp.IP.IsLoopback()
	return !loopback && len(keys) == 0
}

// welcome says where the runtime is, and how to try it.
func (s *settings) welcome(w io.Writer, addr net.Addr, file *agent.File, unavailable map[string]error) {
	host := addr.String()
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		// All addresses are no address to call. The guard of a runtime without keys knows this one.
		host = net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
	}
	fmt.Fprintf(w, "agenthost runtime %s, listening on http://%s\n", version(), host)
	ready := slices.IndexFunc(file.Agents, func(a agent.Agent) bool { return unavailable[a.ID] == nil })
	if ready < 0 {
		return
	}
	key := ""
	switch n := len(file.Auth.APIKeys); {
	case n == 1 && s.APIKeys != "":
		key = ` -H "x-api-key: $AGENT_HTTP_API_KEY"`
	case n > 0:
		key = ` -H "x-api-key: YOUR_KEY"`
	}
	fmt.Fprintf(w, "Try it:\n\n  curl -N%s -d '{\"message\": \"Hello!\"}' http://%s/v1/agents/%s/runs\n\n", key, host, file.Agents[ready].ID)
}
