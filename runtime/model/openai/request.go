package openai

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/seed93082962/agenthost/runtime/model"
)

// settings begin the body of POST /chat/completions. The tools follow.
type settings struct {
	Model               string        `json:"model"`
	Stream              bool          `json:"stream"`
	StreamOptions       streamOptions `json:"stream_options"`
	MaxTokens           int           `json:"max_tokens,omitempty"`
	MaxCompletionTokens int           `json:"max_completion_tokens,omitempty"`
	Temperature         *float64      `json:"temperature,omitempty"`
}

// conversation ends the body.
type conversation struct {
	Messages []message `json:"messages"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// message has a pointer for its content, since that of a tool may be empty and that of an
// assistant who only calls tools is left out.
type message struct {
	Role       string  `json:"role"`
	Content    *string `json:"content,omitempty"`
	ToolCallID string  `json:"tool_call_id,omitempty"`
	ToolCalls  []call  `json:"tool_calls,omitempty"`
}

type call struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function callFunction `json:"function"`
}

type callFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

func (c *Client) settings(req *model.Request) *settings {
	s := &settings{
		Model:         req.Model,
		Stream:        true,
		StreamOptions: streamOptions{IncludeUsage: true},
		Temperature:   req.Temperature,
	}
	limit := cmp.Or(max(req.MaxOutputTokens, 0), c.maxOutputTokens)
	if c.vendor || reasons(req.Model) {
		s.MaxCompletionTokens = limit
	} else {
		s.MaxTokens = limit
	}
	return s
}

func tools(offered []model.Tool) any {
	list := make([]tool, len(offered))
	for i, t := range offered {
		list[i] = tool{Type: "function", Function: function{Name: t.Name, Description: t.Description, Parameters: t.InputSchema}}
	}
	return list
}

// reasons tells OpenAI's reasoning models by their names; a gateway may put a vendor before them.
func reasons(name string) bool {
	name = name[strings.LastIndexByte(name, '/')+1:]
	if rest, ok := strings.CutPrefix(name, "gpt-"); ok {
		return len(rest) > 0 && '5' <= rest[0] && rest[0] <= '9'
	}
	return len(name) > 1 && name[0] == 'o' && '1' <= name[1] && name[1] <= '9'
}

func messages(req *model.Request) []message {
	list := make([]message, 0, len(req.Messages)+1)
	if strings.TrimSpace(req.System) != "" {
		list = append(list, message{Role: "system", Content: &req.System})
	}
	for _, m := range req.Messages {
		list = appendMessage(list, m)
	}
	return list
}

// appendMessage makes a message of each tool result, which have to follow the calls directly, and
// one of what else m holds.
func appendMessage(list []message, m model.Message) []message {
	said := message{Role: string(m.Role)}
	var texts []string
	for i := range m.Content {
		switch b := &m.Content[i]; b.Type {
		case model.BlockText:
			if strings.TrimSpace(b.Text) != "" {
				texts = append(texts, b.Text)
			}
		case model.BlockToolUse:
			input := cmp.Or(string(b.Input), "{}")
			said.ToolCalls = append(said.ToolCalls,
				call{ID: b.ID, Type: "function", Function: callFunction{Name: b.Name, Arguments: input}})
		case model.BlockToolResult:
			list = append(list, message{Role: "tool", ToolCallID: b.ID, Content: output(b)})
		case model.BlockThinking, model.BlockRedacted: // the format has no place for it
		}
	}
	if len(texts) > 0 {
		// One string, for not every server takes a list.
		text := strings.Join(texts, "\n\n")
		said.Content = &text
	}
	if said.Content == nil && said.ToolCalls == nil {
		return list
	}
	return append(list, said)
}

// output says that a result is an error where its text does not say so itself: the format has no
// field for it.
func output(b *model.Block) *string {
	const word = "error"
	text := b.Text
	if b.IsError && (len(text) < len(word) || !strings.EqualFold(text[:len(word)], word)) {
		text = strings.TrimSpace("Error: " + text)
	}
	return &text
}
