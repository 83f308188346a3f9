package chat_test

import (
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/wire"
)

// Messages of a runtime are stored in the form of the hub: blocks of known types, with their
// members, whose texts are texts. Only the input of a call is any JSON.
func TestStoredBlocksOfAHostileRuntime(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	content := strings.Join([]string{
		`{"type":"text","text":"a","html":"<p>","props":{"x":1}}`, `{"type":"text","text":{"toString":1}}`, `{"type":{"a":1},"text":"b"}`,
		`{"type":"script","props":{}}`, `{"type":"thinking","thinking":"b","__proto__":{}}`, `{"type":"thinking","thinking":[1]}`,
		`{"type":"tool_use","id":"i","name":"n","input":{"any":[{"x":1}]},"vnode":{}}`, `{"type":"tool_use","id":"i","name":{"x":1},"input":{}}`,
		`{"type":"tool_use","id":"j","name":"n","input":"a text"}`, `{"type":"tool_use","id":"k","name":"n","input":` + strings.Repeat(`{"a":`, 2000) + `1` + strings.Repeat(`}`, 2000) + `}`,
		`null`, `7`, `["text"]`,
	}, ",")
	s.serve(hostile(func(write func(string) bool, _ <-chan struct{}) {
		write("event: assistant\ndata: {\"message\":{\"content\":[" + content + "]}}\n\n")
		write("event: assistant\ndata: {\"parent_tool_use_id\":\"i\",\"message\":{\"content\":[" + content + "]}}\n\n")
		write("event: assistant\ndata: {\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"b\"}],\"content\":[]}}\n\n")
		write("event: tool_result\ndata: {\"result\":{\"tool_use_id\":\"i\",\"tool_name\":\"n\",\"output\":{\"x\":1}}}\n\n")
		write("event: tool_result\ndata: {\"result\":{\"tool_use_id\":\"i\",\"tool_name\":\"n\",\"output\":\"o\",\"html\":1}}\n\n")
		write("event: system\ndata: {\"subtype\":\"warning\",\"message\":[\"w\"]}\n\n")
		write("event: result\ndata: {\"subtype\":\"success\"}\n\nevent: done\ndata: {}\n\n")
	}))
	ada := s.ada()
	path := session(ada)
	require.Equal(t, "completed", last(say(t, ada, path, "hello")))
	answer := messages(ada, path)[1]
	require.Equal(t, "a", answer["text"])
	blocks := []any{
		object{"type": "text", "text": "a"}, object{"type": "thinking", "thinking": "b"},
		object{"type": "tool_use", "id": "i", "name": "n", "input": object{"any": []any{object{"x": 1.0}}}},
		object{"type": "tool_use", "id": "j", "name": "n", "input": object{}}, object{"type": "tool_use", "id": "k", "name": "n", "input": object{}},
	}
	require.Equal(t, append(blocks,
		object{"type": "subagent_message", "parent_tool_use_id": "i", "content": blocks},
		object{"type": "tool_result", "tool_use_id": "i", "tool_name": "n", "output": "o", "is_error": false, "duration_ms": 0.0, "truncated": false},
	), answer["content"])
}

// An entry of a transcript that the hub cannot decode hides only itself, and events have the
// members of their types.
func TestTranscriptOfAHostileRuntime(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	s.deploy(nil)
	ada := s.ada()
	path := session(ada)
	say(t, ada, path, "hello")
	entries := ""
	s.serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"sessionId":"s","agentId":"a","createdAt":"2026-01-02T03:04:05Z","vnode":1,"total":9,"entries":[`+entries+`{"seq":9,"type":"compaction","summary":"end"}]}`)
	}))
	const seq = `"seq":1,"time":"2026-01-02T03:04:05Z"`
	for entry, want := range map[string]any{
		`{` + seq + `,"type":"message","role":"user","html":1,"content":[{"type":"text","text":"a","props":{}},{"type":"tool_use","id":"i","name":"n","input":[1]}]}`: object{
			"seq": 1.0, "time": "2026-01-02T03:04:05.000000Z", "type": "message", "role": "user",
			"content": []any{object{"type": "text", "text": "a"}, object{"type": "tool_use", "id": "i", "name": "n", "truncated": true}},
		},
		`{` + seq + `,"type":"event","event":{"type":"system","subtype":"warning","message":"m","vnode":{"x":1}}}`: object{
			"seq": 1.0, "time": "2026-01-02T03:04:05.000000Z", "type": "event", "event": object{"type": "system", "subtype": "warning", "message": "m"},
		},
		`{"seq":1,"type":"event","event":{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"a","x":1},{"type":"later"}],"model":"m","stop_reason":"s"},"usage":{"input_tokens":1}}}`: object{
			"seq": 1.0, "type": "event", "event": object{
				"type": "assistant", "uuid": "", "session_id": "", "parent_tool_use_id": nil, "usage": usageOf(1, 0),
				"message": object{"role": "assistant", "content": []any{object{"type": "text", "text": "a"}}, "model": "m", "stop_reason": "s"},
			},
		},
		`{"seq":1,"type":"event","event":{"type":"later","props":{"x":1}}}`:  object{"seq": 1.0, "type": "event"},
		`{"seq":1,"type":"event","event":{"type":{"x":1}}}`:                  nil,
		`{"seq":1,"type":"event","event":{"type":"system","message":["m"]}}`: nil,
		`{"seq":1,"type":"event","event":"text"}`:                            nil,
		`{"seq":1,"type":{"a":1}}`:                                           nil,
		`{"seq":1,"type":"message","content":[{"type":"text","text":[1]}]}`:  nil,
		`{"seq":1,"type":"compaction","summary":{"toString":1}}`:             nil,
		`{"seq":1,"time":"10000-01-01T00:00:00Z","type":"message"}`:          nil,
		`{"seq":1,"time":"9999-12-31T23:59:59-01:00","type":"message"}`:      object{"seq": 1.0, "time": "9999-12-31T23:59:59.999999Z", "type": "message"},
		`7`:  nil,
		`[]`: nil,
	} {
		entries = entry + ","
		items := ada.Get(path + "/transcript").Want(http.StatusOK)["items"].([]any)
		require.Equal(t, "end", items[len(items)-1].(object)["summary"], entry)
		items = items[:len(items)-1]
		if want == nil {
			require.Empty(t, items, entry)
			continue
		}
		require.Len(t, items, 1, entry)
		one := items[0].(object)
		delete(one, "aigc")
		require.Equal(t, want, one, entry)
	}
}

// A row that an earlier version has stored in another form hides no other row, and no block of its
// own. Its times are those that clients can decode.
func TestMalformedRows(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		ada := s.ada()
		all := []object{
			{"id": "m1", "role": "user", "content": "first", "created_at": day1}, {"id": "m2", "role": "assistant", "content": "second", "created_at": day1},
			{"id": "m3", "role": "user", "content": "third", "created_at": day1},
		}
		require.Equal(t, []string{"created", "created"}, statuses(ada.Post(push, body(pushed("s1", day1, "messages", all), pushed("s2", day1)))))
		warning := object{"type": "warning", "message": "A part of this message cannot be displayed."}
		for content, want := range map[string][]any{
			`[{"toString":1},{"type":"text","text":"a","vnode":1},{"type":"text","text":{"b":1}}]`: {object{"type": "text", "text": "a"}, warning},
			`[{"type":"text","text":"a"}`: {warning},
			`{"toString":1}`:              {warning},
			`[null,7,[]]`:                 {warning},
			`[{"type":"later","n":1}]`:    {object{"type": "later", "n": 1.0}},
		} {
			s.exec(`UPDATE chat_messages SET content = $1 WHERE id = 'm2'`, content)
			stored := messages(ada, sessions+"/s1")
			require.Equal(t, []any{object{"type": "text", "text": "first"}}, stored[0]["content"], content)
			require.Equal(t, want, stored[1]["content"], content)
			require.Equal(t, []any{object{"type": "text", "text": "third"}}, stored[2]["content"], content)
		}
		for micros, want := range map[int64]string{
			math.MaxInt64: "9999-12-31T23:59:59.999999Z", time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro(): "9999-12-31T23:59:59.999999Z",
			math.MinInt64: "0001-01-01T00:00:00.000000Z",
		} {
			s.exec(`UPDATE chat_messages SET created_at = $1 WHERE id = 'm2'`, micros)
			s.exec(`UPDATE chat_sessions SET created_at = $1, updated_at = $1 WHERE id = 's1'`, micros)
			require.Equal(t, want, messages(ada, sessions+"/s1")[1]["createdAt"])
			found := ada.Get(admin + "/s1").Want(http.StatusOK)
			require.Equal(t, []any{want, want}, []any{found["createdAt"], found["updatedAt"]})
			require.Len(t, ada.Get(sessions).Items(), 2)
		}
	})
}

// Transcripts have a share of the memory of answers, and return it when they are sent. A runtime
// does not choose their number of entries.
func TestMemoryOfTranscripts(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	s.deploy(nil)
	ada := s.ada()
	path := session(ada)
	say(t, ada, path, "hello")
	entry := `{"seq":1,"type":"compaction","summary":"` + strings.Repeat("x", 1<<20) + `"}`
	count := 1
	s.serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"sessionId":"s","agentId":"a","createdAt":"2026-01-02T03:04:05Z","total":9,"entries":[`+strings.Repeat(entry+",", count-1)+entry+`]}`)
	}))
	for range 24 { // 192 MiB, if they were not returned
		require.Len(t, ada.Get(path+"/transcript").Items(), 1)
	}
	count = 2
	for range 12 {
		require.Len(t, ada.Get(path+"/transcript?page_size=1").Items(), 1)
	}
	count = 40 // 160 MiB, more than a tenant may use
	ada.Get(path+"/transcript").Error(http.StatusServiceUnavailable, wire.Unavailable)
	count = 1
	require.Len(t, ada.Get(path+"/transcript").Items(), 1)
}
