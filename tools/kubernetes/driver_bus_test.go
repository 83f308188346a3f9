package kubernetes_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
	core "k8s.io/api/core/v1"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/kubernetes"
	runtime "github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// startNATS starts a NATS server with a password, which pods reach.
func startNATS(t *testing.T) *kubernetes.Bus {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: machine, Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true, Username: "user", Password: "planted",
	})
	require.NoError(t, err)
	s.Start()
	require.True(t, s.ReadyForConnections(patience))
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	u := url.URL{Scheme: "nats", User: url.UserPassword("user", "planted"), Host: s.Addr().String(), Path: "/agents"}
	return &kubernetes.Bus{URL: u.String(), Servers: []string{u.Host}}
}

// A cancel at one pod of a deployment reaches the run of another one.
func TestCancelAtAnotherPod(t *testing.T) {
	p := newPlace(t)
	d, ctx := p.open(t, func(c *kubernetes.Config) { c.Default.Replicas, c.Bus = 2, startNATS(t) }), t.Context()
	reach(t, d, 1, deploy.Running, "", func() error { return d.Apply(ctx, ref, 1, request()) })
	var clients []*runtime.Client
	require.Eventually(t, func() bool {
		clients = nil
		for _, pod := range p.pods(key, "1") {
			for _, c := range pod.Status.Conditions {
				if c.Type == core.PodReady && c.Status == core.ConditionTrue {
					one, err := runtime.New(runtime.Config{BaseURL: "http://" + pod.Status.PodIP + ":8080", APIKey: apiKey})
					require.NoError(t, err)
					clients = append(clients, one)
				}
			}
		}
		return len(clients) == 2
	}, patience, 50*time.Millisecond)
	id, cancelled := "", false
	for event, err := range clients[0].Run(ctx, "helper", wire.RunRequest{Message: strings.Repeat("word ", 2000)}) {
		require.NoError(t, err)
		switch payload := event.Payload.(type) {
		case *wire.System:
			id = payload.RunID
		case *wire.PartialMessage:
			if cancelled {
				continue
			}
			cancelled = true
			response, err := clients[1].Cancel(ctx, id)
			require.NoError(t, err)
			require.Equal(t, wire.CancelResponse{RunID: id, State: wire.StateCancelling}, response)
		case *wire.Cancelled:
			require.Equal(t, wire.ReasonClientRequest, payload.Reason)
			cancelled = false
		case *wire.Result:
			require.FailNow(t, "the run was not cancelled")
		}
	}
	require.NotEmpty(t, id)
	require.False(t, cancelled, "the run was cancelled")
	p.end(t, d)
}
