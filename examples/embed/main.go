// Command embed mounts a runtime with one agent in a server:
//
//	ANTHROPIC_API_KEY=... go run ./examples/embed
//	curl -N -d '{"message": "Hello!"}' http://127.0.0.1:8081/ai/v1/agents/writer/runs
//
// Without a key it hosts the demo model.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8081", "address to listen on")
	flag.Parse()
	if err := serve(*addr); err != nil {
		log.Fatal(err)
	}
}

func serve(addr string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	writer := agent.Agent{
		ID: "writer", Model: "demo", SystemPrompt: "You write plainly.",
		Provider: agent.Provider{Protocol: agent.ProtocolDemo},
	}
	if key := os.Getenv("ANTHROPIC_API_KEY"); key != "" {
		writer.Model = "claude-sonnet-4-5"
		writer.Provider = agent.Provider{Protocol: agent.ProtocolAnthropic, APIKey: agent.Secret(key)}
	}
	rt, err := runtime.New(ctx, runtime.Config{Agents: []agent.Agent{writer}, Logger: slog.Default()})
	if err != nil {
		return err
	}
	defer rt.Close()

	mux := http.NewServeMux()
	mux.Handle("/ai/", http.StripPrefix("/ai", rt))
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Printf("listening on http://%s/ai\n", listener.Addr())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	// Runs are drained while their clients are connected; then the server waits until the last
	// responses are written.
	patience, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := rt.Drain(patience); err != nil {
		slog.Error("drain", "err", err)
	}
	closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return server.Shutdown(closing)
}
