package client_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a handler that listens, and counts the connections to it.
type server struct {
	*httptest.Server
	connections atomic.Int64
}

func listen(t *testing.T, h http.Handler) *server {
	t.Helper()
	s := &server{Server: httptest.NewUnstartedServer(h)}
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.connections.Add(1)
		}
	}
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// host returns a runtime with an agent "helper" at the upstream. change modifies its configuration.
func host(t *testing.T, up *modeltest.Upstream, change func(*runtime.Config)) *runtime.Runtime {
	t.Helper()
	helper := agent.Agent{ID: "helper", Name: "Helper", Model: "m", Provider: agent.Provider{Protocol: agent.ProtocolDemo}}
	if up != nil {
		helper.Provider = agent.Provider{Protocol: agent.ProtocolAnthropic, BaseURL: agent.Secret(up.URL), APIKey: "upstream-key"}
	}
	cfg := runtime.Config{Agents: []agent.Agent{helper}, CWD: t.TempDir(), Version: "v1.2.3"}
	if change != nil {
		change(&cfg)
	}
	rt, err := runtime.New(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	return rt
}

// talker is an upstream that repeats one response.
func talker(t *testing.T) *modeltest.Upstream {
	t.Helper()
	return modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("Hi."))))
}

func connect(t *testing.T, base string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{BaseURL: base})
	require.NoError(t, err)
	return c
}

// at returns a client of a runtime with an agent at the upstream.
func at(t *testing.T, up *modeltest.Upstream) *client.Client {
	t.Helper()
	return connect(t, listen(t, host(t, up, nil)).URL)
}

// raw returns a client of a server that is not a runtime.
func raw(t *testing.T, h http.HandlerFunc) *client.Client {
	t.Helper()
	return connect(t, listen(t, h).URL)
}

var hello = wire.RunRequest{Message: "hello"}

// all ranges over a run to its end.
func all(t *testing.T, c *client.Client, req wire.RunRequest) (payloads []wire.Payload, err error) {
	t.Helper()
	for ev, err := range c.Run(t.Context(), "helper", req) {
		if err != nil {
			require.Nil(t, ev.Payload)
			return payloads, err
		}
		payloads = append(payloads, ev.Payload)
	}
	return payloads, nil
}

func names(payloads []wire.Payload) []string {
	list := make([]string, len(payloads))
	for i, p := range payloads {
		list[i] = p.EventName()
	}
	return list
}

// find returns the only payload of that type.
func find[P wire.Payload](t *testing.T, payloads []wire.Payload) P {
	t.Helper()
	var found []P
	for _, p := range payloads {
		if p, ok := p.(P); ok {
			found = append(found, p)
		}
	}
	require.Len(t, found, 1, "%v", names(payloads))
	return found[0]
}
