package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// events are one of each kind, with the JSON that the API shows for it.
var events = map[string]struct {
	payload wire.Payload
	json    string
}{
	"init": {&wire.System{Type: "system", Subtype: runvalue.SystemInit, Init: &wire.Init{
		RunID: "r", SessionID: "s", AgentID: "a", Model: "m", CWD: "/w", Tools: []string{"Read"}, Skills: []string{},
		MCPServers: []wire.MCPStatus{{Name: "files", Status: "pending"}}, PermissionMode: "default",
	}}, `{"type":"system","subtype":"init","runId":"r","session_id":"s","agent_id":"a","model":"m","cwd":"/w","tools":["Read"],"skills":[],
		"mcp_servers":[{"name":"files","status":"pending"}],"permission_mode":"default","resumed":false}`},
	"permission denied": {&wire.System{Type: "system", Subtype: runvalue.SystemPermissionDenied, ToolName: "Bash", ToolUseID: "t",
		Reason: "no"},
		`{"type":"system","subtype":"permission_denied","tool_name":"Bash","tool_use_id":"t","reason":"no"}`},
	"partial text": {&wire.PartialMessage{Partial: wire.Partial{Type: "text", Text: "a\"b\n<é\x01"}},
		`{"type":"partial_message","partial":{"type":"text","text":"a\"b\n<é\u0001"}}`},
	"partial thinking": {&wire.PartialMessage{Partial: wire.Partial{Type: "thinking", Text: "hm"}},
		`{"type":"partial_message","partial":{"type":"thinking","text":"hm"}}`},
	"partial tool use": {&wire.PartialMessage{Partial: wire.Partial{Type: "tool_use", ToolName: "Read", ToolUseID: "t"}},
		`{"type":"partial_message","partial":{"type":"tool_use","tool_name":"Read","tool_use_id":"t","id":"t"}}`},
	"assistant": {&wire.Assistant{Type: "assistant", UUID: "u", SessionID: "s", Message: wire.AssistantMessage{
		Role: "assistant", Model: "m", StopReason: "tool_use", Content: []wire.Block{
			{Type: "thinking", Thinking: ""}, {Type: "text", Text: "<x>"},
			{Type: "tool_use", ID: "t", Name: "Read", Input: json.RawMessage(`{"a":"<b>"}`)},
		},
	}, Usage: wire.Usage{InputTokens: 1, OutputTokens: 2}},
		`{"type":"assistant","uuid":"u","session_id":"s","parent_tool_use_id":null,"message":{"role":"assistant","content":[
		{"type":"thinking","thinking":""},{"type":"text","text":"<x>"},{"type":"tool_use","id":"t","name":"Read","input":{"a":"<b>"}}],
		"model":"m","stop_reason":"tool_use"},
		"usage":{"input_tokens":1,"output_tokens":2,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}`},
	"tool result": {&wire.ToolResult{Type: "tool_result", ParentToolUseID: new("p"),
		Result: wire.ToolResultDetail{ToolUseID: "t", ToolName: "Read", Output: "x", DurationMs: 3}},
		`{"type":"tool_result","parent_tool_use_id":"p","result":{"tool_use_id":"t","tool_name":"Read","output":"x","is_error":false,"duration_ms":3,"truncated":false}}`},
	"success": {&wire.Result{Type: "result", Subtype: "success", RunID: "r", SessionID: "s", NumTurns: 1, DurationMs: 2,
		Result: new(""), StopReason: "end_turn", PermissionDenials: []wire.PermissionDenial{}},
		`{"type":"result","subtype":"success","runId":"r","session_id":"s","is_error":false,"num_turns":1,"duration_ms":2,
		"usage":{"input_tokens":0,"output_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0},"result":"","stop_reason":"end_turn","permission_denials":[]}`},
	"failure": {&wire.Result{Type: "result", Subtype: "error", RunID: "r", SessionID: "s", IsError: true, ErrorType: "auth",
		Errors: []string{"no"}},
		`{"type":"result","subtype":"error","runId":"r","session_id":"s","is_error":true,"num_turns":0,"duration_ms":0,
		"usage":{"input_tokens":0,"output_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0},"error_type":"auth","errors":["no"]}`},
	"cancelled": {&wire.Cancelled{Type: "cancelled", RunID: "r", Reason: wire.ReasonDisconnect, Usage: wire.Usage{InputTokens: 1, OutputTokens: 2}},
		`{"type":"cancelled","runId":"r","reason":"disconnect",
		"usage":{"input_tokens":1,"output_tokens":2,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}`},
	"fault": {&wire.Fault{Type: "error", Error: "Internal error", ErrorType: "error_during_execution", RunID: "r", Usage: wire.Usage{InputTokens: 1}},
		`{"type":"error","error":"Internal error","errorType":"error_during_execution","runId":"r",
		"usage":{"input_tokens":1,"output_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}`},
	"done":    {&wire.Done{}, `{}`},
	"unknown": {&wire.Unknown{Name: "later", Data: json.RawMessage(`{"a":1}`)}, `{"a":1}`},
}

func TestEventsHaveTheShapesOfTheAPI(t *testing.T) {
	for name, ev := range events {
		t.Run(name, func(t *testing.T) {
			data, err := wire.Event{Payload: ev.payload}.Append([]byte("x"))
			require.NoError(t, err)
			require.Equal(t, byte('x'), data[0], "appended")
			require.JSONEq(t, ev.json, string(data[1:]))
			require.NotContains(t, string(data), "\n", "one data: line")
			require.NotContains(t, string(data), `\u003c`, "text stays readable")

			back, err := wire.DecodeEvent(ev.payload.EventName(), data[1:])
			require.NoError(t, err)
			require.Equal(t, ev.payload, back)
		})
	}
}

func TestABlockWithoutInput(t *testing.T) {
	data, err := json.Marshal(wire.Block{Type: "tool_use", ID: "t", Name: "Read"})
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"tool_use","id":"t","name":"Read","input":{}}`, string(data))
}

func TestDecodeEventOfAnotherVersion(t *testing.T) {
	p, err := wire.DecodeEvent("done", []byte(`{"later":1}`))
	require.NoError(t, err)
	require.Equal(t, &wire.Done{}, p)
	_, err = wire.DecodeEvent("result", []byte(`{"subtype":`))
	require.ErrorContains(t, err, "decode result event")
}

func TestLongTextsAreTruncated(t *testing.T) {
	long := strings.Repeat("é\x01", 600_000) // an escape of six bytes after each two
	for name, p := range map[string]wire.Payload{
		"assistant text": &wire.Assistant{Message: wire.AssistantMessage{Content: []wire.Block{{Type: "text", Text: long},
			{Type: "text", Text: "after"}}}},
		"assistant thinking": &wire.Assistant{Message: wire.AssistantMessage{Content: []wire.Block{{Type: "thinking",
			Thinking: long}}}},
		"assistant input": &wire.Assistant{Message: wire.AssistantMessage{Content: []wire.Block{{Type: "tool_use",
			Input: json.RawMessage(`"` + strings.Repeat("x", 5<<20) + `"`)}}}},
		"result": &wire.Result{Result: &long},
		"errors": &wire.Result{Errors: []string{long, long}},
		"denials": &wire.Result{PermissionDenials: slices.Repeat([]wire.PermissionDenial{{ToolName: "x",
			Reason: strings.Repeat("y", 100)}}, 50_000)},
		"tool result": &wire.ToolResult{Result: wire.ToolResultDetail{Output: long}},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := json.Marshal(p)
			require.NoError(t, err)
			data, err := wire.Event{Payload: p}.Append(nil)
			require.NoError(t, err)
			require.LessOrEqual(t, len(data), runvalue.MaxData)
			require.True(t, utf8.Valid(data))
			require.True(t, json.Valid(data))
			require.Contains(t, string(data), `"truncated":true`)
			after, err := json.Marshal(p)
			require.NoError(t, err)
			require.True(t, bytes.Equal(before, after), "the event itself stays whole")
		})
	}
}

// An event is truncated only if its JSON is longer than MaxData. The bytes of dst do not count.
func TestTheLongestEvents(t *testing.T) {
	result := func(n int) *wire.ToolResult {
		return &wire.ToolResult{Result: wire.ToolResultDetail{Output: strings.Repeat("x", n)}}
	}
	empty, err := wire.Event{Payload: result(0)}.Append(nil)
	require.NoError(t, err)
	most := runvalue.MaxData - len(empty)
	for name, p := range map[string]wire.Payload{"a result": result(most), "unknown": &wire.Unknown{Data: make([]byte, runvalue.MaxData)}} {
		data, err := wire.Event{Payload: p}.Append([]byte("before"))
		require.NoError(t, err, name)
		require.Len(t, data, len("before")+runvalue.MaxData, name)
	}
	data, err := wire.Event{Payload: result(most + 1)}.Append(nil)
	require.NoError(t, err)
	require.Less(t, len(data), runvalue.MaxData)
	_, err = wire.Event{Payload: &wire.Unknown{Data: make([]byte, runvalue.MaxData+1)}}.Append(nil)
	require.Error(t, err)
}

// The texts of an event that is too long share half of MaxData, the first one first.
func TestTextsShareTheRoom(t *testing.T) {
	const room = runvalue.MaxData / 2
	text := func(n int) string { return strings.Repeat("x", n) }
	quoted := func(n int) json.RawMessage { return json.RawMessage(`"` + text(n-2) + `"`) }
	for name, row := range map[string]struct {
		content []wire.Block
		lengths []int // of the text, the thinking and the input together
	}{
		"texts":          {[]wire.Block{{Type: "text", Text: text(room - 7)}, {Type: "thinking", Thinking: text(2)}, {Type: "text", Text: text(5 << 20)}}, []int{room - 7, 2, 5}},
		"thinking first": {[]wire.Block{{Type: "thinking", Thinking: text(room - 7)}, {Type: "text", Text: text(5 << 20)}, {Type: "text", Text: "y"}}, []int{room - 7, 7, 0}},
		"an input":       {[]wire.Block{{Type: "tool_use", Input: quoted(room - 7)}, {Type: "text", Text: text(5 << 20)}}, []int{room - 7, 7}},
		"a longer input": {[]wire.Block{{Type: "tool_use", Input: quoted(room)}, {Type: "text", Text: text(5 << 20)}}, []int{room, 0}},
		"a long input":   {[]wire.Block{{Type: "tool_use", Input: quoted(room + 1)}, {Type: "text", Text: text(5 << 20)}}, []int{len("{}"), room - len("{}")}},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := wire.Event{Payload: &wire.Assistant{Message: wire.AssistantMessage{Content: row.content}}}.Append(nil)
			require.NoError(t, err)
			p, err := wire.DecodeEvent("assistant", data)
			require.NoError(t, err)
			var lengths []int
			for _, b := range p.(*wire.Assistant).Message.Content {
				lengths = append(lengths, len(b.Text)+len(b.Thinking)+len(b.Input))
			}
			require.Equal(t, row.lengths, lengths)
		})
	}
	denials := slices.Repeat([]wire.PermissionDenial{{Reason: text(100)}}, 50_000)
	for name, row := range map[string]struct {
		result                wire.Result
		text, errors, denials int
	}{
		"a text":           {wire.Result{Result: new(text(5 << 20)), Errors: []string{"x"}}, room, 0, 0},
		"errors":           {wire.Result{Result: new(text(7)), Errors: []string{text(5 << 20)}, PermissionDenials: denials[:9]}, 7, room - 7, 0},
		"denials":          {wire.Result{Result: new(""), PermissionDenials: denials}, 0, 0, room >> 10},
		"text and denials": {wire.Result{Result: new(text(room - 3<<10)), PermissionDenials: denials}, room - 3<<10, 0, 3},
		"a denial":         {wire.Result{Result: new(text(7)), Errors: []string{text(room - 3<<10), text(5)}, StopReason: text(2 << 20), PermissionDenials: denials[:2]}, 7, room - 3<<10 + 5, 2},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := wire.Event{Payload: &row.result}.Append(nil)
			require.NoError(t, err)
			p, err := wire.DecodeEvent("result", data)
			require.NoError(t, err)
			got := p.(*wire.Result)
			require.Len(t, *got.Result, row.text)
			require.Len(t, strings.Join(got.Errors, ""), row.errors)
			require.Len(t, got.PermissionDenials, row.denials)
		})
	}
	for output, length := range map[string]int{text(5 << 20): room, strings.Repeat("\x01", 5<<20): room / 4} { // an escape has six bytes
		data, err := wire.Event{Payload: &wire.ToolResult{Result: wire.ToolResultDetail{Output: output}}}.Append(nil)
		require.NoError(t, err)
		p, err := wire.DecodeEvent("tool_result", data)
		require.NoError(t, err)
		require.Len(t, p.(*wire.ToolResult).Result.Output, length)
	}
}

func TestEventsThatCannotBeTruncated(t *testing.T) {
	for name, p := range map[string]wire.Payload{
		"tool of a message": &wire.Assistant{Message: wire.AssistantMessage{Content: []wire.Block{{Type: "tool_use", Name: strings.Repeat("x", 5<<20)}}}},
		"tool name":         &wire.PartialMessage{Partial: wire.Partial{Type: wire.PartialToolUse, ToolName: strings.Repeat("x", 5<<20)}},
		"unknown":           &wire.Unknown{Name: "later", Data: make([]byte, 5<<20)},
	} {
		out, err := wire.Event{Payload: p}.Append([]byte("before"))
		require.ErrorContains(t, err, "longer than an event may be", name)
		require.Equal(t, "before", string(out))
	}
}

func TestStreamMode(t *testing.T) {
	for in, want := range map[string]wire.StreamMode{
		`{}`: "", `{"stream":null}`: "", `{"stream":true}`: wire.StreamRaw, `{"stream":"raw"}`: wire.StreamRaw,
		`{"stream":false}`: wire.StreamOff, `{"stream":"block"}`: wire.StreamBlock,
	} {
		var req wire.RunRequest
		require.NoError(t, json.Unmarshal([]byte(in), &req), in)
		require.Equal(t, want, req.Stream, in)
		out, err := json.Marshal(req)
		require.NoError(t, err)
		var back wire.RunRequest
		require.NoError(t, json.Unmarshal(out, &back))
		require.Equal(t, req, back, in)
	}
	for _, in := range []string{`{"stream":1}`, `{"stream":"off"}`, `{"stream":"true"}`, `{"stream":[]}`} {
		require.ErrorContains(t, json.Unmarshal([]byte(in), new(wire.RunRequest)), "stream must be", in)
	}
}

func FuzzBlockText(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\\x00\n\r\t\x7f", "é漢😀", "\xff\xfe", "\x80", "\u0080", "\xed\xa0\x80", "\u2028"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := wire.Block{Type: wire.PartialText, Text: s}.MarshalJSON()
		require.NoError(t, err)
		require.True(t, utf8.Valid(got))
		var back wire.Block
		require.NoError(t, json.Unmarshal(got, &back))
		require.Equal(t, string([]rune(s)), back.Text, "%q", got)
	})
}

func BenchmarkEventAppend(b *testing.B) {
	token := &wire.PartialMessage{Partial: wire.Partial{Type: wire.PartialText, Text: " token"}}
	b.Run("partial", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			buf, _ = wire.Event{Payload: token}.Append(buf[:0])
		}
	})
	b.Run("partial by encoding json", func(b *testing.B) {
		b.ReportAllocs()
		var v struct {
			Type    string `json:"type"`
			Partial struct {
				Type string `json:"type"`
				Text string `json:"text"`
			} `json:"partial"`
		}
		v.Type, v.Partial.Type, v.Partial.Text = "partial_message", "text", " token"
		for b.Loop() {
			if _, err := json.Marshal(v); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func ExampleEvent_Append() {
	data, _ := wire.Event{Payload: &wire.PartialMessage{Partial: wire.Partial{Type: wire.PartialText, Text: "Hi"}}}.Append(nil)
	fmt.Println(string(data))
	// Output: {"type":"partial_message","partial":{"type":"text","text":"Hi"}}
}

func ExampleDecodeEvent() {
	p, _ := wire.DecodeEvent("cancelled", []byte(`{"type":"cancelled","runId":"4a6f","reason":"disconnect"}`))
	if c, ok := p.(*wire.Cancelled); ok {
		fmt.Println(c.Reason)
	}
	// Output: disconnect
}
