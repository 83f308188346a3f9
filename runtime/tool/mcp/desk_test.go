package mcp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// desk is a runtime with MCP servers, a scripted model and a directory of sessions.
type desk struct {
	*client.Client

	up       *modeltest.Upstream
	world    *world
	sessions string
	servers  map[string]agent.MCPServer
	change   func(*agent.Agent)
	close    func()
}

// openDesk starts a runtime whose model makes calls, in pairs of a name of a tool and an input.
func openDesk(t *testing.T, servers map[string]agent.MCPServer, replies ...modeltest.Reply) *desk {
	t.Helper()
	d := &desk{
		up: modeltest.Start(t, modeltest.Anthropic, replies...), world: newWorld(t), sessions: t.TempDir(),
		servers: servers, change: func(*agent.Agent) {},
	}
	d.start(t)
	return d
}

// start starts the runtime, in place of one that runs.
func (d *desk) start(t *testing.T) {
	t.Helper()
	if d.close != nil {
		d.close()
	}
	files, err := session.NewFiles(session.FilesConfig{Dir: d.sessions, CWD: d.world.dir})
	require.NoError(t, err)
	helper := agent.Agent{
		ID: "helper", Model: "m", PermissionMode: "bypassPermissions", MCPServers: d.servers,
		Provider: agent.Provider{Protocol: agent.ProtocolAnthropic, BaseURL: agent.Secret(d.up.URL), APIKey: "key"},
	}
	d.change(&helper)
	rt, err := runtime.New(t.Context(), runtime.Config{
		Agents: []agent.Agent{helper}, CWD: d.world.dir, OpenMCP: d.world.Open, Sessions: files,
	})
	require.NoError(t, err)
	server := httptest.NewServer(rt)
	closed := false
	d.close = func() {
		if !closed {
			closed = true
			require.NoError(t, rt.Close())
			server.CloseClientConnections()
			server.Close()
			require.NoError(t, files.Close())
			http.DefaultClient.CloseIdleConnections()
		}
	}
	t.Cleanup(d.close)
	d.Client, err = client.New(client.Config{BaseURL: server.URL})
	require.NoError(t, err)
}

func calls(tools ...string) modeltest.Reply {
	var parts []modeltest.Step
	for i := 0; i < len(tools); i += 2 {
		parts = append(parts, modeltest.ToolCall(fmt.Sprintf("t%d", i/2+1), tools[i], tools[i+1]))
	}
	return modeltest.Stream(parts...)
}

func done() modeltest.Reply { return modeltest.Stream(modeltest.Text("Done.")) }

var questions = []string{"question"}

// ask starts a run, which waits for an answer.
func (d *desk) ask(t *testing.T) wire.RunResponse {
	t.Helper()
	res, err := d.Complete(t.Context(), "helper", wire.RunRequest{Message: "go", Inputs: questions})
	require.NoError(t, err)
	require.Equal(t, "input_required", res.StopReason, res.Error)
	require.Len(t, res.Pending, 1)
	return res
}

// answer continues a session with an answer of what waits.
func (d *desk) answer(t *testing.T, waiting wire.RunResponse, a wire.Answer) wire.RunResponse {
	t.Helper()
	res, err := d.try(t, waiting, a)
	require.NoError(t, err)
	require.Empty(t, res.Error)
	return res
}

func (d *desk) try(t *testing.T, waiting wire.RunResponse, a wire.Answer) (wire.RunResponse, error) {
	t.Helper()
	a.ID = waiting.Pending[0].ID
	return d.Complete(t.Context(), "helper", wire.RunRequest{SessionID: &waiting.SessionID, Inputs: questions, Answers: []wire.Answer{a}})
}

func accept(content string) wire.Answer {
	return wire.Answer{Action: "accept", Content: json.RawMessage(content)}
}

// results returns the results of the calls in the last request to the model, by the id of the call.
func (d *desk) results(t *testing.T) map[string]string {
	t.Helper()
	requests := d.up.Requests()
	var body struct {
		Messages []struct {
			Content []struct {
				Type      string
				ToolUseID string `json:"tool_use_id"`
				Content   json.RawMessage
			}
		}
	}
	require.NoError(t, json.Unmarshal(requests[len(requests)-1].Body, &body))
	all := map[string]string{}
	for _, m := range body.Messages {
		for _, b := range m.Content {
			if b.Type == "tool_result" {
				require.NotContains(t, all, b.ToolUseID, "a call has one result")
				var text string
				require.NoError(t, json.Unmarshal(b.Content, &text))
				all[b.ToolUseID] = text
			}
		}
	}
	return all
}
