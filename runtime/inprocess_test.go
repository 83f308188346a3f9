package runtime_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/wire"
)

func TestRunInThisProcess(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("Good ", "day."))))
	b := serve(t, up, nil)
	for mode, want := range map[wire.StreamMode][]string{
		"":               {"system", "partial_message", "partial_message", "assistant", "result", "done"},
		wire.StreamBlock: {"system", "assistant", "result", "done"},
		wire.StreamOff:   {"system", "assistant", "result", "done"},
	} {
		var got []string
		for ev, err := range b.Run(t.Context(), "helper", wire.RunRequest{Message: "hello", Stream: mode}) {
			require.NoError(t, err)
			got = append(got, ev.EventName())
			if result, ok := ev.Payload.(*wire.Result); ok {
				require.Equal(t, "Good day.", *result.Result)
			}
		}
		require.Equal(t, want, got)
	}
}

func TestRunInThisProcessIsRejected(t *testing.T) {
	b := serve(t, nil, nil)
	for status, row := range map[int]struct{ agent, message string }{
		http.StatusBadRequest: {"helper", " "},
		http.StatusNotFound:   {"nobody", "hello"},
	} {
		n := 0
		for _, err := range b.Run(t.Context(), row.agent, wire.RunRequest{Message: row.message}) {
			var refused *runtime.Error
			require.ErrorAs(t, err, &refused)
			require.Equal(t, status, refused.Status)
			n++
		}
		require.Equal(t, 1, n)
	}
	require.NoError(t, b.Close())
	for _, err := range b.Run(t.Context(), "helper", wire.RunRequest{Message: "hello"}) {
		require.EqualError(t, err, "Draining")
	}
}

func TestLeavingTheLoopCancelsTheRun(t *testing.T) {
	for name, leave := range map[string]func(cancel func()) bool{
		"by break":       func(func()) bool { return true },
		"by the context": func(cancel func()) bool { cancel(); return false },
	} {
		t.Run(name, func(t *testing.T) {
			up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("One"), modeltest.Hang()))
			b := serve(t, up, nil)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for ev, err := range b.Run(ctx, "helper", wire.RunRequest{Message: "hello"}) {
				require.NoError(t, err)
				if _, ok := ev.Payload.(*wire.PartialMessage); ok && leave(cancel) {
					break
				}
			}
			_, early := up.Requests()[0].End()
			require.True(t, early)
			require.Contains(t, b.awaitEnd(t.Context(), t), `"reason":"disconnect"`)
		})
	}
}

// flawed is a store whose sessions cannot be closed.
type flawed struct{ session.Store }

type flawedSession struct{ session.Session }

func (flawedSession) Close() error { panic("nobody closes me") }

func (f flawed) Open(ctx context.Context, agentID, id string) (session.Session, error) {
	s, err := f.Store.Open(ctx, agentID, id)
	return flawedSession{s}, err
}

func TestPanicOfAStoreFailsOneRun(t *testing.T) {
	b := serve(t, nil, func(c *runtime.Config) {
		c.Sessions = flawed{session.NewMemory(session.MemoryConfig{})}
		c.Limits.MaxConcurrentRuns = 1
	})
	for range 2 { // the slot of the run is free again
		res := b.do(t, "POST", runs, `{"message":"hello"}`, "Accept", "application/json")
		require.Equal(t, http.StatusInternalServerError, res.status)
		require.Contains(t, res.body, "requestId")
		all := b.open(t.Context(), t, `{"message":"hello"}`).rest()
		require.Equal(t, []string{"error", "done"}, names(all[len(all)-2:]))
	}
	require.Contains(t, b.log.String(), "nobody closes me")
}

func TestDatasetsInTheSystemPrompt(t *testing.T) {
	for name, row := range map[string]struct{ prompt, want string }{
		"after a prompt": {"Be kind.", `"text":"Be kind.\n\n<datasets>\n- handbook: The staff handbook\n- prices: What things cost\n</datasets>"`},
		"alone":          {"", `"text":"<datasets>\n- handbook: The staff handbook\n- prices: What things cost\n</datasets>"`},
	} {
		t.Run(name, func(t *testing.T) {
			up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("Hi.")))
			b := serve(t, up, func(c *runtime.Config) {
				c.Agents[0].SystemPrompt = row.prompt
				c.Agents[0].Datasets = map[string]string{"prices": "What things cost", "handbook": "The staff handbook"}
			})
			b.blocking(t, `{"message":"hello"}`)
			require.Contains(t, string(up.Requests()[0].Body), row.want)
		})
	}
}

func TestInitReportsMissingServers(t *testing.T) {
	b := serve(t, nil, func(c *runtime.Config) {
		c.Agents[0].MCPServers = map[string]agent.MCPServer{
			"web":   {Transport: agentvalue.TransportHTTP, URL: "http://127.0.0.1:1"},
			"files": {Transport: agentvalue.TransportStdio, Command: "files"},
		}
	})
	events := b.open(t.Context(), t, `{"message":"hello"}`)
	init := events.next().data
	require.Equal(t, []any{
		map[string]any{"name": "files", "status": "failed"}, map[string]any{"name": "web", "status": "failed"},
	}, init["mcp_servers"])
	for range 2 {
		status := events.next().data
		require.Equal(t, "mcp_status", status["subtype"])
		require.Equal(t, "failed", status["status"])
		require.Equal(t, "the runtime is configured without OpenMCP", status["error"])
	}
	all := events.rest()
	require.Equal(t, "success", all[len(all)-2].data["subtype"], "the run goes on")
}
