package anthropic

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/internal/upstream"
)

// settings begin the body of POST /v1/messages. The tools follow.
type settings struct {
	Model       string    `json:"model"`
	MaxTokens   int       `json:"max_tokens"`
	Stream      bool      `json:"stream"`
	Thinking    *thinking `json:"thinking,omitempty"`
	Temperature *float64  `json:"temperature,omitempty"`

	OutputConfig *outputConfig `json:"output_config,omitempty"`
}

// conversation ends the body.
type conversation struct {
	System   []*textBlock `json:"system,omitempty"`
	Messages []message    `json:"messages"`
}

type thinking struct {
	Type         string `json:"type"` // enabled with a budget, or adaptive
	BudgetTokens int    `json:"budget_tokens,omitempty"`
}

type outputConfig struct {
	Effort string `json:"effort"`
}

type tool struct {
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"input_schema"`
	CacheControl *cacheControl   `json:"cache_control,omitempty"`
}

type message struct {
	Role    model.Role `json:"role"`
	Content []any      `json:"content"` // pointers to the block types
}

type cacheControl struct {
	Type string `json:"type"`
}

func ephemeral() *cacheControl { return &cacheControl{Type: "ephemeral"} }

// settings returns the settings of a request: a struct, or a map with the fields of Config.Body.
func (c *Client) settings(req *model.Request, messages []message) (any, error) {
	s := &settings{Model: req.Model, MaxTokens: req.MaxOutputTokens, Stream: true}
	if s.MaxTokens <= 0 {
		s.MaxTokens = c.maxOutputTokens
	}
	switch budget := req.Thinking.BudgetTokens; {
	case req.Thinking.Adaptive:
		s.Thinking = &thinking{Type: "adaptive"}
	case budget > 0 && !startedWithoutThinking(messages):
		s.Thinking = &thinking{Type: "enabled", BudgetTokens: budget}
		if s.MaxTokens <= budget {
			s.MaxTokens += budget
		}
	default:
		s.Temperature = req.Temperature
	}
	if req.Thinking.Effort != "" {
		s.OutputConfig = &outputConfig{Effort: req.Thinking.Effort}
	}
	return upstream.WithFields(s, c.body)
}

func newConversation(system string, messages []message) *conversation {
	conv := &conversation{Messages: messages}
	if !blank(system) {
		conv.System = []*textBlock{{Type: "text", Text: system, CacheControl: ephemeral()}}
	}
	markMessages(conv.Messages)
	return conv
}

func tools(offered []model.Tool) any {
	list := make([]tool, len(offered))
	for i, t := range offered {
		list[i] = tool{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema}
		if len(t.InputSchema) == 0 {
			list[i].InputSchema = json.RawMessage(`{"type":"object"}`)
		}
	}
	// Agents share tools more often than prompts.
	list[len(list)-1].CacheControl = ephemeral()
	return list
}

// markMessages marks the end of the last message for the next call. It also marks the end of the
// previous user message, where the mark of the previous call was, because the API searches at most
// 20 blocks back for an older mark, and the results of many tool calls exceed that. Together with
// the marks of tools and system, these are the four marks that the API accepts.
func markMessages(list []message) {
	marks := 0
	for i := len(list) - 1; i >= 0 && marks < 2; i-- {
		if i < len(list)-1 && list[i].Role != model.RoleUser {
			continue
		}
		if mark(list[i].Content) {
			marks++
		}
	}
}

// mark marks the last block that may have a mark: thinking may not.
func mark(content []any) bool {
	for _, c := range slices.Backward(content) {
		switch b := c.(type) {
		case *textBlock:
			b.CacheControl = ephemeral()
			return true
		case *toolUse:
			b.CacheControl = ephemeral()
			return true
		case *toolResult:
			b.CacheControl = ephemeral()
			return true
		}
	}
	return false
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }
