package runtime_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/tool"
)

func TestEventsOfARun(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.Thinking("Hm."), modeltest.Signature("secret-signature"), modeltest.Text("One ", "moment."),
			modeltest.ToolCall("t1", "greet", `{"name":"Ada"}`),
			modeltest.Usage(model.Usage{InputTokens: 10, OutputTokens: 2, CacheReadInputTokens: 5})),
		modeltest.Stream(modeltest.Text("Done."),
			modeltest.Usage(model.Usage{InputTokens: 20, OutputTokens: 3, CacheCreationInputTokens: 1})),
	)
	b := serve(t, up, func(c *runtime.Config) {
		c.Agents[0].SystemPrompt = "secret-prompt"
		c.Agents[0].AllowedTools = []string{"greet"}
		c.Tools = []tool.Tool{greet()}
	})
	s := b.open(t.Context(), t, `{"message":"hello"}`)
	require.Equal(t, "no-cache, no-transform, no-store", s.res.Header.Get("Cache-Control"))
	require.Equal(t, "no", s.res.Header.Get("X-Accel-Buffering"))
	all := s.rest()
	require.Equal(t, []string{
		"system", "partial_message", "partial_message", "partial_message", "partial_message", "assistant", "tool_result",
		"partial_message", "assistant", "result", "done",
	}, names(all))

	runID, init := s.res.Header.Get("X-Run-ID"), all[0].data
	require.Len(t, runID, 36)
	sessionID := init["session_id"]
	require.NotEmpty(t, sessionID)
	require.Equal(t, map[string]any{
		"type": "system", "subtype": "init", "runId": runID, "session_id": sessionID, "agent_id": "helper", "model": "m",
		"cwd": init["cwd"], "tools": []any{"greet"}, "skills": []any{}, "mcp_servers": []any{}, "permission_mode": "default",
		"resumed": false,
	}, init)
	require.Equal(t, map[string]any{"type": "partial_message", "partial": map[string]any{"type": "thinking", "text": "Hm."}},
		all[1].data)
	require.Equal(t, map[string]any{"type": "partial_message", "partial": map[string]any{"type": "text", "text": "One "}},
		all[2].data)
	require.Equal(t, map[string]any{"type": "partial_message",
		"partial": map[string]any{"type": "tool_use", "tool_name": "greet", "tool_use_id": "t1", "id": "t1"}}, all[4].data)

	uuid := all[5].data["uuid"]
	require.Len(t, uuid, 36)
	require.Equal(t, map[string]any{
		"type": "assistant", "uuid": uuid, "session_id": sessionID, "parent_tool_use_id": nil,
		"message": map[string]any{"role": "assistant", "model": "m", "stop_reason": "tool_use", "content": []any{
			map[string]any{"type": "thinking", "thinking": "Hm."},
			map[string]any{"type": "text", "text": "One moment."},
			map[string]any{"type": "tool_use", "id": "t1", "name": "greet", "input": map[string]any{"name": "Ada"}},
		}},
		"usage": usage(10, 2, 0, 5),
	}, all[5].data)
	result := all[6].data["result"].(map[string]any)
	require.GreaterOrEqual(t, result["duration_ms"], 0.0)
	delete(result, "duration_ms")
	require.Equal(t, map[string]any{"type": "tool_result", "parent_tool_use_id": nil, "result": map[string]any{
		"tool_use_id": "t1", "tool_name": "greet", "output": "Hello, Ada", "is_error": false, "truncated": false,
	}}, all[6].data)

	end := all[9].data
	require.GreaterOrEqual(t, end["duration_ms"], 0.0)
	delete(end, "duration_ms")
	require.Equal(t, map[string]any{
		"type": "result", "subtype": "success", "runId": runID, "session_id": sessionID, "is_error": false, "num_turns": 2.0,
		"result": "Done.", "stop_reason": "end_turn", "usage": usage(30, 5, 1, 5), "permission_denials": []any{},
	}, end)
	require.Equal(t, map[string]any{}, all[10].data)
	require.NotContains(t, b.log.String(), "secret-prompt")
}

func usage(in, out, written, read float64) map[string]any {
	return map[string]any{"input_tokens": in, "output_tokens": out, "cache_creation_input_tokens": written,
		"cache_read_input_tokens": read}
}

func greet() tool.Tool {
	return tool.New(tool.Spec{Name: "greet", Description: "Greets."}, func(_ context.Context, call tool.Call) (tool.Result, error) {
		return tool.Result{Output: "Hello, " + strings.Trim(string(call.Input[8:]), `"}`)}, nil
	})
}

func TestModes(t *testing.T) {
	const sse, blocked, json = "sse", "sse without partials", "json"
	for name, row := range map[string]struct{ accept, stream, want string }{
		"event stream":                      {"text/event-stream", "", sse},
		"event stream, block":               {"text/event-stream", `"block"`, blocked},
		"event stream, false":               {"text/event-stream", "false", sse},
		"event stream and json":             {"application/json, text/event-stream;q=0.1", "", sse},
		"json":                              {"application/json", "", json},
		"json, true":                        {"application/json", "true", json},
		"json in other letters":             {"Application/JSON; charset=utf-8", "", json},
		"any application type":              {"application/*", "", json},
		"nothing":                           {"", "", sse},
		"nothing, true":                     {"", "true", sse},
		"nothing, raw":                      {"", `"raw"`, sse},
		"nothing, block":                    {"", `"block"`, blocked},
		"nothing, false":                    {"", "false", json},
		"nothing, null":                     {"", "null", sse},
		"anything":                          {"*/*", "", sse},
		"anything, false":                   {"*/*", "false", json},
		"a browser":                         {"text/html,application/xhtml+xml,*/*;q=0.8", "false", json},
		"anything but event streams":        {"*/*, text/event-stream;q=0", "true", json},
		"anything but text":                 {"text/*;q=0, */*", "true", json},
		"anything but applications":         {"*/*, application/*;q=0", "false", sse},
		"anything but json":                 {"*/*, application/json;q=0", "false", sse},
		"json, event streams excluded":      {"text/event-stream;q=0, application/json", "true", json},
		"event stream, whatever its weight": {"text/event-stream;q=0.001", "false", sse},
	} {
		t.Run(name, func(t *testing.T) {
			up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("Hi", " there.")))
			b := serve(t, up, nil)
			body := `{"message":"hello"}`
			if row.stream != "" {
				body = `{"message":"hello","stream":` + row.stream + `}`
			}
			res := b.do(t, "POST", runs, body, "Accept", row.accept)
			require.Equal(t, http.StatusOK, res.status)
			require.Len(t, res.header.Get("X-Run-ID"), 36)
			if row.want == json {
				require.Equal(t, "application/json", res.header.Get("Content-Type"))
				require.Contains(t, res.body, `"text":"Hi there."`)
				return
			}
			require.Equal(t, "text/event-stream; charset=utf-8", res.header.Get("Content-Type"))
			require.Equal(t, row.want == sse, strings.Contains(res.body, "event: partial_message\n"))
			require.True(t, strings.HasSuffix(res.body, "event: done\ndata: {}\n"), res.body)
		})
	}
}

func TestNotAcceptable(t *testing.T) {
	b := serve(t, nil, nil)
	for _, accept := range []string{"text/html", "image/*", "text/event-stream;q=0, application/json;q=0, */*", "nonsense"} {
		res := b.do(t, "POST", runs, `{"message":"hello"}`, "Accept", accept)
		require.Equal(t, http.StatusNotAcceptable, res.status, accept)
		require.JSONEq(t, `{"error":"Not acceptable"}`, res.body)
	}
}

func TestInitComesBeforeTheModelIsCalled(t *testing.T) {
	gate := make(chan struct{})
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Gate(gate), modeltest.Text("Hi.")))
	s := serve(t, up, nil).open(t.Context(), t, `{"message":"hello"}`)
	require.Equal(t, "system", s.next().name)
	close(gate)
	s.until("done")
}

func TestTokensAreSentImmediately(t *testing.T) {
	first, second := make(chan struct{}), make(chan struct{})
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(
		modeltest.Text("one"), modeltest.Ping(), modeltest.Gate(first), modeltest.Text("two"),
		modeltest.Verbatim("event: news\ndata: {\"type\":\"news\"}\n\n"), modeltest.Gate(second), modeltest.Text("three"),
	))
	s := serve(t, up, nil).open(t.Context(), t, `{"message":"hello"}`)
	require.Contains(t, s.until("partial_message").data["partial"], "text")
	close(first) // only after the first was read
	require.Equal(t, map[string]any{"type": "text", "text": "two"}, s.until("partial_message").data["partial"])
	close(second)
	require.Equal(t, map[string]any{"type": "text", "text": "three"}, s.until("partial_message").data["partial"])
	s.until("done")
}

func TestHeartbeat(t *testing.T) {
	gate := make(chan struct{})
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Gate(gate), modeltest.Text("Hi.")))
	b := serve(t, up, func(c *runtime.Config) { c.Heartbeat = time.Millisecond })
	res := b.request(t.Context(), t, "POST", runs, `{"message":"hello"}`)
	defer res.Body.Close()
	var got strings.Builder
	buf := make([]byte, 512)
	for !strings.Contains(got.String(), ": ping\n\n: ping\n\n") {
		n, err := res.Body.Read(buf)
		require.NoError(t, err)
		got.Write(buf[:n])
	}
	close(gate)
}

func TestSessions(t *testing.T) {
	gate := make(chan struct{})
	up := modeltest.Start(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.Text("First.")),
		modeltest.Stream(modeltest.Gate(gate), modeltest.Text("Second.")),
		modeltest.Repeat(modeltest.Stream(modeltest.Text("Third."))),
	)
	b := serve(t, up, func(c *runtime.Config) {
		other := helper(up)
		other.ID = "other"
		c.Agents = append(c.Agents, other)
	})
	_, first := b.blocking(t, `{"message":"one"}`)

	s := b.open(t.Context(), t, `{"message":"two","sessionId":"`+first.SessionID+`"}`)
	init := s.next().data
	require.Equal(t, first.SessionID, init["session_id"], "a session keeps its id")
	require.Equal(t, true, init["resumed"])
	busy := b.do(t, "POST", runs, `{"message":"two at once","sessionId":"`+first.SessionID+`"}`)
	require.Equal(t, http.StatusConflict, busy.status)
	require.JSONEq(t, `{"error":"Session busy","sessionId":"`+first.SessionID+`"}`, busy.body)
	busy = b.do(t, "DELETE", "/v1/sessions/"+first.SessionID, "")
	require.Equal(t, http.StatusConflict, busy.status)
	require.JSONEq(t, `{"error":"Session busy","sessionId":"`+first.SessionID+`"}`, busy.body)
	close(gate)
	s.until("done")
	require.Contains(t, string(up.Requests()[1].Body), "First.")

	_, third := b.blocking(t, `{"message":"three","sessionId":"`+first.SessionID+`"}`)
	require.Equal(t, first.SessionID, third.SessionID, "free before done is sent")

	_, unknown := b.blocking(t, `{"message":"hello","sessionId":"never-seen"}`)
	require.NotEqual(t, "never-seen", unknown.SessionID)

	elsewhere := b.do(t, "POST", "/v1/agents/other/runs", `{"message":"hello","sessionId":"`+first.SessionID+`"}`)
	require.Contains(t, elsewhere.body, `"resumed":false`, "a session belongs to one agent")
	require.NotContains(t, string(up.Requests()[4].Body), "First.")

	for _, id := range []string{first.SessionID, first.SessionID, "never-seen", "..", "a%20b", strings.Repeat("a", 129)} {
		deleted := b.do(t, "DELETE", "/v1/sessions/"+id, "")
		require.Equal(t, http.StatusNoContent, deleted.status, id)
		require.Empty(t, deleted.body)
	}
	gone := b.do(t, "POST", runs, `{"message":"hello","sessionId":"`+first.SessionID+`"}`)
	require.Contains(t, gone.body, `"resumed":false`)
	require.NotContains(t, string(up.Requests()[5].Body), "First.")
}
