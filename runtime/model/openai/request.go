package openai

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/toolschema"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/internal/upstream"
)

// request is the body of POST /chat/completions, without the tools.
type request struct {
	Model               string         `json:"model"`
	Stream              bool           `json:"stream"`
	StreamOptions       *streamOptions `json:"stream_options,omitempty"`
	MaxTokens           int            `json:"max_tokens,omitempty"`
	MaxCompletionTokens int            `json:"max_completion_tokens,omitempty"`
	Temperature         *float64       `json:"temperature,omitempty"`
	ReasoningEffort     string         `json:"reasoning_effort,omitempty"`
	ToolChoice          string         `json:"tool_choice,omitempty"`
	ResponseFormat      *format        `json:"response_format,omitempty"`
	Messages            []message      `json:"messages"`
}

// format binds the text of a response to a schema.
type format struct {
	Type       string     `json:"type"` // json_schema
	JSONSchema jsonSchema `json:"json_schema"`
}

type jsonSchema struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Strict bool            `json:"strict,omitempty"` // the schema is enforced
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

// message is one message. Its content is a string, a list of pieces, or null for an assistant that
// only calls tools.
type message struct {
	Role             string          `json:"role"`
	Content          any             `json:"content"`
	ReasoningContent *string         `json:"reasoning_content,omitempty"`
	Reasoning        *string         `json:"reasoning,omitempty"`
	ReasoningDetails json.RawMessage `json:"reasoning_details,omitempty"`
	ToolCallID       string          `json:"tool_call_id,omitempty"`
	ToolCalls        []any           `json:"tool_calls,omitempty"` // *call, or a map with the unknown fields
}

type piece struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitempty"`
	Thinking []piece   `json:"thinking,omitempty"`
	ImageURL *imageURL `json:"image_url,omitempty"`
	File     *file     `json:"file,omitempty"`
}

type file struct {
	Name string `json:"filename"`
	Data string `json:"file_data"` // a data URL
}

type imageURL struct {
	URL string `json:"url"`
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

func (c *client) request(req *model.Request) *request {
	r := &request{
		Model:           req.Model,
		Stream:          true,
		Temperature:     req.Temperature,
		ReasoningEffort: req.Thinking.Effort,
		Messages:        c.messages(req),
	}
	if !c.noStreamUsage {
		r.StreamOptions = &streamOptions{IncludeUsage: true}
	}

	if req.ToolRequired && len(req.Tools) > 0 {
		r.ToolChoice = "required"
	}

	if req.OutputSchema != nil {
		r.ResponseFormat = &format{Type: "json_schema", JSONSchema: jsonSchema{
			Name: "output", Schema: req.OutputSchema, Strict: strictSubset.Has(req.OutputSchema),
		}}
	}

	limit := max(req.MaxOutputTokens, 0)
	if c.vendor || reasons(req.Model) {
		r.MaxCompletionTokens = limit
	} else {
		r.MaxTokens = limit
	}

	return r
}

// strictSubset are the schemas that OpenAI enforces. It rejects others with strict, and guides the
// model by them without.
var strictSubset = toolschema.Subset{
	Keywords: []string{"$schema", "$defs", "definitions", "$ref", "type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const"},
	Required: true,
}

// maxDescription is the number of characters of a tool's description that OpenAI accepts.
const maxDescription = 1024

// toolList returns the value of the field tools.
func toolList(offered []model.Tool, vendor bool) any {
	list := make([]tool, len(offered))
	for i, t := range offered {
		if vendor && utf8.RuneCountInString(t.Description) > maxDescription {
			t.Description = excerpt.Characters(t.Description, maxDescription-len("...")) + "..."
		}

		list[i] = tool{Type: "function", Function: function{Name: t.Name, Description: t.Description, Parameters: t.InputSchema}}
	}

	return list
}

// reasons reports whether the name is that of one of OpenAI's reasoning models. A gateway may add
// the vendor as a prefix.
func reasons(name string) bool {
	name = name[strings.LastIndexByte(name, '/')+1:]
	if rest, ok := strings.CutPrefix(name, "gpt-"); ok {
		return len(rest) > 0 && '5' <= rest[0] && rest[0] <= '9'
	}

	return len(name) > 1 && name[0] == 'o' && '1' <= name[1] && name[1] <= '9'
}

func (c *client) messages(req *model.Request) []message {
	list := make([]message, 0, len(req.Messages)+1)
	if strings.TrimSpace(req.System) != "" {
		list = append(list, message{Role: "system", Content: req.System})
	}

	for _, m := range req.Messages {
		list = c.appendMessage(list, m)
	}

	if c.requiresReasoning(req) {
		fillReasoning(list)
	}

	return list
}

// Texts of an assistant message between a tool result and a user message. Some servers reject a
// user message that directly follows a tool message, which occurs after a run that ended on tool
// results, and for images of results.
const (
	bridge      = "(The previous run ended here.)"
	imageBridge = "(The images of the results follow.)"
)

// appendMessage appends one message for each tool result, which must directly follow the calls, and
// one message with all other content of m. It has the images of the results too, because a tool
// message can have only text.
func (c *client) appendMessage(list []message, m model.Message) []message {
	own := message{Role: string(m.Role)}
	var texts, thoughts []string
	var images, parts []piece // of results, and of a user
	binary := false           // whether parts are more than texts
	results := 0
	for i := range m.Content {
		switch b := &m.Content[i]; b.Type {
		case model.BlockText:
			if strings.TrimSpace(b.Text) != "" {
				texts = append(texts, b.Text)
				parts = append(parts, piece{Type: "text", Text: b.Text})
			}
		case model.BlockImage, model.BlockFile:
			p := partOf(b)
			parts = append(parts, p)
			if p.Type == "text" {
				texts = append(texts, p.Text)
			} else {
				binary = true
			}
		case model.BlockToolUse:
			own.ToolCalls = append(own.ToolCalls, c.call(b))
		case model.BlockToolResult:
			list = append(list, message{Role: "tool", ToolCallID: b.ID, Content: output(b)})
			results++
			if len(b.Images) == 0 || b.IsError {
				continue
			}

			images = append(images, piece{Type: "text", Text: fmt.Sprintf("The images of result %d:", results)})
			for _, v := range b.Images {
				images = append(images, imagePiece(v))
			}
		case model.BlockThinking:
			if !c.vendor {
				thoughts = addThinking(&own, thoughts, b)
			}

		case model.BlockRedacted: // another format's
		}
	}

	if len(texts) == 0 && own.ToolCalls == nil && images == nil && !binary {
		return list
	}

	// One string where possible: not every server accepts a list.
	text := strings.Join(texts, "\n\n")
	switch {
	case len(thoughts) > 0:
		own.Content = contentPieces(thoughts, text)
	case binary:
		own.Content = append(images, parts...)
	case images != nil && text != "":
		own.Content = append(images, piece{Type: "text", Text: text})
	case images != nil:
		own.Content = images
	case len(texts) > 0:
		own.Content = text
	}

	if n := len(list); own.Role == "user" && n > 0 && list[n-1].Role == "tool" {
		between := bridge
		if images != nil {
			between = imageBridge
		}

		list = append(list, message{Role: "assistant", Content: between})
	}

	return append(list, own)
}

func dataURL(media string, data []byte) string {
	return "data:" + media + ";base64," + base64.StdEncoding.EncodeToString(data)
}

func imagePiece(v model.Image) piece {
	return piece{Type: "image_url", ImageURL: &imageURL{URL: dataURL(v.MediaType, v.Data)}}
}

// partOf returns the piece of an image or a file of a user. The format has no text files: they are
// texts with their name.
func partOf(b *model.Block) piece {
	switch {
	case b.Type == model.BlockImage:
		return imagePiece(b.Images[0])
	case len(b.PDF) > 0:
		return piece{Type: "file", File: &file{Name: cmp.Or(b.Name, "document.pdf"), Data: dataURL("application/pdf", b.PDF)}}
	}

	return piece{Type: "text", Text: fmt.Sprintf("<file name=%q>\n%s\n</file>", cmp.Or(b.Name, "document.txt"), b.Text)}
}

// addThinking sets the field that carried the thinking of b. Thinking that was part of the content
// is appended to thoughts. Thinking of another format has no field and is left out.
func addThinking(m *message, thoughts []string, b *model.Block) []string {
	switch b.Field {
	case fieldReasoningContent:
		m.ReasoningContent = joined(m.ReasoningContent, b.Text)
	case fieldReasoning:
		m.Reasoning = joined(m.Reasoning, b.Text)
	case fieldContent:
		thoughts = append(thoughts, b.Text)
	}

	if len(b.Details) > 0 {
		m.ReasoningDetails = b.Details
	}

	return thoughts
}

func joined(before *string, text string) *string {
	if before != nil {
		text = *before + text
	}

	return &text
}

func contentPieces(thoughts []string, text string) []piece {
	var list []piece
	for _, t := range thoughts {
		list = append(list, piece{Type: "thinking", Thinking: []piece{{Type: "text", Text: t}}})
	}

	if text != "" {
		list = append(list, piece{Type: "text", Text: text})
	}

	return list
}

// call returns a tool call as upstream sent it, including the fields that the adapter does not
// know. OpenAI sends none and rejects them.
func (c *client) call(b *model.Block) any {
	own := &call{ID: b.ID, Type: "function",
		Function: callFunction{Name: b.Name, Arguments: cmp.Or(string(b.Input), "{}")}}
	var extra map[string]json.RawMessage
	if c.vendor || len(b.Extra) == 0 || json.Unmarshal(b.Extra, &extra) != nil {
		return own
	}

	fields := map[string]any{"id": own.ID, "type": own.Type}
	function := map[string]any{"name": own.Function.Name, "arguments": own.Function.Arguments}
	for name, value := range extra {
		var inner map[string]json.RawMessage
		switch {
		case name == "function" && json.Unmarshal(value, &inner) == nil:
			for name, value := range inner {
				function[name] = value
			}
		case name != "function":
			fields[name] = value
		}
	}

	fields["function"] = function
	return fields
}

// output returns the text of a tool result. The format has no field for errors, so the text of an
// error states that it is one.
func output(b *model.Block) string {
	const word = "error"
	if b.IsError && (len(b.Text) < len(word) || !strings.EqualFold(b.Text[:len(word)], word)) {
		return strings.TrimSpace("Error: " + b.Text)
	}

	return b.Text
}

// requiresReasoning reports whether the server rejects assistant messages without
// reasoning_content: DeepSeek and Kimi in thinking mode. Behind a gateway their models are
// recognized by their name, and only after the gateway has sent the field itself, because other
// servers reject it.
func (c *client) requiresReasoning(req *model.Request) bool {
	if c.thinks {
		return true
	}

	name := strings.ToLower(req.Model)
	if c.vendor || !strings.Contains(name, "deepseek") && !strings.Contains(name, "kimi") {
		return false
	}

	return slices.ContainsFunc(req.Messages, func(m model.Message) bool {
		return slices.ContainsFunc(m.Content, func(b model.Block) bool { return b.Field == fieldReasoningContent })
	})
}

// fillReasoning sets the reasoning of assistant messages that have none: those of another model,
// and those in which the model did not think.
func fillReasoning(list []message) {
	for i := range list {
		m := &list[i]
		if m.Role == "assistant" && (m.ReasoningContent == nil || *m.ReasoningContent == "") && m.Reasoning == nil {
			text := upstream.NoThinking
			m.ReasoningContent = &text
		}
	}
}
