package runtime_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/builtintool"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// offered returns the names of the tools in a request to the model.
func offered(t *testing.T, up *modeltest.Upstream, n int) []string {
	t.Helper()
	var body struct{ Tools []struct{ Name string } }
	require.NoError(t, json.Unmarshal(up.Requests()[n].Body, &body))
	names := []string{}
	for _, x := range body.Tools {
		names = append(names, x.Name)
	}
	return names
}

func TestTheToolsOfAnAgent(t *testing.T) {
	readOnly := []string{"Glob", "Grep", "Read", "TodoWrite"}
	all := []string{"Bash", "Edit", "Glob", "Grep", "Read", "TodoWrite", "WebFetch", "Write", "erase"}
	for name, row := range map[string]struct {
		mode             string
		allowed, refused []string
		want             []string
	}{
		"all of them":       {"", nil, nil, all},
		"none":              {"", []string{}, nil, []string{}},
		"by name":           {"", []string{"Read", "Bash(git *)", "erase"}, nil, []string{"Bash", "Read", "erase"}},
		"Edit adds Write":   {"", []string{"Edit(*.md)"}, nil, []string{"Edit", "Write"}},
		"only Write":        {"", []string{"Write"}, nil, []string{"Write"}},
		"without some":      {"", nil, []string{"Bash", "WebFetch", "Edit"}, []string{"Glob", "Grep", "Read", "TodoWrite", "erase"}},
		"plan":              {"plan", nil, nil, readOnly},
		"plan with more":    {"plan", []string{"Skill", "Task", "WebFetch"}, nil, []string{"Skill", "Task"}},
		"plan, some listed": {"plan", []string{"Read", "Write"}, nil, []string{"Read"}},
	} {
		t.Run(name, func(t *testing.T) {
			up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("Hi.")))
			b := serve(t, up, func(c *runtime.Config) {
				c.Agents[0].PermissionMode, c.Agents[0].AllowedTools, c.Agents[0].DisallowedTools = row.mode, row.allowed, row.refused
				c.Tools = []tool.Tool{tool.New(tool.Spec{Name: "erase"}, nil)}
				if name == "plan with more" { // which are read-only too
					writeFile(t, c.CWD, ".agents/skills/letters/SKILL.md", skillFile("letters", "How to write letters"))
					c.Agents[0].Subagents = map[string]agent.Subagent{"reviewer": {Description: "Reviews", Prompt: "You review."}}
				}
				c.Agents[0].MCPServers = map[string]agent.MCPServer{"gone": {Transport: "http", URL: "http://127.0.0.1:1"}}
			})
			s := b.open(t.Context(), t, hello)
			init := s.next().data
			s.until("done")
			require.Equal(t, row.want, offered(t, up, 0))
			list := []wire.AgentSummary{}
			require.NoError(t, json.Unmarshal([]byte(b.do(t, "GET", "/v1/agents", "").body), &list))
			require.Equal(t, len(row.want), list[0].ToolCount)
			require.Len(t, init["tools"], len(row.want))
		})
	}
}

// The snippet of the README: neither the model nor a client gets at the directory of the server.
func TestARuntimeWithoutAWorkingDirectory(t *testing.T) {
	server := t.TempDir()
	writeFile(t, server, ".env", "KEY=canary")
	t.Chdir(server)
	up := modeltest.Start(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.ToolCall("t1", "Read", `{"file_path":".env"}`), modeltest.ToolCall("t2", "Bash", `{"command":"cat .env > taken"}`),
			modeltest.ToolCall("t3", "Write", `{"file_path":"taken","content":"x"}`), modeltest.ToolCall("t4", "Grep", `{"pattern":"KEY"}`)),
		modeltest.Stream(modeltest.Text("Hi.")))
	b := serve(t, up, func(c *runtime.Config) {
		c.CWD = ""
		c.Agents[0].PermissionMode = "bypassPermissions"
		c.Approve = func(context.Context, runtime.ApprovalRequest) bool { return true }
	})
	s := b.open(t.Context(), t, hello)
	cwd := s.next().data["cwd"]
	s.until("done")
	require.Equal(t, []string{"TodoWrite", "WebFetch"}, offered(t, up, 0))
	require.NotContains(t, string(up.Requests()[1].Body), "canary")
	require.NoFileExists(t, filepath.Join(server, "taken"))
	require.NotEqual(t, server, cwd)
	require.JSONEq(t, `{"path":"","entries":[]}`, b.do(t, "GET", "/v1/files", "").body)
	require.Equal(t, 404, b.do(t, "GET", "/v1/files/content?path=.env", "").status)
	require.NoError(t, b.Close())
	require.NoDirExists(t, cwd.(string))
}

func TestToolsThatNeedAWorkingDirectory(t *testing.T) {
	for name, change := range map[string]func(*agent.Agent){
		"by name":      func(a *agent.Agent) { a.AllowedTools = []string{"TodoWrite", "Read"} },
		"by a pattern": func(a *agent.Agent) { a.AllowedTools = []string{"Read(docs/**)"} },
		"of a subagent": func(a *agent.Agent) {
			a.Subagents = map[string]agent.Subagent{"r": {Description: "d", Prompt: "p", Tools: []string{"Read"}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := serve(t, nil, func(c *runtime.Config) {
				c.CWD = ""
				change(&c.Agents[0])
			})
			require.EqualError(t, b.Unavailable()["helper"], "the tool Read needs Config.CWD, the working directory of the agents")
		})
	}
}

// TestBuiltinTools compares the list in package agent with the tools of a running agent.
func TestBuiltinTools(t *testing.T) {
	books := &shelf{name: "books", list: &tool.List{Resources: func(context.Context, tool.Call, string) (tool.Result, error) { return tool.Result{}, nil }}}
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("Hi.")))
	b := serve(t, up, func(c *runtime.Config) {
		writeFile(t, c.CWD, ".agents/skills/letters/SKILL.md", skillFile("letters", "How to write letters"))
		c.Agents[0].Subagents = map[string]agent.Subagent{"reviewer": {Description: "Reviews", Prompt: "You review."}}
		openShelves(c, books)
	})
	b.open(t.Context(), t, hello).until("done")
	var names []string
	for _, described := range builtintool.All() {
		names = append(names, described.Name)
		require.NotEmpty(t, described.Title)
		require.NotEmpty(t, described.Description)
		require.NotEmpty(t, described.DescriptionEN)
	}
	require.Equal(t, offered(t, up, 0), names)
}

func TestApproveIsCalledBeforeADenial(t *testing.T) {
	for name, row := range map[string]struct {
		mode                string
		refused             []string
		answer, asked, done bool
	}{
		"it lets the call run":   {"", nil, true, true, true},
		"it refuses":             {"", nil, false, true, false},
		"not for what is denied": {"", []string{"Write(secret/**)"}, true, false, false},
		"not in plan":            {"plan", nil, true, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			up := modeltest.Start(t, modeltest.Anthropic,
				modeltest.Stream(modeltest.ToolCall("t1", "Write", `{"file_path":"secret/a","content":"x"}`)),
				modeltest.Stream(modeltest.Text("Well.")))
			var asked []runtime.ApprovalRequest
			var cwd string
			b := serve(t, up, func(c *runtime.Config) {
				cwd = c.CWD
				c.Agents[0].PermissionMode, c.Agents[0].DisallowedTools = row.mode, row.refused
				c.Approve = func(_ context.Context, call runtime.ApprovalRequest) bool {
					asked = append(asked, call)
					return row.answer
				}
			})
			s := b.open(t.Context(), t, hello)
			all := s.rest()
			_, err := os.Stat(filepath.Join(cwd, "secret", "a"))
			require.Equal(t, row.done, err == nil)
			require.Equal(t, row.asked, len(asked) == 1)
			if row.asked {
				require.Equal(t, "helper Write t1", asked[0].AgentID+" "+asked[0].ToolName+" "+asked[0].ToolUseID)
				require.JSONEq(t, `{"file_path":"secret/a","content":"x"}`, string(asked[0].Input))
				require.Error(t, asked[0].Reason)
			}
			denials := all[len(all)-2].data["permission_denials"]
			if row.done {
				require.Empty(t, denials)
				return
			}
			require.Len(t, denials, 1)
			require.Contains(t, names(all), "system")
		})
	}
}

func TestObserveReceivesTheEventsOfTheClient(t *testing.T) {
	var mu sync.Mutex
	seen := map[string][]string{} // by session
	var infos []runtime.RunInfo
	b := serve(t, nil, func(c *runtime.Config) {
		c.Observe = func(info runtime.RunInfo, ev wire.Event) {
			mu.Lock()
			defer mu.Unlock()
			if p, ok := ev.Payload.(*wire.System); ok && p.Init != nil {
				infos = append(infos, info)
			}
			seen[info.RunID] = append(seen[info.RunID], ev.EventName())
		}
	})
	events := names(b.open(t.Context(), t, `{"message":"hello","metadata":{"a":"b"}}`).rest())
	b.blocking(t, hello)
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, infos, 2)
	require.Equal(t, events, seen[infos[0].RunID])
	require.Equal(t, map[string]string{"a": "b"}, infos[0].Metadata)
	require.Equal(t, "helper", infos[0].AgentID)
	last := seen[infos[1].RunID]
	require.Equal(t, []string{"system", "assistant", "result", "done"}, last, "a blocking run has no partial messages")
}

func TestChildrenGetTheEnvironmentOfTheConfiguration(t *testing.T) {
	t.Setenv("AGENT_TEST_SECRET", "sk-secret")
	up := modeltest.Start(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.ToolCall("t1", "Bash", `{"command":"env; pwd"}`)), modeltest.Stream(modeltest.Text("Well.")))
	var cwd string
	b := serve(t, up, func(c *runtime.Config) {
		var err error
		cwd, err = filepath.EvalSymlinks(c.CWD)
		require.NoError(t, err)
		c.ChildEnv = []string{"PATH=/usr/bin:/bin", "COLOUR=blue"}
		c.Agents[0].AllowedTools = []string{"Bash"}
	})
	output := b.open(t.Context(), t, hello).until("tool_result").data["result"].(map[string]any)["output"]
	require.Contains(t, output, "COLOUR=blue")
	require.Contains(t, output, cwd)
	require.NotContains(t, output, "sk-secret")
	require.NotContains(t, output, "upstream-key")
}

func TestSessionsOfTheConfiguration(t *testing.T) {
	store := session.NewMemory(session.MemoryConfig{})
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("Hi.")),
		modeltest.Stream(modeltest.Text("Again.")))
	b := serve(t, up, func(c *runtime.Config) { c.Sessions = store })
	_, first := b.blocking(t, hello)
	again, err := store.Open(t.Context(), "helper", first.SessionID)
	require.NoError(t, err)
	require.True(t, again.Resumed())
	require.Len(t, again.Messages(), 2)
	require.NoError(t, again.Close())
	other := b.open(t.Context(), t, `{"message":"more","sessionId":"`+first.SessionID+`"}`)
	init := other.next().data
	require.Equal(t, true, init["resumed"])
	require.Equal(t, first.SessionID, init["session_id"])
	other.until("done")
}
