package anthropic_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/anthropic"
)

func text(s string) model.Block { return model.Block{Type: model.BlockText, Text: s} }

func signed(s string) model.Block {
	return model.Block{Type: model.BlockThinking, Text: s, Signature: "c2ln"}
}

func use(id string) model.Block { return model.Block{Type: model.BlockToolUse, ID: id, Name: "Read"} }

func resultOf(id string) model.Block {
	return model.Block{Type: model.BlockToolResult, ID: id, Text: "ok"}
}

func says(blocks ...model.Block) model.Message {
	return model.Message{Role: model.RoleAssistant, Content: blocks}
}

func gives(blocks ...model.Block) model.Message {
	return model.Message{Role: model.RoleUser, Content: blocks}
}

// sentMessages returns the messages of a request, each as its role and the types of its blocks.
func sentMessages(t *testing.T, cfg anthropic.Config, req *model.Request) (messages [][]string, thinking any) {
	t.Helper()
	var body struct {
		Messages []struct {
			Role    string
			Content []struct{ Type, Thinking string }
		}
		Thinking any
	}
	require.NoError(t, json.Unmarshal(sent(t, cfg, req), &body))
	for _, m := range body.Messages {
		line := []string{m.Role}
		for _, b := range m.Content {
			line = append(line, b.Type+b.Thinking)
		}
		messages = append(messages, line)
	}
	return messages, body.Thinking
}

// The API rejects thinking at the end of a message. Responses that reach the output limit end like
// that.
func TestThinkingAtTheEndIsLeftOut(t *testing.T) {
	req := hello()
	req.Messages = []model.Message{
		gives(text("a")), says(signed("x"), text("b"), signed("y"), model.Block{Type: model.BlockRedacted, Data: "ZQ=="}),
		gives(text("c")), says(signed("z")),
		gives(text("d")),
	}
	got, _ := sentMessages(t, anthropic.Config{}, req)
	require.Equal(t, [][]string{{"user", "text"}, {"assistant", "thinkingx", "text"}, {"user", "text", "text"}}, got)
}

// The API rejects a thinking budget in the middle of a turn that started without thinking.
func TestATurnThatStartedWithoutThinking(t *testing.T) {
	for name, row := range map[string]struct {
		messages []model.Message
		want     bool
	}{
		"no turn yet":                 {[]model.Message{gives(text("a"))}, true},
		"starts with thinking":        {[]model.Message{gives(text("a")), says(signed("x"), use("1")), gives(resultOf("1"))}, true},
		"starts with hidden thinking": {[]model.Message{gives(text("a")), says(model.Block{Type: model.BlockRedacted, Data: "ZQ=="}, use("1")), gives(resultOf("1"))}, true},
		"thinking at the start only": {[]model.Message{gives(text("a")), says(signed("x"), use("1")), gives(resultOf("1")),
			says(use("2")), gives(resultOf("2"))}, true},
		"without thinking":            {[]model.Message{gives(text("a")), says(use("1")), gives(resultOf("1"))}, false},
		"thinking later":              {[]model.Message{gives(text("a")), says(use("1")), gives(resultOf("1")), says(signed("x"), use("2")), gives(resultOf("2"))}, false},
		"a message after the results": {[]model.Message{gives(text("a")), says(use("1")), gives(resultOf("1"), text("b"))}, false},
		"an earlier turn":             {[]model.Message{gives(text("a")), says(use("1")), gives(resultOf("1")), says(text("b")), gives(text("c"))}, true},
	} {
		t.Run(name, func(t *testing.T) {
			req := hello()
			req.Messages, req.Thinking = row.messages, model.Thinking{BudgetTokens: 2000}
			_, thinking := sentMessages(t, anthropic.Config{}, req)
			require.Equal(t, row.want, thinking != nil)
			req.Thinking = model.Thinking{Adaptive: true}
			_, thinking = sentMessages(t, anthropic.Config{}, req)
			require.Equal(t, map[string]any{"type": "adaptive"}, thinking, "has no such rule")
		})
	}
}

// DeepSeek and Kimi reject assistant messages without thinking, also those of another model.
func TestMessagesWithoutThinkingWhereItIsRequired(t *testing.T) {
	for base, required := range map[string]bool{
		"https://api.deepseek.com/anthropic":   true,
		"https://api.moonshot.ai/anthropic":    true,
		"https://api.kimi.com/coding":          true,
		"":                                     false,
		"https://gateway.example.com":          false,
		"https://api.deepseek.com.example.com": false,
	} {
		t.Run(base, func(t *testing.T) {
			req := hello()
			req.Messages = []model.Message{
				gives(text("a")), says(use("1")), gives(resultOf("1")),
				says(model.Block{Type: model.BlockThinking}, use("2")), gives(resultOf("2")), says(text("b")), gives(text("c")),
			}
			got, _ := sentMessages(t, anthropic.Config{BaseURL: base}, req)
			want := [][]string{{"user", "text"}, {"assistant", "tool_use"}, {"user", "tool_result"}, {"assistant", "tool_use"},
				{"user", "tool_result"}, {"assistant", "text"}, {"user", "text"}}
			for _, i := range []int{1, 3, 5} {
				if required {
					want[i] = []string{"assistant", "thinking ", want[i][1]}
				}
			}
			require.Equal(t, want, got)
		})
	}
}
