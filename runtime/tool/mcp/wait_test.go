package mcp_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/internal/permission"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/demo"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// The wait of a run and the attempt to connect have the same timeout. After it the server has
// failed, and the next run receives the error without waiting.
func TestOnlyTheFirstRunWaitsForASilentServer(t *testing.T) {
	const limit = 500 * time.Millisecond
	silent := newWorld(t).within(limit).open(agent.MCPServer{Transport: agentvalue.TransportStdio, Command: "sleep", Args: []string{"600"}})
	policy, err := permission.New(permission.Config{Mode: permission.ModeBypass})
	require.NoError(t, err)
	e, err := engine.New(engine.Config{
		Model: demo.New(0), Request: model.Request{Model: "m"}, Policy: policy,
		Servers: []tool.Server{silent}, ConnectTimeout: limit,
	})
	require.NoError(t, err)
	store := session.NewMemory(session.MemoryConfig{})
	var reported []string
	for range 2 {
		held, err := store.Open(t.Context(), "agent", "")
		require.NoError(t, err)
		input := engine.Input{RunID: "run", Message: "hello", Partials: true, Session: held}
		_, err = e.Run(t.Context(), input, engine.OutputFunc(func(p wire.Payload) {
			if p, ok := p.(*wire.System); ok {
				reported = append(reported, p.Error)
			}
		}))
		require.NoError(t, err)
		require.NoError(t, held.Close())
	}
	require.Len(t, reported, 2)
	require.Equal(t, "mcp server test: the server did not respond in time", reported[1], "not that of a wait of its own")
}
