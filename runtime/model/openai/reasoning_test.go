package openai_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/openai"
)

// DeepSeek and Kimi reject assistant messages without reasoning_content, also those of another
// model and those that the adapter adds. Kimi treats an empty text as missing. Other servers reject
// the field.
func TestMessagesWithoutReasoningWhereItIsRequired(t *testing.T) {
	thought := func(field, text string) model.Block {
		return model.Block{Type: model.BlockThinking, Field: field, Text: text}
	}
	for name, row := range map[string]struct {
		base, model string
		thought     model.Block
		want        []any // reasoning_content of the assistant messages
	}{
		"DeepSeek":                {"https://api.deepseek.com", "m", thought("reasoning_content", "Hm."), []any{"Hm.", " ", " "}},
		"Kimi":                    {"https://api.moonshot.cn/v1", "m", thought("reasoning_content", ""), []any{" ", " ", " "}},
		"Kimi for coding":         {"https://api.kimi.com/coding/v1", "m", thought("", "of another wire"), []any{" ", " ", " "}},
		"gateway to Kimi":         {"https://gateway.example.com/v1", "Pro/moonshotai/Kimi-K2.6", thought("reasoning_content", ""), []any{" ", " ", " "}},
		"gateway to DeepSeek":     {"https://gateway.example.com/v1", "deepseek-v4-pro", thought("reasoning_content", "Hm."), []any{"Hm.", " ", " "}},
		"strict server of Kimi":   {"https://api.groq.com/openai/v1", "moonshotai/kimi-k2", thought("reasoning", "Hm."), []any{nil, nil, nil}},
		"another model":           {"https://gateway.example.com/v1", "qwen3", thought("reasoning_content", ""), []any{"", nil, nil}},
		"a host that looks alike": {"https://deepseek.com.example.com/v1", "m", thought("", ""), []any{nil, nil, nil}},
		"OpenAI":                  {"", "deepseek", thought("reasoning_content", "Hm."), []any{nil, nil, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			req := hello()
			req.Model = row.model
			req.Messages = []model.Message{
				model.UserText("a"),
				{Role: model.RoleAssistant, Content: []model.Block{row.thought, {Type: model.BlockToolUse, ID: "1", Name: "a"}}},
				{Role: model.RoleUser, Content: []model.Block{{Type: model.BlockToolResult, ID: "1"}}},
				{Role: model.RoleAssistant, Content: []model.Block{{Type: model.BlockToolUse, ID: "2", Name: "a"}}},
				{Role: model.RoleUser, Content: []model.Block{{Type: model.BlockToolResult, ID: "2"}, {Type: model.BlockText, Text: "b"}}},
			}
			var body struct{ Messages []map[string]any }
			require.NoError(t, json.Unmarshal(sent(t, openai.Config{BaseURL: row.base}, req), &body))
			var got []any
			for _, m := range body.Messages {
				if m["role"] == "assistant" {
					got = append(got, m["reasoning_content"])
				}
			}
			require.Equal(t, row.want, got)
		})
	}
}
