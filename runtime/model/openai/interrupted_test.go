package openai_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/model"
)

// A finish reason of a response that failed is an error, in any spelling, also that of the server
// behind a gateway.
func TestInterruptedResponses(t *testing.T) {
	for _, reason := range []string{"network_error", "insufficient_system_resource", "MALFORMED_FUNCTION_CALL", "malformed_function_call",
		"MalformedFunctionCall", "function_call_filter: MALFORMED_FUNCTION_CALL", "ERROR", "model_error", "abort", "UNEXPECTED_TOOL_CALL",
		"error_finish", "cancelled", "Canceled", "timeout", "TIMED_OUT", "engine_overloaded", "interrupted", "MISSING_THOUGHT_SIGNATURE"} {
		for field, raw := range map[string]string{
			"finish_reason":                             finish(reason),
			"native_finish_reason":                      choice(`"delta":{},"finish_reason":"stop","native_finish_reason":"` + reason + `"`),
			"native_finish_reason without the other":    choice(`"delta":{"content":"b"},"finish_reason":null,"native_finish_reason":"` + reason + `"`),
			"finish_reason after a call":                toolCalls(call1) + finish(reason),
			"native_finish_reason of a list and a text": choice(`"message":{"content":"b"},"finish_reason":"tool_calls","native_finish_reason":"` + reason + `"`),
		} {
			_, err := collected(t, delta(`"content":"a"`)+raw+done)
			var coded *model.Error
			require.ErrorAs(t, err, &coded, "%s %s", field, reason)
			require.Equal(t, model.Code(runvalue.ErrorTypeServer), coded.Code)
			require.Equal(t, "upstream interrupted its response: "+reason, coded.Message)
		}
	}
	for _, native := range []string{`"STOP"`, `"end_turn"`, `"completed"`, `null`, `1`, `{}`} {
		got, err := collected(t, delta(`"content":"a"`)+choice(`"delta":{},"finish_reason":"stop","native_finish_reason":`+native)+done)
		require.NoError(t, err)
		require.Equal(t, model.StopEndTurn, got.StopReason)
	}
}

// The reasons of Gemini, which gateways pass on, and of its compatible API, which adds them to the
// kind.
func TestRefusals(t *testing.T) {
	for _, reason := range []string{"content_filter", "content_filter: RECITATION", "SAFETY", "RECITATION", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII"} {
		got, err := collected(t, delta(`"content":"a"`)+finish(reason)+done)
		require.NoError(t, err, reason)
		require.Equal(t, model.StopRefusal, got.StopReason, reason)
	}
}

// Perplexity sends everything so far as a message next to each delta, MiniMax without a delta at
// the end. Another server may send a message only at the end.
func TestMessagesNextToDeltas(t *testing.T) {
	both := func(delta, message, finish string) string {
		return choice(`"delta":` + delta + `,"message":{"role":"assistant","content":"` + message + `"},"finish_reason":` + finish)
	}
	for name, raw := range map[string]string{
		"next to each delta": both(`{"role":"assistant","content":""}`, "", "null") + both(`{"content":"Good "}`, "Good ", "null") +
			both(`{"content":"morning."}`, "Good morning.", "null") + both(`{"content":""}`, "Good morning.", `"stop"`),
		"next to the last delta": delta(`"content":"Good "`) + both(`{"content":"morning."}`, "Good morning.", `"stop"`),
		"only at the end":        delta(`"role":"assistant"`) + both(`{}`, "Good morning.", `"stop"`),
		"without a delta": delta(`"role":"","content":"Good "`) + delta(`"content":"morning."`) +
			choice(`"message":{"role":"assistant","content":"Good morning."},"finish_reason":"stop"`),
		"after a message":                 choice(`"message":{"role":"assistant","content":"Good morning."}`) + both("{}", "Good morning.", `"stop"`),
		"after thinking":                  delta(`"reasoning_content":"Hm."`) + both(`{}`, "Good morning.", `"stop"`),
		"after thinking, without a delta": delta(`"reasoning":"Hm."`) + choice(`"message":{"content":"Good morning.","reasoning":"Hm."},"finish_reason":"stop"`),
		"next to thinking":                both(`{"reasoning_content":"Hm."}`, "Good morning.", `"stop"`),
		"messages only":                   choice(`"message":{"content":"Good "}`) + choice(`"message":{"content":"morning."},"finish_reason":"stop"`),
		"next to null":                    delta(`"content":"Good "`) + delta(`"content":"morning."`) + both("null", "Good morning.", `"stop"`),
	} {
		got, err := collected(t, raw+done)
		require.NoError(t, err, name)
		require.Equal(t, "Good morning.", got.Message.Text(), name)
		if strings.Contains(raw, "Hm.") {
			require.Equal(t, "Hm.", got.Message.Content[0].Text, name)
		}
	}
	got, err := collected(t, toolCalls(call1)+choice(`"message":{"content":"","tool_calls":[`+call1+`]},"finish_reason":"tool_calls"`)+done)
	require.NoError(t, err)
	require.Len(t, got.Message.ToolUses(), 1, "a repeated call is not a second one")
}

// Some servers write every number with a fraction, and PHP an empty object as a list.
func TestNumbersAndEmptyErrors(t *testing.T) {
	raw := choice(`"index":0.0,"delta":{"content":"a"}`) + `data: {"choices":[{"index":0,"delta":{"content":"b"}}],"error":[]}` + "\n\n" +
		`data: {"choices":[{"index":0,"delta":{"content":"c"}}],"error":0}` + "\n\n" +
		toolCalls(`{"index":0.0,"id":"c1","function":{"name":"a","arguments":"{\"n\":"}}`) +
		toolCalls(`{"index":1.0,"id":"c2","function":{"name":"a","arguments":"{}"}}`) + toolCalls(`{"index":0.0,"function":{"arguments":"1}"}}`)
	got, err := collected(t, raw+finish("tool_calls")+done)
	require.NoError(t, err)
	require.Equal(t, "abc", got.Message.Text())
	require.Len(t, got.Message.ToolUses(), 2)
	require.JSONEq(t, `{"n":1}`, string(got.Message.ToolUses()[0].Input))
}

// Thinking in an object or a list (Envoy in front of Bedrock).
func TestThinkingInObjects(t *testing.T) {
	got, err := collected(t, delta(`"reasoning_content":{"text":"I "}`)+delta(`"reasoning_content":{"signature":"s"}`)+
		delta(`"reasoning_content":[{"text":"se"},{"text":"e."}]`)+delta(`"content":"Yes."`)+finish("stop")+done)
	require.NoError(t, err)
	require.Equal(t, []model.Block{{Type: model.BlockThinking, Text: "I see.", Field: "reasoning_content"}, {Type: model.BlockText, Text: "Yes."}}, got.Message.Content)
}
