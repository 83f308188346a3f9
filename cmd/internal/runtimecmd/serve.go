package runtimecmd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/cmd/internal/telemetry"
	"github.com/seed93082962/agenthost/internal/httpserve"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/run"
)

// serve serves requests until ctx ends, and then drains.
func (s *settings) serve(ctx context.Context, file *agent.File, log *slog.Logger, stdout io.Writer) error {
	listener, err := daemon.Listen(ctx, s.Addr)
	if err != nil {
		return err // it contains "listen tcp" and the address
	}

	defer func() { _ = listener.Close() }() // the server closes it if it was started
	sessions, err := s.openSessions(file, log)
	if err != nil {
		return err
	}

	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var following sync.WaitGroup
	defer following.Wait()
	defer stop()
	observed, err := s.drivers.Start(serving, telemetry.Config{
		Service: service, Version: daemon.Version(), Settings: s.Settings, Addr: s.MetricsAddr, Hosts: s.Hosts, Logger: log,
	})
	if err != nil {
		_ = sessions.Close() // it contains no sessions
		return err
	}
	defer observed.Shutdown(context.WithoutCancel(ctx)) // after the last run
	connected, err := s.openBus(ctx, log)
	if err != nil {
		_ = sessions.Close() // it contains no sessions
		return err
	}

	var bus run.Bus
	if connected != nil {
		defer connected.Close()
		bus = connected
	}

	rt, err := s.newHost(ctx, file, served{sessions, observed, bus}, nil, log)
	if err != nil {
		return err
	}

	defer func() {
		if err := rt.Close(); err != nil {
			log.Error("close", "err", err)
		}
	}()
	if s.KeyFile != "" {
		following.Go(func() { rt.FollowKeys(serving, s.KeyFile, s.APIKeys, log) })
	}

	addr := listener.Addr()
	if exposed(addr, file.Auth.APIKeys) {
		log.Warn("every client that can connect to this address can run agents: set AGENT_HTTP_API_KEY", "addr", addr.String())
	}

	server := &httpserve.Server{
		Handler: rt, Listener: listener, Log: log,
		Drain: rt.Drain, DrainTimeout: s.DrainTimeout, // while runs end, the port rejects new runs with 503 and accepts cancels
		Welcome: func() { s.welcome(stdout, addr, file, rt.Unavailable()) },
	}
	return server.Serve(ctx)
}

// service is the name of a runtime in traces.
const service = "agenthost-runtime"

// exposed reports whether other machines can reach the address and no key is required.
func exposed(addr net.Addr, keys []agent.Secret) bool {
	tcp, ok := addr.(*net.TCPAddr)
	loopback := ok && tcp.IP.IsLoopback()
	return !loopback && len(keys) == 0
}

// welcome prints the address of the runtime and a command to try it.
func (s *settings) welcome(w io.Writer, addr net.Addr, file *agent.File, unavailable map[string]error) {
	host := addr.String()
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		// A client cannot connect to the unspecified address. Without keys, localhost is an allowed
		// host.
		host = net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
	}

	fmt.Fprintf(w, "agenthost runtime %s, listening on http://%s\n", daemon.Version(), host)
	ready := slices.IndexFunc(file.Agents, func(a agent.Agent) bool { return unavailable[a.ID] == nil })
	if ready < 0 {
		return
	}

	key := ""
	switch n := len(file.Auth.APIKeys); {
	case n == 1 && s.APIKeys != "" && s.KeyFile == "":
		key = ` -H "x-api-key: $AGENT_HTTP_API_KEY"`
	case n > 0:
		key = ` -H "x-api-key: YOUR_KEY"`
	}

	fmt.Fprintf(w, "Try it:\n\n  curl -N%s -d '{\"message\": \"Hello!\"}' http://%s/v1/agents/%s/runs\n\n", key, host, file.Agents[ready].ID)
}
