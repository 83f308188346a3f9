package anthropic

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/runtime/model"
)

// settings begin the body of POST /v1/messages. The tools follow.
type settings struct {
	Model       string    `json:"model"`
	MaxTokens   int       `json:"max_tokens"`
	Stream      bool      `json:"stream"`
	Thinking    *thinking `json:"thinking,omitempty"`
	Temperature *float64  `json:"temperature,omitempty"`
}

// conversation ends the body.
type conversation struct {
	System   []*text   `json:"system,omitempty"`
	Messages []message `json:"messages"`
}

type thinking struct {
	Type         string `json:"type"`
	BudgetTokens int    `json:"budget_tokens"`
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

func (c *Client) settings(req *model.Request) *settings {
	s := &settings{Model: req.Model, MaxTokens: req.MaxOutputTokens, Stream: true}
	if s.MaxTokens <= 0 {
		s.MaxTokens = c.maxOutputTokens
	}
	if budget := req.ThinkingBudget; budget > 0 {
		s.Thinking = &thinking{Type: "enabled", BudgetTokens: budget}
		if s.MaxTokens <= budget {
			s.MaxTokens += budget
		}
	} else {
		s.Temperature = req.Temperature
	}
	return s
}

func newConversation(req *model.Request) *conversation {
	c := &conversation{Messages: messages(req.Messages)}
	if !blank(req.System) {
		c.System = []*text{{Type: "text", Text: req.System, CacheControl: ephemeral()}}
	}
	markMessages(c.Messages)
	return c
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

func messages(said []model.Message) []message {
	list := make([]message, 0, len(said))
	for _, m := range said {
		if content := blocks(m.Content); len(content) > 0 {
			list = append(list, message{Role: m.Role, Content: content})
		}
	}
	return list
}

// markMessages marks the ends of the last message, for the call after this one, and of the user's
// message before it, where the previous call's mark was: the API looks for an older mark no
// further than 20 blocks back, which the results of many tool calls go past. With tools and
// system that makes the four marks that the API takes.
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

// mark puts the mark on the last block that may carry one: thinking may not.
func mark(content []any) bool {
	for _, c := range slices.Backward(content) {
		switch b := c.(type) {
		case *text:
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
