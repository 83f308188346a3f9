package runtime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// transcriptOf reads a whole transcript in pages of two entries.
func transcriptOf(t *testing.T, b *bench, id string) (all []wire.TranscriptEntry) {
	t.Helper()
	c, err := client.New(client.Config{BaseURL: b.url})
	require.NoError(t, err)
	for after, more := int64(0), true; more; {
		page, err := c.Transcript(t.Context(), id, after, 2)
		require.NoError(t, err)
		require.Equal(t, id, page.SessionID)
		require.Equal(t, "helper", page.AgentID)
		require.LessOrEqual(t, len(page.Entries), 2)
		all = append(all, page.Entries...)
		after, more = page.Next, page.Next != 0
		if !more {
			require.EqualValues(t, len(all), page.Total)
		}
	}
	for i, e := range all {
		require.EqualValues(t, i+1, e.Seq)
		require.NotEmpty(t, e.RunID)
		require.False(t, e.Time.IsZero())
	}
	return all
}

// summary returns one line for each entry.
func summary(t *testing.T, entries []wire.TranscriptEntry) (lines []string) {
	t.Helper()
	for _, e := range entries {
		switch e.Type {
		case runvalue.EntryMessage:
			line := e.Role
			for _, b := range e.Content {
				line += " " + strings.Join(strings.Fields(b.Type+" "+b.Text+" "+b.Name+" "+string(b.Input)+" "+b.Output), " ")
			}
			lines = append(lines, line)
		case runvalue.EntryEvent:
			var event struct {
				Type, Subtype string
				Source, Rule  string
			}
			require.NoError(t, json.Unmarshal(e.Event, &event))
			lines = append(lines, strings.Join(strings.Fields(event.Type+" "+event.Subtype+" "+event.Source+" "+event.Rule), " "))
		default:
			lines = append(lines, e.Type+" "+e.Summary)
		}
	}
	return lines
}

// A transcript has every turn, call, input, result and denial of the runs of a session, with their
// times and tokens, in a store on disk and in memory.
func TestTranscript(t *testing.T) {
	greet := tool.New(tool.Spec{Name: "greet", ReadOnly: true}, func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Output: "good morning"}, nil
	})
	for name, disk := range map[string]bool{"memory": false, "files": true} {
		t.Run(name, func(t *testing.T) {
			up := modeltest.Start(t, modeltest.Anthropic,
				modeltest.Stream(modeltest.Text("Let me see."), modeltest.ToolCall("t1", "greet", `{"name":"Ada"}`), modeltest.ToolCall("t2", "Bash", `{"command":"rm -r x"}`)),
				modeltest.Stream(modeltest.ToolCall("t3", "Task", `{"description":"d","prompt":"look closer","subagent_type":"s"}`)),
				modeltest.Stream(modeltest.Text("found it")),
				modeltest.Stream(modeltest.Text("Done.")),
				modeltest.Stream(modeltest.Text("Half"), modeltest.Hang()))
			b := serve(t, up, func(c *runtime.Config) {
				c.Tools = []tool.Tool{greet}
				c.Agents[0].DisallowedTools = []string{"Write", "Bash(rm *)"}
				c.Agents[0].Subagents = map[string]agent.Subagent{"s": {Description: "d", Prompt: "p"}}
				if disk {
					files, err := session.NewFiles(session.FilesConfig{Dir: t.TempDir(), CWD: c.CWD})
					require.NoError(t, err)
					t.Cleanup(func() { require.NoError(t, files.Close()) })
					c.Sessions = files
				}
			})
			_, first := b.blocking(t, `{"message":"hello","history":[{"role":"user","content":"before"},{"role":"assistant","content":"yes"}]}`)
			require.EqualValues(t, "completed", first.State, first.Error)
			want := []string{
				"system init", "user text before", "assistant text yes", "user text hello",
				`assistant text Let me see. tool_use greet {"name":"Ada"} tool_use Bash {"command":"rm -r x"}`, "assistant",
				"tool_result", "system permission_denied disallowedTools Bash(rm *)", "tool_result",
			}
			all := transcriptOf(t, b, first.SessionID)
			require.Equal(t, want, summary(t, all[:len(want)]))
			rest := summary(t, all[len(want):])
			require.Contains(t, rest[0], "user tool_result good morning tool_result Permission to use Bash was denied")
			require.Equal(t, []string{
				`assistant tool_use Task {"description":"d","prompt":"look closer","subagent_type":"s"}`, "assistant",
				"assistant", "tool_result", "user tool_result found it", "assistant text Done.", "assistant", "result success",
			}, rest[1:])
			events := string(all[5].Event) + string(all[6].Event) + string(all[len(all)-1].Event)
			for _, part := range []string{`"stop_reason":"tool_use"`, `"input_tokens":10`, `"duration_ms":`, `"content":[]`, `"output":""`, `"num_turns":3`} {
				require.Contains(t, events, part)
			}
			require.Contains(t, string(all[12].Event), "found it", "the messages of a subagent are only in its events")

			s := b.open(t.Context(), t, `{"message":"again","sessionId":"`+first.SessionID+`"}`)
			id := s.until("system").data["runId"].(string)
			s.until("partial_message")
			during := transcriptOf(t, b, first.SessionID)
			require.Equal(t, "user text again", summary(t, during[len(during)-1:])[0], "a session can be read during a run")
			b.cancel(t, id)
			s.until("done")
			after := transcriptOf(t, b, first.SessionID)
			require.Equal(t, []string{"system init", "user text again", "assistant text Half", "cancelled"}, summary(t, after[len(all):]))
			require.Contains(t, string(after[len(after)-1].Event), `"reason":"client_request"`)
			require.Equal(t, all, after[:len(all)], "entries do not change")
			for i, e := range after {
				require.Equal(t, i >= len(all), e.RunID == id, "an entry names its run")
			}
		})
	}
}

// A client reads every page, whatever a model has sent: the values of a page are bounded, and an
// input that exceeds a bound by itself is omitted.
func TestTranscriptWithManyValues(t *testing.T) {
	list := func(n int) string { return `{"a":[` + strings.Repeat("1,", n) + `1]}` }
	many := func(calls int, input string) modeltest.Reply {
		var parts []modeltest.Step
		for n := range calls {
			parts = append(parts, modeltest.ToolCall(fmt.Sprint("c", n), "greet", input))
		}
		return modeltest.Stream(parts...)
	}
	up := modeltest.Start(t, modeltest.Anthropic,
		many(1, list(50_000)), many(1, list(50_000)), many(1, list(50_000)),
		many(1, strings.Replace(list(50_000), "1", "2", 1)), // a refused call that is repeated would end the run
		many(1, list(50_000)), many(1, list(50_000)),
		many(1, list(100_000)), many(5, list(50_000)), many(1, `{"a":`+strings.Repeat("[", 2000)+strings.Repeat("]", 2000)+`}`),
		many(1, `{"a":"`+strings.Repeat("x", 300<<10)+`"}`), modeltest.Stream(modeltest.Text("Done.")))
	b := serve(t, up, func(c *runtime.Config) { c.Agents[0].MaxTurns = 20 })
	_, run := b.blocking(t, `{"message":"hello"}`)
	require.EqualValues(t, "completed", run.State, run.Error)
	c, err := client.New(client.Config{BaseURL: b.url})
	require.NoError(t, err)
	var inputs []string
	pages := 0
	for after, more := int64(0), true; more; pages++ {
		page, err := c.Transcript(t.Context(), run.SessionID, after, 1000)
		require.NoError(t, err)
		require.NotEmpty(t, page.Entries)
		for _, e := range page.Entries {
			for _, block := range e.Content {
				if block.Type == "tool_use" {
					require.Equal(t, block.Input == nil, block.Truncated)
					inputs = append(inputs, fmt.Sprint(len(block.Input)))
				}
			}
		}
		after, more = page.Next, page.Next != 0
	}
	size := fmt.Sprint(len(list(50_000)))
	require.Equal(t, []string{size, size, size, size, size, size, "0", size, size, "0", "0", "0", "0", "0"}, inputs)
	require.Greater(t, pages, 3)
}

func TestTranscriptIsRejected(t *testing.T) {
	b := serve(t, nil, nil)
	_, run := b.blocking(t, `{"message":"hello"}`)
	_, other := b.blocking(t, `{"message":"hello","store":false}`)
	for path, want := range map[string]int{
		run.SessionID: 200, run.SessionID + "?after=1000": 200, run.SessionID + "?after=-1": 400, run.SessionID + "?after=x": 400,
		run.SessionID + "?limit=0": 400, run.SessionID + "?limit=1001": 400, run.SessionID + "?limit=%zz": 400,
		other.SessionID: 404, "unknown": 404, "..%2fx": 404, "%00": 404,
	} {
		require.Equal(t, want, b.do(t, "GET", "/v1/sessions/"+path, "").status, path)
	}
	require.JSONEq(t, `{"error":"Session not found"}`, b.do(t, "GET", "/v1/sessions/unknown", "").body)
	require.Equal(t, http.StatusNoContent, b.do(t, "DELETE", "/v1/sessions/"+run.SessionID, "").status)
	require.Equal(t, 404, b.do(t, "GET", "/v1/sessions/"+run.SessionID, "").status)
}
