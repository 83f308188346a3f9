package chat_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// usageOf returns the usage of a message.
func usageOf(input, output float64) object {
	return object{"input_tokens": input, "output_tokens": output, "cache_creation_input_tokens": 0.0, "cache_read_input_tokens": 0.0}
}

// The stored answer has the messages of subagents, denied calls, faults of MCP servers, and the
// durations of calls. Its text is that of the agent.
func TestTheContentOfAnAnswer(t *testing.T) {
	t.Parallel()
	s := open(t, postgres(t))
	up := modeltest.Start(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.Text("I ask."), modeltest.ToolCall("t1", "Task", `{"description":"d","prompt":"p","subagent_type":"scout"}`),
			modeltest.ToolCall("t2", "Bash", `{"command":"rm -rf x"}`)),
		modeltest.Stream(modeltest.Text("I look."), modeltest.ToolCall("s1", "Glob", `{"pattern":"*"}`)),
		modeltest.Stream(modeltest.Text("Nothing is here.")),
		modeltest.Stream(modeltest.Text("It is empty.")))
	s.deploy(up, func(a *agent.Agent) {
		a.Subagents = map[string]agent.Subagent{"scout": {Description: "Looks around.", Prompt: "You scout."}}
		a.MCPServers = map[string]agent.MCPServer{"gone": {Transport: "http", URL: "http://127.0.0.1:1"}}
	})
	ada := s.ada()
	path := session(ada)
	require.Equal(t, "completed", last(say(t, ada, path, "look")))
	answer := messages(ada, path)[1]
	require.Equal(t, "I ask.\n\nIt is empty.", answer["text"])
	require.Equal(t, usageOf(40, 20), answer["usage"])
	byType := map[string][]object{}
	for _, block := range answer["content"].([]any) {
		b := block.(object)
		byType[b["type"].(string)] = append(byType[b["type"].(string)], b)
	}
	require.Len(t, byType["mcp_status"], 1)
	require.Equal(t, []any{"gone", "failed"}, []any{byType["mcp_status"][0]["name"], byType["mcp_status"][0]["status"]})
	require.NotEmpty(t, byType["mcp_status"][0]["error"])
	require.Len(t, byType["permission_denied"], 1)
	require.Equal(t, []any{"Bash", "t2"}, []any{byType["permission_denied"][0]["tool_name"], byType["permission_denied"][0]["tool_use_id"]})
	require.NotEmpty(t, byType["permission_denied"][0]["reason"])
	require.Equal(t, []object{
		{"type": "subagent_message", "parent_tool_use_id": "t1", "content": []any{
			object{"type": "text", "text": "I look."}, object{"type": "tool_use", "id": "s1", "name": "Glob", "input": object{"pattern": "*"}},
		}},
		{"type": "subagent_message", "parent_tool_use_id": "t1", "content": []any{object{"type": "text", "text": "Nothing is here."}}},
	}, byType["subagent_message"])
	require.Len(t, byType["text"], 2)
	parents := map[any]any{}
	for _, b := range byType["tool_result"] {
		require.GreaterOrEqual(t, b["duration_ms"], 0.0)
		parents[b["tool_use_id"]] = b["parent_tool_use_id"]
	}
	require.Equal(t, map[any]any{"t1": nil, "t2": nil, "s1": "t1"}, parents)

	s.deploy(right(t)) // its model receives only the texts
	runs := s.record(nil)
	say(t, ada, path, "and now?")
	for _, body := range runs.take() {
		require.NotContains(t, string(body), "I look.")
	}
}

// The blocks of subagents and of events have a share of an answer, which remains complete.
func TestASubagentDoesNotFillAnAnswer(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	long := strings.Repeat("x", 100<<10)
	s.serve(hostile(func(write func(string) bool, _ <-chan struct{}) {
		for range 16 { // each share is filled
			write(`event: assistant` + "\n" + `data: {"parent_tool_use_id":"t1","message":{"content":[{"type":"text","text":"` + long + `"}]}}` + "\n\n")
			write(`event: system` + "\n" + `data: {"subtype":"warning","message":"` + long + `"}` + "\n\n")
		}
		write("event: assistant\ndata: {\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"Done.\"}]}}\n\n")
		write("event: result\ndata: {\"subtype\":\"success\"}\n\nevent: done\ndata: {}\n\n")
	}))
	ada := s.ada()
	path := session(ada)
	require.Equal(t, "completed", last(say(t, ada, path, "hello")))
	answer := messages(ada, path)[1]
	require.Equal(t, "Done.", answer["text"])
	require.Less(t, len(fmt.Sprint(answer["content"])), 1<<20)
	require.Greater(t, len(fmt.Sprint(answer["content"])), 1<<19)
}

// A runtime that does not end a cancelled run loses its connection.
func TestARuntimeThatDoesNotEndACancelledRun(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]string{"silence": ": ping\n\n", "more text": fmt.Sprintf(partial, "x")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, sqlite(t), func(c *config) { c.Relay.EndTimeout = 50 * time.Millisecond })
			ended := make(chan struct{})
			s.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(ended)
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "text/event-stream")
				flush := http.NewResponseController(w)
				write := func(text string) bool {
					_, err := io.WriteString(w, text)
					return err == nil && flush.Flush() == nil
				}
				write(fmt.Sprintf(partial, "Half."))
				<-r.Context().Done()
				for write(more) {
				}
			}))
			path := session(s.ada())
			answer := send(t, s.ada(), path, object{"message": "hello"})
			answer.until("partial_message")
			answer.cancel()
			<-ended
			require.Contains(t, eventually(t, s.ada(), path)["text"], "Half.")
		})
	}
}

// The tokens of an answer that did not complete are stored, with those of the message that was cut.
func TestUsageOfAnswersThatDidNotComplete(t *testing.T) {
	replies := []modeltest.Reply{
		modeltest.Stream(modeltest.Text("I look."), modeltest.ToolCall("t1", "Glob", `{"pattern":"*"}`)), // 10 in, 5 out
		modeltest.Stream(modeltest.Text("Half"), modeltest.Hang()),                                       // 10 in, 1 out
	}
	for name, row := range map[string]struct {
		end    func(t *testing.T, s *server, path string, answer *stream)
		status string
	}{
		"cancelled": {func(t *testing.T, s *server, path string, answer *stream) {
			s.ada().Post(path+"/cancel", nil).Want(http.StatusAccepted)
			estimated(t, 20, 6, answer.until("cancelled").data["usage"])
			estimated(t, 20, 6, answer.until("hub").data["usage"])
		}, "cancelled"},
		"the client is gone": {func(_ *testing.T, _ *server, _ string, answer *stream) { answer.cancel() }, "cancelled"},
		"the hub shuts down": {func(t *testing.T, s *server, _ string, answer *stream) {
			require.NoError(t, s.service.Close())
			cancelled := answer.until("cancelled").data
			require.Equal(t, "shutdown", cancelled["reason"])
			estimated(t, 20, 6, cancelled["usage"])
		}, "cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, sqlite(t), func(c *config) { c.Relay.EndTimeout = patience }) // on a busy machine
			s.deploy(modeltest.Start(t, modeltest.Anthropic, replies...))
			path := session(s.ada())
			answer := send(t, s.ada(), path, object{"message": "hello"})
			answer.until("tool_result")
			answer.until("partial_message")
			row.end(t, s, path, answer)
			require.Eventually(t, func() bool { return messages(s.ada(), path)[1]["status"] == row.status }, patience, 20*time.Millisecond)
			estimated(t, 20, 6, messages(s.ada(), path)[1]["usage"])
		})
	}
}

// estimated requires a usage that is an estimate of at least these tokens.
func estimated(t *testing.T, input, output float64, usage any) {
	t.Helper()
	u := usage.(object)
	require.Equal(t, true, u["estimated"])
	require.GreaterOrEqual(t, u["input_tokens"], input)
	require.GreaterOrEqual(t, u["output_tokens"], output)
}

// Also many answers that end together have the tokens of the messages that were cut.
func TestUsageOfManyCancelledAnswers(t *testing.T) {
	const n = 40
	for name, end := range map[string]func(t *testing.T, s *server, answers []*stream){
		"the hub shuts down": func(t *testing.T, s *server, _ []*stream) { require.NoError(t, s.service.Close()) },
		"the clients are gone": func(_ *testing.T, _ *server, answers []*stream) {
			for _, answer := range answers {
				answer.cancel()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, sqlite(t), func(c *config) { c.Relay.EndTimeout, c.Relay.UserAnswers = patience, n })
			s.deploy(modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("Half"), modeltest.Hang()))))
			ada := s.ada()
			var paths []string
			var answers []*stream
			for range n {
				path := session(ada)
				paths, answers = append(paths, path), append(answers, send(t, ada, path, object{"message": "hello"}))
			}
			for _, answer := range answers {
				answer.until("partial_message")
			}
			end(t, s, answers)
			for _, path := range paths {
				estimated(t, 10, 1, eventually(t, ada, path)["usage"])
			}
		})
	}
}
