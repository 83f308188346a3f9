package anthropic

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/pattern"
	"github.com/seed93082962/agenthost/internal/toolschema"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/internal/upstream"
)

// request is the body of POST /v1/messages, without the tools.
type request struct {
	Model       string    `json:"model"`
	MaxTokens   int       `json:"max_tokens"`
	Stream      bool      `json:"stream"`
	Thinking    *thinking `json:"thinking,omitempty"`
	Temperature *float64  `json:"temperature,omitempty"`

	OutputConfig *outputConfig `json:"output_config,omitempty"`
	ToolChoice   *toolChoice   `json:"tool_choice,omitempty"`

	System   []block   `json:"system,omitempty"`
	Messages []message `json:"messages"`
}

type thinking struct {
	Type         string `json:"type"` // enabled with a budget, or adaptive
	BudgetTokens int    `json:"budget_tokens,omitempty"`
}

type outputConfig struct {
	Effort string  `json:"effort,omitempty"`
	Format *format `json:"format,omitempty"`
}

// format binds the text of a response to a schema.
type format struct {
	Type   string          `json:"type"` // json_schema
	Schema json.RawMessage `json:"schema"`
}

type toolChoice struct {
	Type string `json:"type"` // any
}

type tool struct {
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"input_schema"`
	CacheControl *cacheControl   `json:"cache_control,omitempty"`
}

type message struct {
	Role    model.Role `json:"role"`
	Content []block    `json:"content"`
}

// block is a content block of any type. Thinking and its signature are present in every block of
// type thinking: models that do not show their thinking sign an empty text.
type block struct {
	Type         string          `json:"type"`
	Text         string          `json:"text,omitempty"`
	Thinking     *string         `json:"thinking,omitempty"`
	Signature    *string         `json:"signature,omitempty"`
	Data         string          `json:"data,omitempty"`
	ID           string          `json:"id,omitempty"`
	Name         string          `json:"name,omitempty"`
	Input        json.RawMessage `json:"input,omitempty"`
	ToolUseID    string          `json:"tool_use_id,omitempty"`
	Content      any             `json:"content,omitempty"` // a string, or blocks where the result has images
	IsError      bool            `json:"is_error,omitempty"`
	Source       *source         `json:"source,omitempty"`
	Title        string          `json:"title,omitempty"` // of a document
	CacheControl *cacheControl   `json:"cache_control,omitempty"`
}

// source has the bytes of an image or a document, or its text.
type source struct {
	Type      string `json:"type"` // base64 or text
	MediaType string `json:"media_type"`
	Data      any    `json:"data"`
}

func image(v model.Image) block {
	return block{Type: "image", Source: &source{Type: "base64", MediaType: v.MediaType, Data: v.Data}}
}

// document returns the block of a file of a user.
func document(b *model.Block) block {
	from := &source{Type: "text", MediaType: "text/plain", Data: b.Text}
	if len(b.PDF) > 0 {
		from = &source{Type: "base64", MediaType: "application/pdf", Data: b.PDF}
	}

	return block{Type: "document", Title: b.Name, Source: from}
}

type cacheControl struct {
	Type string `json:"type"`
}

func ephemeral() *cacheControl { return &cacheControl{Type: "ephemeral"} }

// request returns the body of a request. The ends of the system prompt and of the conversation are
// marked for the prompt cache.
func (c *client) request(req *model.Request) *request {
	r := &request{Model: req.Model, MaxTokens: req.MaxOutputTokens, Stream: true, Messages: c.messages(req.Messages)}
	if r.MaxTokens <= 0 {
		r.MaxTokens = defaultMaxOutputTokens
	}

	switch budget := req.Thinking.BudgetTokens; {
	case req.Thinking.Adaptive:
		r.Thinking = &thinking{Type: "adaptive"}
	case budget > 0 && !startedWithoutThinking(r.Messages):
		r.Thinking = &thinking{Type: "enabled", BudgetTokens: budget}
		if r.MaxTokens <= budget {
			r.MaxTokens += budget
		}
	default:
		r.Temperature = req.Temperature
	}

	if req.Thinking.Effort != "" || req.OutputSchema != nil {
		r.OutputConfig = &outputConfig{Effort: req.Thinking.Effort}
	}

	if req.OutputSchema != nil {
		r.OutputConfig.Format = &format{Type: "json_schema", Schema: req.OutputSchema}
	}

	if req.ToolRequired && len(req.Tools) > 0 && r.Thinking == nil { // with thinking, the API rejects it
		r.ToolChoice = &toolChoice{Type: "any"}
	}

	if !blank(req.System) {
		r.System = []block{{Type: "text", Text: req.System, CacheControl: ephemeral()}}
	}

	markMessages(r.Messages)
	return r
}

// toolList returns the value of the field tools. Its end is marked for the prompt cache: agents
// share tools more often than prompts.
func toolList(offered []model.Tool) any {
	list := make([]tool, len(offered))
	for i, t := range offered {
		list[i] = tool{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema}
	}

	list[len(list)-1].CacheControl = ephemeral()
	return list
}

// formatSubset are the schemas that Anthropic accepts as the format of a response, as its
// documentation lists the keywords. References may not be recursive, and are left out of it.
var formatSubset = toolschema.Subset{
	Keywords: []string{"type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const"},
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
func mark(content []block) bool {
	for i := range slices.Backward(content) {
		if !isThinking(content[i]) {
			content[i].CacheControl = ephemeral()
			return true
		}
	}

	return false
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// messages returns the conversation. Messages without content are left out.
func (c *client) messages(history []model.Message) []message {
	list := make([]message, 0, len(history))
	unsigned := !c.vendor && !signs(history)
	for _, m := range history {
		content := c.blocks(m.Content, unsigned)
		if m.Role == model.RoleAssistant {
			content = c.endsWithOutput(content)
		}

		switch n := len(list); {
		case len(content) == 0:
		case n > 0 && list[n-1].Role == m.Role:
			list[n-1].Content = append(list[n-1].Content, content...)
		default:
			list = append(list, message{Role: m.Role, Content: content})
		}
	}

	return list
}

// endsWithOutput returns the content of an assistant message without the thinking at its end, which
// the API rejects. A response that reached the output limit may end like that. Where a server
// requires thinking, a message without it gets an empty one.
func (c *client) endsWithOutput(content []block) []block {
	for len(content) > 0 && isThinking(content[len(content)-1]) {
		content = content[:len(content)-1]
	}

	if c.thinks && len(content) > 0 && !slices.ContainsFunc(content, isThinking) {
		content = slices.Insert(content, 0, thinkingBlock(upstream.NoThinking, ""))
	}

	return content
}

func isThinking(b block) bool { return b.Type == "thinking" || b.Type == "redacted_thinking" }

func thinkingBlock(text, signature string) block {
	return block{Type: "thinking", Thinking: &text, Signature: &signature}
}

// startedWithoutThinking reports whether the model has not finished its turn and started it without
// thinking, as after a summary of the conversation. The API rejects a thinking budget then. A turn
// continues after each tool result.
func startedWithoutThinking(list []message) bool {
	start := len(list)
	for start > 0 && (list[start-1].Role == model.RoleAssistant || list[start-1].Content[0].Type == "tool_result") {
		start--
	}

	return start < len(list) && !isThinking(list[start].Content[0])
}

// signs reports whether the server signs its thinking. Such a server rejects thinking without a
// signature, which is incomplete. Compatible servers that do not sign require their thinking to be
// sent back.
func signs(history []model.Message) bool {
	return slices.ContainsFunc(history, func(m model.Message) bool {
		return slices.ContainsFunc(m.Content, func(b model.Block) bool {
			return b.Type == model.BlockThinking && b.Signature != "" || b.Type == model.BlockRedacted
		})
	})
}

// blocks returns the content of a message with tool results first, as the API requires. It leaves
// out blank text, which the API rejects. Thinking without a signature is left out unless unsigned
// is set.
func (c *client) blocks(content []model.Block, unsigned bool) []block {
	list := make([]block, 0, len(content))
	for i := range content {
		if b := &content[i]; b.Type == model.BlockToolResult {
			list = append(list, c.result(b))
		}
	}

	for i := range content {
		switch b := &content[i]; b.Type {
		case model.BlockText:
			if !blank(b.Text) {
				list = append(list, block{Type: "text", Text: b.Text})
			}
		case model.BlockThinking:
			if b.Signature != "" || unsigned && !blank(b.Text) {
				list = append(list, thinkingBlock(b.Text, b.Signature))
			}
		case model.BlockRedacted:
			list = append(list, block{Type: "redacted_thinking", Data: b.Data})
		case model.BlockToolUse:
			input := b.Input
			if len(input) == 0 {
				input = json.RawMessage("{}")
			}

			list = append(list, block{Type: "tool_use", ID: c.toolID(b.ID), Name: b.Name, Input: input})
		case model.BlockImage:
			list = append(list, image(b.Images[0]))
		case model.BlockFile:
			list = append(list, document(b))
		case model.BlockToolResult: // appended above
		}
	}

	return list
}

func (c *client) result(b *model.Block) block {
	r := block{Type: "tool_result", ToolUseID: c.toolID(b.ID), IsError: b.IsError}
	switch {
	case b.IsError && blank(b.Text):
		r.Content = "(no output)" // an error without content is rejected
	case len(b.Images) > 0 && !b.IsError: // an error may have only text
		var list []block
		if !blank(b.Text) {
			list = append(list, block{Type: "text", Text: b.Text})
		}

		for _, v := range b.Images {
			list = append(list, image(v))
		}

		r.Content = list
	case b.Text != "":
		r.Content = b.Text
	}

	return r
}

var toolID = pattern.Compile(`^[a-zA-Z0-9_-]+$`)

// toolID returns the id of a call in the form that Anthropic requires. Its own ids have this form,
// but a conversation may begin with those of another vendor. The same id always has the same
// result. Other servers get their ids back unchanged: gateways put a signature into them.
func (c *client) toolID(id string) string {
	if !c.vendor || toolID().MatchString(id) {
		return id
	}

	sum := sha256.Sum256([]byte(id))
	return "toolu_" + hex.EncodeToString(sum[:12])
}
