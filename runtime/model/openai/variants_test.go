package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/openai"
)

func delta(fields string) string { return choice(`"index":0,"delta":{` + fields + `}`) }

func toolCalls(calls string) string { return delta(`"tool_calls":[` + calls + `]`) }

// next returns the request that follows a response: its assistant message, and the results of its
// calls.
func next(t *testing.T, base string, response model.Message) map[string]any {
	t.Helper()
	req := hello()
	results := model.Message{Role: model.RoleUser}
	for _, call := range response.ToolUses() {
		results.Content = append(results.Content, model.Block{Type: model.BlockToolResult, ID: call.ID, Text: "ok"})
	}
	// The session stores messages as JSON.
	stored, err := json.Marshal(response)
	require.NoError(t, err)
	var loaded model.Message
	require.NoError(t, json.Unmarshal(stored, &loaded))
	req.Messages = append(req.Messages, loaded, results)
	var body struct {
		Messages []map[string]any `json:"messages"`
	}
	require.NoError(t, json.Unmarshal(sent(t, openai.Config{BaseURL: base}, req), &body))
	return body.Messages[1]
}

const call1 = `{"index":0,"id":"c1","type":"function","function":{"name":"a","arguments":"{}"}}`

// Reasoning is sent back in the field that contained it.
func TestReasoningIsSentBack(t *testing.T) {
	for name, row := range map[string]struct {
		raw  string
		want map[string]any // fields of the assistant message; nil: absent
	}{
		"reasoning_content": {delta(`"content":null,"reasoning_content":"I "`) + delta(`"reasoning_content":"see."`) + toolCalls(call1),
			map[string]any{"reasoning_content": "I see.", "reasoning": nil, "content": nil}},
		"reasoning": {delta(`"reasoning":"I "`) + delta(`"reasoning":"see."`) + delta(`"content":"Hm."`) + toolCalls(call1),
			map[string]any{"reasoning_content": nil, "reasoning": "I see.", "content": "Hm."}},
		"empty reasoning_content": {delta(`"role":"assistant","content":"","reasoning_content":""`) + toolCalls(call1),
			map[string]any{"reasoning_content": "", "reasoning": nil}},
		"empty next to text": {delta(`"reasoning_content":"","content":"Hm."`) + toolCalls(call1),
			map[string]any{"reasoning_content": "", "content": "Hm."}},
		"null": {delta(`"reasoning_content":null,"content":"Hm."`) + toolCalls(call1),
			map[string]any{"reasoning_content": nil, "content": "Hm."}},
		"both names": {delta(`"reasoning":"I see.","reasoning_content":"I see."`) + toolCalls(call1),
			map[string]any{"reasoning_content": "I see.", "reasoning": nil}},
		"both names, one empty": {delta(`"reasoning":"I see.","reasoning_content":""`) + toolCalls(call1),
			map[string]any{"reasoning_content": nil, "reasoning": "I see."}},
		"pieces of content": {delta(`"content":[{"type":"thinking","thinking":[{"type":"text","text":"I see."}]}]`) +
			delta(`"content":[{"type":"text","text":"Hm."}]`) + toolCalls(call1),
			map[string]any{"reasoning_content": nil, "content": []any{
				map[string]any{"type": "thinking", "thinking": []any{map[string]any{"type": "text", "text": "I see."}}},
				map[string]any{"type": "text", "text": "Hm."},
			}}},
		"reasoning_details": {
			delta(`"reasoning":"I ","reasoning_details":[{"type":"reasoning.text","text":"I ","index":0,"format":"x","signature":null}]`) +
				delta(`"reasoning":"see.","reasoning_details":[{"type":"reasoning.text","text":"see.","index":0}]`) +
				delta(`"reasoning_details":[{"type":"reasoning.text","signature":"sig","index":0},{"type":"reasoning.encrypted","data":"e","index":1,"id":"r1"}]`) +
				toolCalls(call1),
			map[string]any{"reasoning": "I see.", "reasoning_details": []any{
				map[string]any{"type": "reasoning.text", "text": "I see.", "index": 0.0, "format": "x", "signature": "sig"},
				map[string]any{"type": "reasoning.encrypted", "data": "e", "index": 1.0, "id": "r1"},
			}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := collected(t, row.raw+finish("tool_calls")+done)
			require.NoError(t, err)
			message := next(t, "http://localhost:1/v1", got.Message)
			for field, want := range row.want {
				require.Equal(t, want, message[field], field)
			}
			vendor := next(t, "", got.Message)
			for _, field := range []string{"reasoning_content", "reasoning", "reasoning_details"} {
				require.NotContains(t, vendor, field, "OpenAI has no such field")
			}
		})
	}
}

// Unknown fields of a tool call are sent back unchanged (Gemini, LiteLLM).
func TestUnknownFieldsOfCallsAreSentBack(t *testing.T) {
	const signature = `"extra_content":{"google":{"thought_signature":"CsQB+/=="}}`
	for name, row := range map[string]struct {
		raw  string
		want string
	}{
		"with the call": {toolCalls(`{"index":0,"id":"c1","type":"function","function":{"name":"a","arguments":"{\"n\":1}"},` + signature + `}`),
			`{"id":"c1","type":"function","function":{"name":"a","arguments":"{\"n\":1}"},` + signature + `}`},
		"after the call": {toolCalls(`{"index":0,"id":"c1","function":{"name":"a","arguments":"{}"}}`) + toolCalls(`{"index":0,`+signature+`}`),
			`{"id":"c1","type":"function","function":{"name":"a","arguments":"{}"},` + signature + `}`},
		"before the name": {toolCalls(`{"index":0,"id":"c1",`+signature+`}`) + toolCalls(`{"index":0,"function":{"name":"a","arguments":"{}"}}`),
			`{"id":"c1","type":"function","function":{"name":"a","arguments":"{}"},` + signature + `}`},
		"in two fragments": {toolCalls(`{"index":0,"id":"c1","x":1,"y":[1],"function":{"name":"a"}}`) + toolCalls(`{"index":0,"x":2,"z":null}`),
			`{"id":"c1","type":"function","function":{"name":"a","arguments":"{}"},"x":2,"y":[1]}`},
		"of the function": {toolCalls(`{"index":0,"id":"c1","function":{"name":"a","arguments":"{}","provider_specific_fields":{"s":"t"}}}`),
			`{"id":"c1","type":"function","function":{"name":"a","arguments":"{}","provider_specific_fields":{"s":"t"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := collected(t, row.raw+finish("tool_calls")+done)
			require.NoError(t, err)
			calls, ok := next(t, "http://localhost:1/v1", got.Message)["tool_calls"].([]any)
			require.True(t, ok)
			require.Len(t, calls, 1)
			body, err := json.Marshal(calls[0])
			require.NoError(t, err)
			require.JSONEq(t, row.want, string(body))

			calls, ok = next(t, "", got.Message)["tool_calls"].([]any)
			require.True(t, ok)
			body, err = json.Marshal(calls[0])
			require.NoError(t, err)
			require.NotContains(t, string(body), "extra_content", "OpenAI rejects unknown fields")
			require.Len(t, calls[0], 3)
		})
	}
}

// Two calls with the same index or id are two calls with different ids.
func TestParallelCallsThatLookAlike(t *testing.T) {
	for name, calls := range map[string][]string{
		"index 0, empty ids": {`{"index":0,"id":"","function":{"name":"a","arguments":"{\"n\":1}"}}`,
			`{"index":0,"id":"","function":{"name":"a","arguments":"{\"n\":2}"}}`},
		"index 0, one id": {`{"index":0,"id":"c","function":{"name":"a","arguments":"{\"n\":1}"}}`,
			`{"index":0,"id":"c","function":{"name":"a","arguments":"{\"n\":2}"}}`},
		"index 0, no id, fragments": {`{"index":0,"function":{"name":"a","arguments":"{\"n\""}}`, `{"index":0,"function":{"arguments":":1}"}}`,
			`{"index":0,"function":{"name":"a","arguments":"{\"n\":"}}`, `{"index":0,"function":{"arguments":"2}"}}`},
		"another name": {`{"index":0,"id":"c","function":{"name":"b","arguments":"{\"n\":1"}}`,
			`{"index":0,"id":"c","function":{"name":"a","arguments":"{\"n\":2}"}}`},
		"two indexes, one id": {`{"index":0,"id":"c","function":{"name":"a","arguments":"{\"n\":1}"}}`,
			`{"index":1,"id":"c","function":{"name":"a","arguments":"{\"n\":2}"}}`},
		"no index, interleaved by id": {`{"id":"c","function":{"name":"a","arguments":"{\"n\":"}}`, `{"id":"d","function":{"name":"a","arguments":"{"}}`,
			`{"id":"c","function":{"arguments":"1}"}}`, `{"id":"d","function":{"arguments":"\"n\":2}"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			var raw string
			for _, c := range calls {
				raw += toolCalls(c)
			}
			got, err := collected(t, raw+finish("stop")+done)
			require.NoError(t, err)
			uses := got.Message.ToolUses()
			require.Len(t, uses, 2)
			require.NotEmpty(t, uses[0].ID)
			require.NotEmpty(t, uses[1].ID)
			require.NotEqual(t, uses[0].ID, uses[1].ID)
			require.JSONEq(t, `{"n":2}`, string(uses[1].Input))
		})
	}
}

// A server that numbers its calls anew in each response repeats ids within the conversation.
func TestIDsOfEarlierCallsAreNotRepeated(t *testing.T) {
	raw := toolCalls(`{"index":0,"id":"call_0","function":{"name":"a","arguments":"{}"}}`) + finish("tool_calls") + done
	req := hello()
	req.Messages = append(req.Messages,
		model.Message{Role: model.RoleAssistant, Content: []model.Block{{Type: model.BlockToolUse, ID: "call_0", Name: "a"}}},
		model.Message{Role: model.RoleUser, Content: []model.Block{{Type: model.BlockToolResult, ID: "call_0", Text: "ok"}}})
	got, err := new(collect.Collector).Collect(inMemory(t, func() io.Reader { return strings.NewReader(raw) }).Stream(t.Context(), req))
	require.NoError(t, err)
	require.Len(t, got.Message.ToolUses(), 1)
	require.NotEqual(t, "call_0", got.Message.ToolUses()[0].ID)
}

// The entries of reasoning_details that belong to a call have its id, also if the call has another
// id than the server sent.
func TestIDsInReasoningDetails(t *testing.T) {
	entry := func(id string, index int) string {
		return fmt.Sprintf(`{"type":"reasoning.encrypted","data":"e%d","id":%q,"index":%d}`, index, id, index)
	}
	raw := delta(`"reasoning":"Hm.","reasoning_details":[`+entry("call_0", 0)+`,`+entry("", 1)+`,`+entry("rs_1", 2)+`]`) +
		toolCalls(`{"index":0,"id":"call_0","function":{"name":"a","arguments":"{}"}}`) +
		delta(`"reasoning_details":[`+entry("call_0", 3)+`,`+entry("call_1", 4)+`]`) +
		toolCalls(`{"index":1,"id":"call_0","function":{"name":"b","arguments":"{}"}}`) +
		toolCalls(`{"index":2,"id":"call_1","function":{"name":"c","arguments":"{}"}}`) + finish("tool_calls") + done
	req := hello()
	req.Messages = append(req.Messages,
		model.Message{Role: model.RoleAssistant, Content: []model.Block{{Type: model.BlockToolUse, ID: "call_0", Name: "a"}}},
		model.Message{Role: model.RoleUser, Content: []model.Block{{Type: model.BlockToolResult, ID: "call_0", Text: "ok"}}})
	got, err := new(collect.Collector).Collect(inMemory(t, func() io.Reader { return strings.NewReader(raw) }).Stream(t.Context(), req))
	require.NoError(t, err)
	calls := got.Message.ToolUses()
	require.Len(t, calls, 3)
	require.Equal(t, "call_1", calls[2].ID)
	var ids []string
	for _, e := range next(t, "http://localhost:1/v1", got.Message)["reasoning_details"].([]any) {
		ids = append(ids, e.(map[string]any)["id"].(string))
	}
	require.Equal(t, []string{calls[0].ID, "", "rs_1", calls[1].ID, "call_1"}, ids)
}

// A character that a server splits between two chunks arrives as one.
func TestSplitCharacters(t *testing.T) {
	text := func(fields ...string) string {
		var raw string
		for _, f := range fields {
			raw += delta(f)
		}
		return raw
	}
	for name, row := range map[string]struct{ raw, want string }{
		"surrogates":           {text(`"content":"a\ud83d"`, `"content":"\ude00b"`), "a😀b"},
		"surrogates by part":   {text(`"content":"\ud83d"`, `"content":"\ude00"`), "😀"},
		"UTF-8 by two":         {text("\"content\":\"a\xf0\x9f\"", "\"content\":\"\x98\x80b\""), "a😀b"},
		"UTF-8 by one":         {text("\"content\":\"\xf0\"", "\"content\":\"\x9f\"", "\"content\":\"\x98\"", "\"content\":\"\x80\""), "😀"},
		"a lone half":          {text(`"content":"a\ud83d"`, `"content":"b"`), "a\ufffdb"},
		"a lone half at last":  {text(`"content":"a\ud83d"`), "a\ufffd"},
		"a lone second half":   {text(`"content":"\ude00b"`), "\ufffdb"},
		"halves with usage":    {text(`"content":"\ud83d"`) + `data: {"choices":[],"usage":{"prompt_tokens":1}}` + "\n\n" + text(`"content":"\ude00"`), "😀"},
		"U+FFFD as it is":      {text(`"content":"a\ufffdb"`), "a\ufffdb"},
		"pair within a chunk":  {text(`"content":"\ud83d\ude00"`), "😀"},
		"halves of two blocks": {text(`"reasoning_content":"\ud83d"`, `"content":"\ude00"`), "\ufffd"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := collected(t, row.raw+finish("stop")+done)
			require.NoError(t, err)
			require.Equal(t, row.want, got.Message.Text())
		})
	}
	t.Run("in the input of a tool", func(t *testing.T) {
		got, err := collected(t, toolCalls(`{"index":0,"id":"c","function":{"name":"a","arguments":"{\"s\":\"\ud83d"}}`)+
			toolCalls(`{"index":0,"function":{"arguments":"\ude00\"}"}}`)+finish("tool_calls")+done)
		require.NoError(t, err)
		require.JSONEq(t, `{"s":"😀"}`, string(got.Message.ToolUses()[0].Input))
	})
	t.Run("in an escape of the input", func(t *testing.T) {
		got, err := collected(t, toolCalls(`{"index":0,"id":"c","function":{"name":"a","arguments":"{\"s\":\"\\ud83d"}}`)+
			toolCalls(`{"index":0,"function":{"arguments":"\\ude00\"}"}}`)+finish("tool_calls")+done)
		require.NoError(t, err)
		require.JSONEq(t, `{"s":"😀"}`, string(got.Message.ToolUses()[0].Input))
	})
}

func TestOlderAndOtherForms(t *testing.T) {
	text := []model.Block{{Type: model.BlockText, Text: "Hi."}}
	for name, row := range map[string]struct {
		raw  string
		want []model.Block
		stop string
	}{
		"message instead of delta": {choice(`"index":0,"message":{"role":"assistant","content":"Hi."},"finish_reason":"stop"`) + done, text, model.StopEndTurn},
		"message with calls": {choice(`"message":{"content":null,"tool_calls":[`+call1+`]},"finish_reason":"tool_calls"`) + done,
			[]model.Block{{Type: model.BlockToolUse, ID: "c1", Name: "a", Input: []byte(`{}`)}}, model.StopToolUse},
		"an empty call with every chunk": {delta(`"content":"Hi.","tool_calls":[{"index":0,"id":"","type":"function","function":{"name":"","arguments":""}}]`) +
			toolCalls(`{}`) + toolCalls(`{"id":null,"function":{"name":null,"arguments":null}}`) + finish("stop") + done, text, model.StopEndTurn},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := collected(t, row.raw)
			require.NoError(t, err)
			require.Equal(t, row.want, got.Message.Content)
			require.Equal(t, row.stop, got.StopReason)
		})
	}
	t.Run("function_call", func(t *testing.T) {
		got, err := collected(t, delta(`"function_call":{"name":"a","arguments":""}`)+delta(`"function_call":{"arguments":"{\"n\":"}`)+
			delta(`"function_call":{"arguments":"1}"}`)+finish("function_call")+done)
		require.NoError(t, err)
		require.Len(t, got.Message.ToolUses(), 1)
		require.JSONEq(t, `{"n":1}`, string(got.Message.ToolUses()[0].Input))
	})
	t.Run("neither delta nor message", func(t *testing.T) {
		_, err := collected(t, choice(`"text":"Hi.","finish_reason":"stop"`)+done)
		var coded *model.Error
		require.ErrorAs(t, err, &coded)
		require.Contains(t, coded.Message, "neither delta nor message")
	})
}

// Usage in another form does not fail a run.
func TestUsageInOtherForms(t *testing.T) {
	for name, row := range map[string]struct {
		fields string
		want   model.Usage
	}{
		"fractions":     {`"usage":{"prompt_tokens":10.0,"completion_tokens":2.0}`, model.Usage{InputTokens: 10, OutputTokens: 2}},
		"texts":         {`"usage":{"prompt_tokens":"x","completion_tokens":"7"}`, model.Usage{OutputTokens: 7}},
		"negative":      {`"usage":{"prompt_tokens":3,"completion_tokens":-1}`, model.Usage{InputTokens: 3}},
		"null":          {`"usage":null`, model.Usage{}},
		"a text":        {`"usage":"none"`, model.Usage{}},
		"a list":        {`"usage":[1]`, model.Usage{}},
		"a number":      {`"usage":1.5`, model.Usage{}},
		"odd details":   {`"usage":{"prompt_tokens_details":"none","completion_tokens":2,"prompt_tokens":1}`, model.Usage{InputTokens: 1, OutputTokens: 2}},
		"null details":  {`"usage":{"prompt_tokens":1,"prompt_tokens_details":null,"completion_tokens_details":null}`, model.Usage{InputTokens: 1}},
		"OpenAI":        {`"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}`, model.Usage{InputTokens: 6, OutputTokens: 2, CacheReadInputTokens: 4}},
		"DeepSeek":      {`"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":6}`, model.Usage{InputTokens: 6, OutputTokens: 2, CacheReadInputTokens: 4}},
		"Kimi":          {`"usage":{"prompt_tokens":10,"completion_tokens":2,"cached_tokens":4}`, model.Usage{InputTokens: 6, OutputTokens: 2, CacheReadInputTokens: 4}},
		"Groq":          {`"x_groq":{"id":"req_1","usage":{"queue_time":0.01,"prompt_tokens":10,"prompt_time":0.002,"completion_tokens":2,"total_tokens":12}}`, model.Usage{InputTokens: 10, OutputTokens: 2}},
		"Groq, both":    {`"usage":{"prompt_tokens":10,"completion_tokens":2},"x_groq":{"usage":{"prompt_tokens":10,"completion_tokens":2}}`, model.Usage{InputTokens: 10, OutputTokens: 2}},
		"Groq, without": {`"x_groq":{"id":"req_1"}`, model.Usage{}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, raw := range []string{
				delta(`"content":"Hi."`) + finish("stop") + `data: {"choices":[],` + row.fields + "}\n\n" + done,
				delta(`"content":"Hi."`) + `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],` + row.fields + "}\n\n" + done,
			} {
				got, err := collected(t, raw)
				require.NoError(t, err)
				require.Equal(t, "Hi.", got.Message.Text())
				require.Equal(t, row.want, got.Usage)
			}
		})
	}
}

// Totals that came before the last content are not those of the response: they are an estimate.
func TestTotalsOfTheBeginning(t *testing.T) {
	totals := func(output string) string {
		return `data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":` + output + "}}\n\n"
	}
	for name, row := range map[string]struct {
		raw  string
		want model.Usage
	}{
		"then a text":      {totals("1") + delta(`"content":"Hi."`) + finish("stop") + done, model.Usage{InputTokens: 10, OutputTokens: 1, Estimated: true}},
		"then thinking":    {delta(`"reasoning":"a"`) + totals("1") + delta(`"reasoning":"b"`) + finish("stop") + done, model.Usage{InputTokens: 10, OutputTokens: 1, Estimated: true}},
		"then a tool call": {totals("1") + delta(`"tool_calls":[{"index":0,"id":"1","function":{"name":"a","arguments":"{}"}}]`) + finish("tool_calls") + done, model.Usage{InputTokens: 10, OutputTokens: 1, Estimated: true}},
		"then nothing":     {delta(`"content":"Hi."`) + totals("2") + finish("stop") + done, model.Usage{InputTokens: 10, OutputTokens: 2}},
		"then no text":     {delta(`"content":"Hi."`) + totals("2") + delta(`"content":""`) + finish("stop") + done, model.Usage{InputTokens: 10, OutputTokens: 2}},
		"and at the end":   {totals("1") + delta(`"content":"Hi."`) + finish("stop") + totals("2") + done, model.Usage{InputTokens: 10, OutputTokens: 2}},
		"the same again":   {totals("1") + delta(`"content":"Hi."`) + finish("stop") + totals("1") + done, model.Usage{InputTokens: 10, OutputTokens: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := collected(t, row.raw)
			require.NoError(t, err)
			require.Equal(t, row.want, got.Usage)
		})
	}
}

// Errors in the middle of a stream keep their cause, whatever their form.
func TestErrorsInTheStream(t *testing.T) {
	for name, row := range map[string]struct {
		raw     string
		code    model.Code
		message string
	}{
		"vLLM": {`data: {"error":{"message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","param":null,"code":400}}` + "\n\n",
			model.Code(runvalue.ErrorTypePromptTooLong), "This model's maximum context length is 4096 tokens."},
		"older vLLM": {`data: {"object":"error","message":"Internal server error","type":"InternalServerError","param":null,"code":500}` + "\n\n",
			model.Code(runvalue.ErrorTypeServer), "Internal server error"},
		"MiniMax": {`data: {"id":"x","choices":null,"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}` + "\n\n",
			model.Code(runvalue.ErrorTypeRateLimit), "insufficient balance"},
		"MiniMax, success": {`data: {"choices":[],"base_resp":{"status_code":0,"status_msg":""}}` + "\n\n",
			model.Code(runvalue.ErrorTypeConnection), "upstream ended its response before it was complete"},
		"llama.cpp": {"error: {\"code\":500,\"message\":\"context shift is disabled\",\"type\":\"server_error\"}\n\n",
			model.Code(runvalue.ErrorTypeServer), "context shift is disabled"},
		"DeepInfra":                  {`data: {"error_message":"Inference failed","error_type":"server_error"}` + "\n\n", model.Code(runvalue.ErrorTypeServer), "Inference failed"},
		"event error without a type": {"event: error\ndata: {\"message\":\"no more capacity\"}\n\n", model.Code(runvalue.ErrorTypeUnknown), "no more capacity"},
		"Groq":                       {`data: {"choices":[],"x_groq":{"id":"req_1","error":"over capacity"}}` + "\n\n", model.Code(runvalue.ErrorTypeServer), "over capacity"},
		"event error as text":        {"event: error\ndata: no more capacity\n\n", model.Code(runvalue.ErrorTypeUnknown), "no more capacity"},
		"OpenRouter": {`data: {"id":"gen-1","choices":[{"delta":{"content":""},"finish_reason":"error"}],"error":{"code":429,"message":"Provider returned error",` +
			`"metadata":{"raw":"{\"error\":{\"message\":\"slow down\"}}","provider_name":"X"}}}` + "\n\n",
			model.Code(runvalue.ErrorTypeRateLimit), "Provider returned error: slow down"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := collected(t, delta(`"content":"a"`)+row.raw)
			var coded *model.Error
			require.ErrorAs(t, err, &coded)
			require.Equal(t, row.code, coded.Code, coded.Message)
			require.Equal(t, row.message, coded.Message)
			require.Equal(t, "a", got.Message.Text())
		})
	}
}

// Fragments without end take time in proportion to their size, up to a limit.
func TestReasoningDetailsInManyFragments(t *testing.T) {
	fragment := delta(`"reasoning_details":[{"type":"reasoning.text","text":"` + strings.Repeat("x", 50) + `","index":0}]`)
	began := time.Now()
	got, err := collected(t, strings.Repeat(fragment, 50_000)+toolCalls(`{"index":0,"id":"c1","function":{"name":"a","arguments":"{}"}}`)+
		finish("tool_calls")+done)
	require.NoError(t, err)
	require.Less(t, time.Since(began), time.Minute)
	details, ok := next(t, "http://localhost:1/v1", got.Message)["reasoning_details"].([]any)
	require.True(t, ok)
	require.Equal(t, []any{map[string]any{"type": "reasoning.text", "text": strings.Repeat("x", 50*50_000), "index": 0.0}}, details)
	_, err = collected(t, strings.Repeat(fragment, 100_000)+finish("stop")+done)
	require.ErrorContains(t, err, "too many reasoning details")
}
