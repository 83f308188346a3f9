package main_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// serveNATS starts a NATS server that requires a password.
func serveNATS(t testing.TB) (url string) {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		Username: "user", Password: "planted",
	})
	require.NoError(t, err)
	s.Start()
	require.True(t, s.ReadyForConnections(patience))
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	return "nats://user:planted@" + s.Addr().String() + "/helper"
}

// Two processes with one bus, one of which has its URL in the configuration file and the other one
// in a file of a secret.
func TestCancelAtAnotherProcess(t *testing.T) {
	url := serveNATS(t)
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("One"), modeltest.Hang())))
	agents := "\nagents: [{id: helper, model: m, provider: {protocol: anthropic, baseUrl: " + up.URL + ", apiKey: k}}]"
	secret := filepath.Join(t.TempDir(), "url")
	require.NoError(t, os.WriteFile(secret, []byte(url+"\n"), 0o600))
	one := spawn(t, write(t, `bus: "${BUS}"`+agents), []string{"BUS", url, "AGENT_STATE_DIR", t.TempDir()}, "--addr", "127.0.0.1:0")
	two := spawn(t, write(t, agents), []string{"AGENT_BUS_URL_FILE", secret, "AGENT_STATE_DIR", t.TempDir()}, "--addr", "127.0.0.1:0")
	for _, p := range []*process{one, two} {
		p.Started(t)
		require.Contains(t, p.Log.String(), "connected to the bus")
	}
	var id string
	for event, err := range clientOf(t, one.URL, "").Run(t.Context(), "helper", wire.RunRequest{Message: "hello"}) {
		require.NoError(t, err)
		switch payload := event.Payload.(type) {
		case *wire.System:
			id = payload.RunID
		case *wire.PartialMessage:
			response, err := clientOf(t, two.URL, "").Cancel(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, wire.CancelResponse{RunID: id, State: wire.StateCancelling}, response)
		case *wire.Cancelled:
			require.Equal(t, wire.ReasonClientRequest, payload.Reason)
		}
	}
	response, err := clientOf(t, two.URL, "").Cancel(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, wire.CancelResponse{RunID: id, State: wire.StateCancelled, Reason: wire.ReasonClientRequest}, response)
	_, err = clientOf(t, two.URL, "").Complete(t.Context(), "helper", wire.RunRequest{Message: "hello", RunID: &id})
	require.ErrorIs(t, err, client.ErrRunIDConflict)
	for _, p := range []*process{one, two} {
		require.NotContains(t, p.Log.String()+p.Stdout.String(), "planted")
	}
}

func TestBusFaults(t *testing.T) {
	t.Chdir(write(t, demo))
	for _, url := range []string{"planted", "http://planted@host", "nats://planted@host/a.b", "nats://planted@host?x=y"} {
		_, _, err := once(t, []string{"AGENT_BUS_URL", url}, "--check")
		require.ErrorContains(t, err, "AGENT_BUS_URL")
		require.NotContains(t, err.Error(), "planted")
	}
	_, _, err := once(t, []string{"AGENT_BUS_URL", "nats://user:planted@127.0.0.1:1"}, "--addr", "127.0.0.1:0")
	require.ErrorContains(t, err, "open the bus of AGENT_BUS_URL: connect to NATS")
	require.NotContains(t, err.Error(), "planted")
}

// BenchmarkCancelAtAnotherProcess measures a cancel at one process until upstream detects that
// another one has closed the connection of its run, and until the client of that run has the event
// cancelled. Upstream, the NATS server and the clients are in this process.
func BenchmarkCancelAtAnotherProcess(b *testing.B) {
	bus := serveNATS(b)
	up := modeltest.Start(b, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("One"), modeltest.Hang())))
	dir := write(b, "agents: [{id: helper, model: m, provider: {protocol: anthropic, baseUrl: "+up.URL+", apiKey: k}}]")
	start := func() *client.Client {
		p := spawn(b, dir, []string{"AGENT_BUS_URL", bus, "AGENT_STATE_DIR", b.TempDir()}, "--addr", "127.0.0.1:0")
		p.Started(b)
		return clientOf(b, p.URL, "")
	}
	one, two := start(), start()
	var stopped, told sample
	since := func(begin, end time.Time) float64 { return float64(end.Sub(begin).Microseconds()) / 1000 }
	for b.Loop() {
		id, begin := "", time.Time{}
		for event, err := range one.Run(b.Context(), "helper", wire.RunRequest{Message: "hello"}) {
			require.NoError(b, err)
			switch payload := event.Payload.(type) {
			case *wire.System:
				id = payload.RunID
			case *wire.PartialMessage:
				begin = time.Now()
				go func() { _, _ = two.Cancel(b.Context(), id) }()
			case *wire.Cancelled:
				told = append(told, since(begin, time.Now()))
			}
		}
		requests := up.Requests()
		end, _ := requests[len(requests)-1].End()
		stopped = append(stopped, since(begin, end))
	}
	b.ReportMetric(stopped.median(), "ms-p50")
	b.ReportMetric(stopped.quantile(0.99), "ms-p99")
	b.ReportMetric(told.median(), "ms-event-p50")
}
