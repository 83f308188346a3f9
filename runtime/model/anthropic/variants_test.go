package anthropic_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/anthropic"
)

func event(data string) string { return "data: " + data + "\n\n" }

func textIncrement(text string) string {
	return event(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + text + `"}}`)
}

const stopped = "data: {\"type\":\"message_stop\"}\n\n"

// Compatible servers that do not sign their thinking require it to be sent back. Anthropic and
// other servers that sign reject thinking without a signature, which is incomplete.
func TestThinkingWithoutSignature(t *testing.T) {
	unsigned := model.Block{Type: model.BlockThinking, Text: "I see."}
	signed := model.Block{Type: model.BlockThinking, Text: "I knew.", Signature: "c2ln"}
	response := model.Block{Type: model.BlockText, Text: "Hm."}
	for name, row := range map[string]struct {
		base    string
		earlier []model.Block
		want    bool
	}{
		"compatible server":               {"https://api.deepseek.com/anthropic", nil, true},
		"local server":                    {"http://127.0.0.1:1", nil, true},
		"Anthropic":                       {"", nil, false},
		"Anthropic, named":                {"https://api.anthropic.com", nil, false},
		"gateway that signs":              {"https://gateway.example.com", []model.Block{signed, response}, false},
		"gateway that encrypts":           {"https://gateway.example.com", []model.Block{{Type: model.BlockRedacted, Data: "eA=="}, response}, false},
		"a host that looks alike":         {"https://anthropic.com.example.com", nil, true},
		"another response without it too": {"http://127.0.0.1:1", []model.Block{response}, true},
	} {
		t.Run(name, func(t *testing.T) {
			req := hello()
			for _, content := range [][]model.Block{row.earlier, {unsigned, response}} {
				if content != nil {
					req.Messages = append(req.Messages, model.Message{Role: model.RoleAssistant, Content: content}, model.UserText("And?"))
				}
			}
			body := string(sent(t, anthropic.Config{BaseURL: row.base}, req))
			if row.want {
				require.Contains(t, body, `{"type":"thinking","thinking":"I see.","signature":""}`)
				return
			}
			require.NotContains(t, body, "I see.")
		})
	}
}

// A server that does not stream token by token sends its response with the start of the message.
func TestContentOfTheStart(t *testing.T) {
	start := func(content string) string {
		return event(`{"type":"message_start","message":{"content":` + content + `,"stop_reason":"max_tokens","usage":{"input_tokens":3}}}`)
	}
	text := []model.Block{{Type: model.BlockText, Text: "Hi."}}
	for name, row := range map[string]struct {
		raw  string
		want []model.Block
	}{
		"a text":                {start(`"Hi."`), text},
		"blocks":                {start(`[{"type":"text","text":"Hi."}]`), text},
		"blocks of other types": {start(`[{"type":"later"},{"type":"text","text":"Hi."},1]`), text},
		"with the input of a call": {start(`[{"type":"thinking","thinking":"Hm.","signature":"s"},{"type":"tool_use","id":"t1","name":"Read","input":{"a":1}}]`),
			[]model.Block{{Type: model.BlockThinking, Text: "Hm.", Signature: "s"}, {Type: model.BlockToolUse, ID: "t1", Name: "Read", Input: json.RawMessage(`{"a":1}`)}}},
		"before increments": {start(`[{"type":"text","text":"H"}]`) + textIncrement("i."), text},
		"before blocks":     {start(`[]`) + event(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`) + textIncrement("Hi."), text},
		"null":              {start(`null`) + textIncrement("Hi."), text},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := collected(t, row.raw+stopped)
			require.NoError(t, err)
			require.Equal(t, row.want, got.Message.Content)
			require.Equal(t, model.StopMaxTokens, got.StopReason)
			require.EqualValues(t, 3, got.Usage.InputTokens)
		})
	}
}

func TestSplitCharacters(t *testing.T) {
	for name, row := range map[string]struct{ raw, want string }{
		"surrogates":       {textIncrement(`a\ud83d`) + textIncrement(`\ude00b`), "a😀b"},
		"UTF-8":            {textIncrement("\xf0\x9f") + textIncrement("\x98\x80"), "😀"},
		"a lone half":      {textIncrement(`a\ud83d`) + event(`{"type":"content_block_stop","index":0}`), "a\ufffd"},
		"half at the end":  {textIncrement(`a\ud83d`), "a\ufffd"},
		"split by a ping":  {textIncrement(`\ud83d`) + event(`{"type":"ping"}`) + textIncrement(`\ude00`), "😀"},
		"U+FFFD as it is":  {textIncrement(`a\ufffdb`), "a\ufffdb"},
		"empty data lines": {"data:\n\n" + textIncrement("a") + "data: \n\n", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := collected(t, row.raw+stopped)
			require.NoError(t, err)
			require.Equal(t, row.want, got.Message.Text())
		})
	}
}

func TestUsageInOtherForms(t *testing.T) {
	for name, row := range map[string]struct {
		start, end string
		want       model.Usage
	}{
		"fractions": {`{"input_tokens":10.0,"output_tokens":1}`, `{"output_tokens":2.0}`, model.Usage{InputTokens: 10, OutputTokens: 2}},
		"texts":     {`{"input_tokens":"x","output_tokens":"7"}`, `{"output_tokens":{}}`, model.Usage{OutputTokens: 7, Estimated: true}},
		"null":      {`null`, `null`, model.Usage{}},
		"a list":    {`[]`, `"none"`, model.Usage{}},
		"nested":    {`{"input_tokens":1,"cache_creation":{"ephemeral_5m_input_tokens":0.5}}`, `{"output_tokens":2}`, model.Usage{InputTokens: 1, OutputTokens: 2, CacheCreationInputTokens: 1}},
		"only nested": {`{"input_tokens":1,"cache_creation":{"ephemeral_5m_input_tokens":3,"ephemeral_1h_input_tokens":4},"cache_creation_input_tokens":0}`,
			`{"output_tokens":2}`, model.Usage{InputTokens: 1, OutputTokens: 2, CacheCreationInputTokens: 7}},
		"nested too": {`{"cache_creation":{"ephemeral_5m_input_tokens":3,"ephemeral_1h_input_tokens":4},"cache_creation_input_tokens":7}`,
			`{"output_tokens":2}`, model.Usage{OutputTokens: 2, CacheCreationInputTokens: 7}},
		"thinking as a part": {`null`, `{"output_tokens":200,"output_tokens_details":{"thinking_tokens":160}}`,
			model.Usage{OutputTokens: 200, ReasoningTokens: 160}},
		"thinking counted separately": {`null`, `{"output_tokens":40,"output_tokens_details":{"reasoning_tokens":160}}`,
			model.Usage{OutputTokens: 200, ReasoningTokens: 160}},
		"only at the start": {`{"input_tokens":10,"output_tokens":1}`, `null`, model.Usage{InputTokens: 10, OutputTokens: 1, Estimated: true}},
		"negative":          {`{"input_tokens":-10,"output_tokens":1}`, `{"output_tokens":-2}`, model.Usage{OutputTokens: 1, Estimated: true}},
		"huge": {`{"input_tokens":9223372036854775807,"cache_read_input_tokens":1e400}`, `{"output_tokens":1e300}`,
			model.Usage{InputTokens: 1 << 40, CacheReadInputTokens: 1 << 40, OutputTokens: 1 << 40}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := collected(t, event(`{"type":"message_start","message":{"usage":`+row.start+`}}`)+textIncrement("a")+
				event(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":`+row.end+`}`)+stopped)
			require.NoError(t, err)
			require.Equal(t, row.want, got.Usage)
		})
	}
}

func TestRepeatedCallIDsBecomeDistinct(t *testing.T) {
	start := func(index string) string {
		return event(`{"type":"content_block_start","index":`+index+`,"content_block":{"type":"tool_use","id":"call_0","name":"a","input":{}}}`) +
			event(`{"type":"content_block_stop","index":`+index+`}`)
	}
	got, err := collected(t, start("0")+start("1")+event(`{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`)+stopped)
	require.NoError(t, err)
	calls := got.Message.ToolUses()
	require.Len(t, calls, 2)
	require.NotEqual(t, calls[0].ID, calls[1].ID)
}

// Some servers send the input of a call with its start, as an object or as a string, and do not end
// the block.
func TestInputWithTheStartOfACall(t *testing.T) {
	start := func(input string) string {
		return event(`{"type":"content_block_start","index":0.0,"content_block":{"type":"tool_use","id":"c","name":"a","input":` + input + `}}`)
	}
	end := event(`{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`) + stopped
	for name, raw := range map[string]string{
		"no end of the block":     start(`{"n":1}`) + end,
		"the next block":          start(`{"n":1}`) + event(`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`) + end,
		"a string":                start(`"{\"n\":1}"`) + event(`{"type":"content_block_stop","index":0.0}`) + end,
		"a string, no end":        start(`"{\"n\":1}"`) + end,
		"an empty string, deltas": start(`""`) + event(`{"type":"content_block_delta","index":"0","delta":{"type":"input_json_delta","partial_json":"{\"n\":1}"}}`) + end,
		"null, deltas":            start(`null`) + event(`{"type":"content_block_delta","index":0.0,"delta":{"type":"input_json_delta","partial_json":"{\"n\":1}"}}`) + end,
	} {
		got, err := collected(t, raw)
		require.NoError(t, err, name)
		require.Len(t, got.Message.ToolUses(), 1, name)
		require.JSONEq(t, `{"n":1}`, string(got.Message.ToolUses()[0].Input), name)
	}
	// An empty input is one without properties, before deltas, which may follow another block, and
	// without them.
	next := event(`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"x"}}`)
	delta := event(`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"n\":1}"}}`)
	for _, empty := range []string{`{}`, `{ }`, `[]`, `[ ]`, `""`, `"{}"`, `"{ }"`, `"[]"`, `null`, `"null"`} {
		for raw, want := range map[string]string{
			start(empty) + end: `{}`, start(empty) + next + end: `{}`, start(empty) + delta + end: `{"n":1}`, start(empty) + next + delta + end: `{"n":1}`,
		} {
			got, err := collected(t, raw)
			require.NoError(t, err, raw)
			require.Len(t, got.Message.ToolUses(), 1, raw)
			require.Empty(t, got.Message.ToolUses()[0].BadInput, raw)
			require.JSONEq(t, want, string(got.Message.ToolUses()[0].Input), raw)
		}
	}
}

// Some servers send every block with index 0.
func TestBlocksThatShareAnIndex(t *testing.T) {
	call := func(name, input string) string {
		return event(`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c","name":"`+name+`","input":{}}}`) +
			event(`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"`+input+`"}}`) +
			event(`{"type":"content_block_stop","index":0}`)
	}
	whole := event(`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"d","name":"e","input":{"n":3}}}`) +
		event(`{"type":"content_block_stop","index":0}`)
	both := strings.Replace(call("f", `{\"n\":4}`), `"input":{}`, `"input":{"n":4}`, 1)
	got, err := collected(t, textIncrement("a")+call("b", `{\"n\":1}`)+call("c", `{\"n\":2}`)+whole+both+stopped)
	require.NoError(t, err)
	require.Equal(t, "a", got.Message.Text())
	var inputs []string
	for _, c := range got.Message.ToolUses() {
		inputs = append(inputs, c.Name+string(c.Input))
	}
	require.Equal(t, []string{`b{"n":1}`, `c{"n":2}`, `e{"n":3}`, `f{"n":4}`}, inputs)
}

func TestDamagedCalls(t *testing.T) {
	input := event(`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}}`)
	for name, row := range map[string]struct{ raw, message string }{
		"no name":  {event(`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c","input":{}}}`), "upstream sent a tool call without a name"},
		"no start": {textIncrement("a") + input, "upstream sent the input of a tool call that it did not start"},
		"no call":  {event(`{"type":"content_block_start","index":1,"content_block":{"type":"text"}}`) + input, "upstream sent the input of a tool call that it did not start"},
		"a tool of the server": {event(`{"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use","id":"c","name":"web_search"}}`) +
			input + textIncrement("a"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := collected(t, row.raw+stopped)
			if row.message == "" {
				require.NoError(t, err)
				return
			}
			var coded *model.Error
			require.ErrorAs(t, err, &coded)
			require.Equal(t, row.message, coded.Message)
		})
	}
}

func TestErrorsInTheStream(t *testing.T) {
	for name, row := range map[string]struct {
		raw     string
		code    model.Code
		message string
	}{
		"without a type": {"event: error\ndata: {\"error\":{\"message\":\"no more capacity\",\"type\":\"overloaded_error\"}}\n\n",
			model.Code(runvalue.ErrorTypeOverloaded), "no more capacity"},
		"as text":         {"event: error\ndata: no more capacity\n\n", model.Code(runvalue.ErrorTypeUnknown), "no more capacity"},
		"as OpenAI sends": {event(`{"error":{"message":"boom","type":"server_error","code":500}}`), model.Code(runvalue.ErrorTypeServer), "boom"},
		"a stop reason":   {event(`{"type":"message_delta","delta":{"stop_reason":"network_error"}}`) + stopped, model.Code(runvalue.ErrorTypeServer), "upstream interrupted its response: network_error"},
		"DeepInfra":       {event(`{"error_message":"Inference failed","error_type":"server_error"}`), model.Code(runvalue.ErrorTypeServer), "Inference failed"},
		"llama.cpp":       {"error: {\"code\":500,\"message\":\"boom\",\"type\":\"server_error\"}\n\n", model.Code(runvalue.ErrorTypeServer), "boom"},
		"MiniMax": {event(`{"type":"error","base_resp":{"status_code":1004,"status_msg":"login fail"}}`),
			model.Code(runvalue.ErrorTypeAuth), "upstream did not accept the API key"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := collected(t, textIncrement("a")+row.raw)
			var coded *model.Error
			require.ErrorAs(t, err, &coded)
			require.Equal(t, row.code, coded.Code, coded.Message)
			require.Equal(t, row.message, coded.Message)
		})
	}
}

func TestAdaptiveThinking(t *testing.T) {
	req := hello()
	req.Thinking = model.Thinking{Adaptive: true, Effort: "medium", BudgetTokens: 9}
	var body map[string]any
	require.NoError(t, json.Unmarshal(sent(t, anthropic.Config{}, req), &body))
	require.Equal(t, map[string]any{"type": "adaptive"}, body["thinking"])
	require.Equal(t, map[string]any{"effort": "medium"}, body["output_config"])
}
