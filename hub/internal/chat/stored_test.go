package chat_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

// events returns the text of events: each name is followed by its data.
func events(pairs ...any) string {
	var text strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		data, ok := pairs[i+1].(string)
		if !ok {
			raw, _ := json.Marshal(pairs[i+1])
			data = string(raw)
		}
		fmt.Fprintf(&text, "event: %s\ndata: %s\n\n", pairs[i], data)
	}
	return text.String()
}

func said(text string) object {
	return object{"message": object{"content": []any{object{"type": "text", "text": text}}}}
}

// answered returns the answer to a message, as it is stored, of a runtime that sends the text.
func (s *server) answered(text string) object {
	s.t.Helper()
	s.serve(hostile(func(write func(string) bool, _ <-chan struct{}) { write(text) }))
	path := session(s.ada())
	say(s.t, s.ada(), path, "hello")
	return messages(s.ada(), path)[1]
}

var success = events("result", object{"subtype": "success"}, "done", object{})

// An answer has at most 4 MiB: its blocks, their text, and the text of the message in progress.
func TestAnswersOf4MiB(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	const most, parts = 4 << 20, 8
	text := strings.Repeat("x", most/parts)
	part := events("partial_message", object{"type": "partial_message", "partial": object{"type": "text", "text": text}})
	one := events("partial_message", object{"type": "partial_message", "partial": object{"type": "text", "text": "y"}})
	answer := s.answered(strings.Repeat(part, parts) + success)
	require.Equal(t, "completed", answer["status"])
	require.Len(t, answer["text"], most)
	answer = s.answered(strings.Repeat(part, parts) + one + success)
	require.Equal(t, "failed", answer["status"])
	require.Equal(t, object{"code": "upstream_failed", "message": "The answer is too long or takes too long."}, answer["error"])
	require.Len(t, answer["text"], most+1, "it is stored nevertheless")

	rest := most - 2*len(text) - len(`{"type":"text","text":""}`)
	assistant := events("assistant", said(text))
	for n, status := range map[int]string{rest: "completed", rest + 1: "failed"} {
		parts := events("partial_message", object{"type": "partial_message", "partial": object{"type": "text", "text": strings.Repeat("x", n)}})
		require.Equal(t, status, s.answered(assistant + parts + success)["status"])
	}
}

// The blocks of subagents and of events share 1 MiB, the results of tools are cut, and texts of a
// runtime have limits.
func TestLimitsOfBlocks(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	const share = 1 << 20
	aside := func(n int) string {
		const fixed = len(`{"type":"subagent_message","parent_tool_use_id":"t","content":[{"type":"text","text":""}]}`)
		return events("assistant", object{
			"parent_tool_use_id": "t", "message": object{"content": []any{object{"type": "text", "text": strings.Repeat("x", n-fixed)}}},
		})
	}
	warning := func(n int) string {
		return events("system", object{"subtype": "warning", "message": strings.Repeat("é", n)})
	}
	for n, blocks := range map[int]int{share - 1000: 1, share - 1000 + 1: 0} {
		require.Len(t, s.answered(aside(1000) + aside(n) + success)["content"], 1+blocks)
	}
	require.Len(t, s.answered(aside(share+1) + warning(1) + success)["content"], 1, "what fits is stored")

	texts := s.answered(events("system", object{
		"subtype": "permission_denied", "tool_name": "Bash", "tool_use_id": "t", "reason": strings.Repeat("r", 2001), "name": "n", "status": "s",
		"error": strings.Repeat("e", 2001), "message": strings.Repeat("m", 2001),
	}) + warning(1000) + warning(1001) + events("system", object{"subtype": "other", "message": "m"}) + success)["content"].([]any)
	require.Equal(t, []any{
		object{
			"type": "permission_denied", "tool_name": "Bash", "tool_use_id": "t", "reason": strings.Repeat("r", 2000), "name": "n", "status": "s",
			"error": strings.Repeat("e", 2000), "message": strings.Repeat("m", 2000),
		},
		object{"type": "warning", "message": strings.Repeat("é", 1000)}, object{"type": "warning", "message": strings.Repeat("é", 1000)},
	}, texts)

	result := func(parent any, n int, truncated bool) string {
		return events("tool_result", object{"parent_tool_use_id": parent, "result": object{
			"tool_use_id": "t", "tool_name": "Bash", "output": strings.Repeat("x", n), "is_error": true, "duration_ms": 7, "truncated": truncated,
		}})
	}
	blocks := s.answered(result(nil, 16<<10, false) + result(nil, 1, true) + result("p", 16<<10+1, false) + success)["content"].([]any)
	require.Len(t, blocks, 3)
	require.Equal(t, object{
		"type": "tool_result", "tool_use_id": "t", "tool_name": "Bash", "output": strings.Repeat("x", 16<<10), "is_error": true, "duration_ms": 7.0, "truncated": false,
	}, blocks[0])
	require.Equal(t, true, blocks[1].(object)["truncated"])
	require.Equal(t, "p", blocks[2].(object)["parent_tool_use_id"])
	require.Equal(t, true, blocks[2].(object)["truncated"])
	require.Contains(t, blocks[2].(object)["output"], "bytes cut]")
	s.sizes(s.stored()...)
}

// The model and the session that a runtime names are stored if they can be.
func TestNamesOfARuntime(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	for _, row := range []struct{ model, session, wantModel, wantSession string }{
		{strings.Repeat("m", 200), strings.Repeat("s", 128), strings.Repeat("m", 200), strings.Repeat("s", 128)},
		{strings.Repeat("m", 201), strings.Repeat("s", 129), strings.Repeat("m", 200), ""},
		{"a\x00b", "../s", "a\uFFFDb", ""},
	} {
		init := events("system", object{"subtype": "init", "model": row.model, "session_id": row.session})
		answer := s.answered(init + events("assistant", said("Hi.")) + success)
		require.Equal(t, row.wantModel, answer["model"])
		require.Equal(t, 1, s.number(`SELECT COUNT(*) FROM chat_sessions WHERE runtime_session = '`+row.wantSession+`'`))
		s.exec(`DELETE FROM chat_sessions`)
	}
}

// Only the first event of a run names its session.
func TestOtherEventsWithASession(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	warning := events("system", object{"subtype": "warning", "message": "m", "session_id": "s", "model": "other"})
	answer := s.answered(events("system", object{"subtype": "init"}) + warning + success)
	require.Equal(t, "completed", answer["status"])
	require.NotContains(t, answer, "model")
	require.Equal(t, []any{object{"type": "warning", "message": "m"}}, answer["content"])
	require.Zero(t, s.number(`SELECT COUNT(*) FROM chat_sessions WHERE runtime_session <> ''`))
}

// A runtime reports why its run has failed.
func TestFailuresOfARuntime(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	for name, row := range map[string]struct {
		events, code, message string
	}{
		"errors":    {events("result", object{"is_error": true, "subtype": "s", "error_type": "server", "errors": []string{"one", "two"}}), "server", "one"},
		"no errors": {events("result", object{"is_error": true, "subtype": "error_max_turns"}), "upstream_failed", "error_max_turns"},
		"long": {
			events("result", object{"is_error": true, "error_type": strings.Repeat("c", 201), "errors": []string{strings.Repeat("e", 2001)}}),
			strings.Repeat("c", 200), strings.Repeat("e", 2000),
		},
		"a fault": {events("error", object{"error": "e\x00", "errorType": "t"}), "t", "e\uFFFD"},
		"the first counts": {
			events("error", object{"error": "e", "errorType": "t"}, "result", object{"subtype": "success"}, "cancelled", object{}), "t", "e",
		},
	} {
		answer := s.answered(row.events + events("done", object{}))
		require.Equal(t, "failed", answer["status"], name)
		require.Equal(t, object{"code": row.code, "message": row.message}, answer["error"], name)
	}
	require.Equal(t, "cancelled", s.answered(events("cancelled", object{"reason": "client_request"}, "done", object{}))["status"])
}

// The usage of a run is that of its end, or else that of its messages. At most 16 models of
// subagents are distinguished.
func TestUsageThatARuntimeReports(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	tokens := func(n int) object { return object{"input_tokens": n, "output_tokens": 1} }
	message := func(model string, parent any, n int) string {
		return events("assistant", object{"parent_tool_use_id": parent, "message": object{"model": model, "content": []any{}}, "usage": tokens(n)})
	}
	for name, row := range map[string]struct {
		events string
		want   float64
	}{
		"the result":                {events("result", object{"subtype": "success", "usage": tokens(50)}), 50},
		"the cancelled event":       {events("cancelled", object{"usage": tokens(60)}), 60},
		"a cancelled event without": {events("cancelled", object{}), 7},
		"a fault":                   {events("error", object{"error": "e", "usage": tokens(70)}), 70},
		"a fault without":           {events("error", object{"error": "e"}), 7},
		"none":                      {"", 7},
	} {
		answer := s.answered(message("m", nil, 3) + message("small", "t", 4) + row.events + events("done", object{}))
		require.Equal(t, row.want, answer["usage"].(object)["input_tokens"], name)
	}
	s.exec(`DELETE FROM usage_runs`)
	s.exec(`DELETE FROM usage_days`)
	s.exec(`DELETE FROM usage_weeks`) // a week that ends today is read from it
	all := events("system", object{"subtype": "init", "model": "main"})
	for range 2 {
		for i := range 17 {
			all += message(fmt.Sprintf("m%02d", i), "t", 1)
		}
	}
	s.answered(all + success)
	models := map[any]bool{}
	for _, row := range s.counted("model") {
		models[row["model"]] = true
	}
	require.Len(t, models, 17, "with the main one")
	require.False(t, models["m16"])
	s.answered(message(strings.Repeat("n", 201), "t", 1) + message("a\x00", "t", 1) + success)
	models = map[any]bool{}
	for _, row := range s.counted("model") {
		models[row["model"]] = true
	}
	require.True(t, models[strings.Repeat("n", 200)])
	require.True(t, models["a\uFFFD"])
}

// A message without text or blocks is stored as such, and an event that cannot be decoded is not.
func TestAnswersWithoutContent(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	for name, row := range map[string]struct {
		events  string
		text    string
		content []any
	}{
		"nothing":      {"", "", []any{}},
		"no JSON":      {events("assistant", "no JSON", "result", "no JSON", "system", "no JSON", "tool_result", "no JSON", "partial_message", "no JSON"), "", []any{}},
		"text":         {events("assistant", said("a")), "a", []any{object{"type": "text", "text": "a"}}},
		"two messages": {events("assistant", said("a"), "assistant", said("b")), "a\n\nb", []any{object{"type": "text", "text": "a"}, object{"type": "text", "text": "b"}}},
		"another block": {
			events("assistant", object{"message": object{"content": []any{object{"type": "image"}}}}), "", []any{},
		},
		"a cut message": {
			events("assistant", said("a"), "partial_message", object{"type": "partial_message", "partial": object{"type": "text", "text": "b"}}),
			"a\n\nb", []any{object{"type": "text", "text": "a"}, object{"type": "text", "text": "b"}},
		},
		"a block with another field": {
			events("assistant", object{"message": object{"content": []any{object{"type": "text", "text": "a", "n": 1}}}}), "a",
			[]any{object{"type": "text", "text": "a"}},
		},
	} {
		answer := s.answered(row.events + events("done", object{}))
		require.Equal(t, row.text, answer["text"], name)
		require.Equal(t, row.content, answer["content"], name)
	}
}

// A runtime that rejects a run gets a response that says so.
func TestRuntimesThatRejectARun(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	rejects := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(runtimewire.ErrorBody{Error: "no"})
		}
	}
	for status, row := range map[int]struct {
		status  int
		code    wire.Code
		message string
	}{
		http.StatusRequestEntityTooLarge: {http.StatusRequestEntityTooLarge, code.PayloadTooLarge, "The message is too long for the agent."},
		http.StatusServiceUnavailable: {
			http.StatusBadGateway, code.UpstreamFailed, "The runtime of the agent takes no more runs at the moment: send the message again later.",
		},
		http.StatusTooManyRequests: {
			http.StatusBadGateway, code.UpstreamFailed, "The runtime of the agent takes no more runs at the moment: send the message again later.",
		},
		http.StatusForbidden: {http.StatusBadGateway, code.UpstreamFailed, "The runtime of the agent rejected the message: look at its deployment."},
	} {
		s.serve(rejects(status))
		ada := s.ada()
		path := session(ada)
		require.Equal(t, row.message, ada.Post(path+"/messages", object{"message": "hello"}).Error(row.status, row.code)["message"])
		stored := messages(ada, path)[1]
		require.Equal(t, object{"code": string(row.code), "message": row.message}, stored["error"])
	}
	e := *s.endpoint.Load()
	e.URL = "ftp://127.0.0.1"
	s.endpoint.Store(&e)
	ada := s.ada()
	path := session(ada)
	fault := ada.Post(path+"/messages", object{"message": "hello"}).Error(http.StatusBadGateway, code.UpstreamFailed)
	require.Equal(t, "The address of the agent's runtime is invalid.", fault["message"])
	require.Empty(t, messages(ada, path))
}

// A runtime continues a session that began with the stored conversation only if its model has
// responded: it has then stored that conversation.
func TestSessionsThatBeganWithTheConversation(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	init := events("system", object{"subtype": "init", "session_id": "of-the-runtime"})
	text := events("partial_message", object{"type": "partial_message", "partial": object{"type": "text", "text": "a"}})
	thought := events("partial_message", object{"type": "partial_message", "partial": object{"type": "thinking", "thinking": "a"}})
	for i, row := range []struct{ events, want string }{
		{init + success, ""}, {init + text + success, "of-the-runtime"}, {init + thought + success, "of-the-runtime"},
		{init + events("assistant", said("a")) + success, "of-the-runtime"},
	} {
		id := fmt.Sprint("s", i)
		require.Equal(t, []string{"created"}, statuses(s.ada().Post(push, body(pushed(id, day1)))))
		s.serve(hostile(func(write func(string) bool, _ <-chan struct{}) { write(row.events) }))
		say(t, s.ada(), sessions+"/"+id, "hello")
		var got string
		require.NoError(t, s.db.Read().QueryRowContext(t.Context(), `SELECT runtime_session FROM chat_sessions WHERE id = $1`, id).Scan(&got))
		require.Equal(t, row.want, got, i)
	}
}
