package modeltest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	_ "image/gif"  // registers the format
	_ "image/jpeg" // registers the format
	_ "image/png"  // registers the format
	"slices"
	"strings"
)

// messages checks the conversation.
func (c *anthropicChecker) messages(q *anthropicRequest) *refusal {
	if len(q.Messages) == 0 {
		return bad("messages: at least one message is required")
	}

	c.all = q.Messages
	var calls []string // of the previous message, without a result so far
	begun := false     // the turn of the assistant
	for i, m := range q.Messages {
		if refused := c.role(q, i); refused != nil {
			return refused
		}

		blocks, wrong := anthropicContent(m.Content)
		if wrong != "" {
			return bad("messages.%d.content.%s", i, wrong)
		}

		if len(blocks) == 0 {
			return bad("messages.%d: all messages must have non-empty content except for the optional final assistant message", i)
		}

		if refused := c.results(i, m.Role, blocks, calls); refused != nil {
			return refused
		}

		calls = nil
		if refused := c.assistant(i, m.Role, blocks, begun); refused != nil {
			return refused
		}

		begun = m.Role == "assistant" || blocks[0].Type == "tool_result"
		for j := range blocks {
			b := &blocks[j]
			if refused := c.block(i, j, m.Role, b); refused != nil {
				return refused
			}

			if b.Type == "tool_use" {
				calls = append(calls, b.ID)
			}
		}
	}

	if q.Messages[len(q.Messages)-1].Role != "user" {
		return bad("This model does not support assistant message prefill. The conversation must end with a user message.")
	}

	return nil
}

// assistant checks where thinking is in an assistant message. A turn that continues after tool
// results need not start with thinking again.
func (c *anthropicChecker) assistant(i int, role string, blocks []anthropicBlock, begun bool) *refusal {
	if role != "assistant" {
		return nil
	}

	thinks := func(b anthropicBlock) bool { return b.Type == "thinking" || b.Type == "redacted_thinking" }
	text := func(b anthropicBlock) bool { return b.Type == "thinking" && b.Thinking != nil && *b.Thinking != "" }
	switch {
	case thinks(blocks[len(blocks)-1]):
		return bad("messages.%d: The final block in an assistant message cannot be `thinking`.", i)
	case c.unsigned && c.thinking != "disabled" && !slices.ContainsFunc(blocks, text):
		return bad("The `content[].thinking` in the thinking mode must be passed back to the API. (messages.%d)", i)
	case !c.unsigned && c.thinking == "enabled" && !begun && !thinks(blocks[0]) && c.current(i):
		return bad("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`. When `thinking` is enabled, "+
			"a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks).",
			i, blocks[0].Type)
	}

	return nil
}

// current reports whether the turn that starts at message i is not finished.
func (c *anthropicChecker) current(i int) bool {
	for _, m := range c.all[i+1:] {
		blocks, _ := anthropicContent(m.Content)
		if m.Role == "user" && (len(blocks) == 0 || blocks[0].Type != "tool_result") {
			return false
		}
	}

	return true
}

func (c *anthropicChecker) role(q *anthropicRequest, i int) *refusal {
	role := q.Messages[i].Role
	switch {
	case role != "user" && role != "assistant":
		return bad("messages.%d.role: Input should be 'user' or 'assistant'", i)
	case i == 0 && role != "user":
		return bad("messages: first message must use the \"user\" role")
	case i > 0 && role == q.Messages[i-1].Role:
		return bad("messages: roles must alternate between \"user\" and \"assistant\", but found multiple %q roles in a row", role)
	}

	return nil
}

// results checks that this message begins with the results of the calls of the previous message.
func (c *anthropicChecker) results(i int, role string, blocks []anthropicBlock, calls []string) *refusal {
	var given []string
	for j := range blocks {
		if blocks[j].Type != "tool_result" {
			continue
		}

		id := blocks[j].ToolUseID
		switch {
		case role != "user":
			return bad("messages.%d: `tool_result` blocks can only be in `user` messages", i)
		case slices.Contains(given, id):
			return bad("messages.%d.content.%d: each tool_use must have a single result. Found multiple `tool_result` blocks with id: %s", i, j, id)
		case !slices.Contains(calls, id):
			return bad("messages.%d.content.%d: unexpected `tool_use_id` found in `tool_result` blocks: %s. "+
				"Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", i, j, id)
		case j != len(given):
			return bad("messages.%d: `tool_result` blocks must come first in the content of a message", i)
		}

		given = append(given, id)
	}

	missing := slices.DeleteFunc(slices.Clone(calls), func(id string) bool { return slices.Contains(given, id) })
	if len(missing) > 0 {
		return bad("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. "+
			"Each `tool_use` block must have a corresponding `tool_result` block in the next message.", i-1, strings.Join(missing, ", "))
	}

	return nil
}

func (c *anthropicChecker) block(i, j int, role string, b *anthropicBlock) *refusal {
	c.cache(b.CacheControl)
	switch b.Type {
	case "text":
		if b.Text == "" {
			return bad("messages: text content blocks must be non-empty")
		}

		if strings.TrimSpace(b.Text) == "" {
			return bad("messages: text content blocks must contain non-whitespace text")
		}

		return nil
	case "tool_result":
		return c.result(i, j, b)
	case "image", "document":
		if role != "user" {
			return bad("messages.%d: `%s` blocks can only be in `user` messages", i, b.Type)
		}

		refused := c.document(b.Source)
		if b.Type == "image" {
			refused = c.image(b.Source)
		}

		if refused != nil {
			return bad("messages.%d.content.%d.%s", i, j, refused.message)
		}

		return nil
	}

	if role != "assistant" {
		return bad("messages.%d: `%s` blocks can only be in `assistant` messages", i, b.Type)
	}

	switch {
	case b.Type == "thinking" && b.Thinking == nil:
		return bad("messages.%d.content.%d.thinking.thinking: Field required", i, j)
	case b.Type == "thinking" && b.Signature == "" && !c.unsigned:
		return bad("messages.%d.content.%d.thinking.signature: Field required", i, j)
	case b.Type == "redacted_thinking" && b.Data == "":
		return bad("messages.%d.content.%d.redacted_thinking.data: Field required", i, j)
	case b.Type != "tool_use":
		return nil
	case !c.unsigned && !anthropicToolID.MatchString(b.ID):
		return bad("messages.%d.content.%d.tool_use.id: String should match pattern '%s'", i, j, anthropicToolID)
	case slices.Contains(c.used, b.ID):
		return bad("messages.%d.content.%d: `tool_use` ids must be unique", i, j)
	case b.Name == "" || len(b.Name) > 200:
		return bad("messages.%d.content.%d.tool_use.name: String should have at least 1 and at most 200 characters", i, j)
	case len(b.Input) == 0 || b.Input[0] != '{':
		return bad("messages.%d.content.%d.tool_use.input: Input should be a valid dictionary", i, j)
	}

	c.used = append(c.used, b.ID)
	return nil
}

// result checks the content of a tool result. A string may be empty, a text block may not.
func (c *anthropicChecker) result(i, j int, b *anthropicBlock) *refusal {
	if !present(b.Content) || b.Content[0] == '"' {
		return nil
	}

	blocks, wrong := anthropicContent(b.Content)
	if wrong != "" {
		return bad("messages.%d.content.%d.tool_result.content.%s", i, j, wrong)
	}

	for k := range blocks {
		switch blocks[k].Type {
		case "text":
			if blocks[k].Text == "" {
				return bad("messages: text content blocks must be non-empty")
			}
		case "image":
			if b.IsError {
				return bad("messages.%d.content.%d.tool_result: all content must be type `text` if `is_error` is true", i, j)
			}

			if refused := c.image(blocks[k].Source); refused != nil {
				return bad("messages.%d.content.%d.tool_result.content.%d.%s", i, j, k, refused.message)
			}
		default:
			return bad("messages.%d.content.%d.tool_result.content.%d.type: Input should be 'text' or 'image'", i, j, k)
		}

		c.cache(blocks[k].CacheControl)
	}

	return nil
}

// Limits of the images in a request: bytes in base64, and pixels of a side. A request of many
// images has a lower limit.
const (
	maxImageData = 5 << 20
	maxImageSide = 8000
	manyImages   = 20
	maxManySide  = 2000
)

// imageTypes are those that both vendors accept.
var imageTypes = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

// document checks the source of a document.
func (c *anthropicChecker) document(source json.RawMessage) *refusal {
	var s struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	}
	if err := decode(source, &s); err != nil {
		return bad("document.source: %v", err)
	}

	data, err := base64.StdEncoding.Strict().DecodeString(s.Data)
	switch {
	case s.Type == "text" && s.MediaType != "text/plain":
		return bad("document.source.text.media_type: Input should be 'text/plain'")
	case s.Type == "text" && s.Data == "":
		return bad("document.source.text.data: String should have at least 1 character")
	case s.Type == "text":
	case s.Type != "base64":
		return bad("document.source: Input tag '%s' found using 'type' does not match any of the expected tags: 'base64', 'text'", s.Type)
	case s.MediaType != "application/pdf":
		return bad("document.source.base64.media_type: Input should be 'application/pdf'")
	case err != nil:
		return bad("document.source.base64: invalid base64 data")
	case !bytes.HasPrefix(data, []byte("%PDF-")):
		return bad("document.source.base64.data: The PDF specified was not valid.")
	}

	return nil
}

// image checks an image of a user or in a tool result.
func (c *anthropicChecker) image(source json.RawMessage) *refusal {
	var s struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	}
	if json.Unmarshal(source, &s) != nil || s.Type != "base64" {
		return bad("image.source: Input should be 'base64'")
	}

	if !slices.Contains(imageTypes, s.MediaType) {
		return bad("image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'")
	}

	data, err := base64.StdEncoding.Strict().DecodeString(s.Data)
	if err != nil || s.Data == "" {
		return bad("image.source.base64: invalid base64 data")
	}

	if len(s.Data) > maxImageData {
		return bad("image.source.base64: image exceeds 5 MB maximum: %d bytes > %d bytes", len(s.Data), maxImageData)
	}

	isWebP := len(data) > 12 && string(data[8:12]) == "WEBP"
	if isWebP && s.MediaType == "image/webp" {
		return c.sides(0)
	}

	size, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return bad("Could not process image")
	}

	if "image/"+format != s.MediaType {
		return bad("image.source.base64.data: The image was specified using the %s media type, but the image appears to be a image/%s image", s.MediaType, format)
	}

	return c.sides(max(size.Width, size.Height))
}

// sides checks the larger side of one more image. If there are many, the limit is lower for all.
func (c *anthropicChecker) sides(side int) *refusal {
	c.images++
	c.side = max(c.side, side)
	switch {
	case c.side > maxImageSide:
		return bad("image.source.base64.data: At least one of the image dimensions exceed max allowed size: %d pixels", maxImageSide)
	case c.images > manyImages && c.side > maxManySide:
		return bad("image.source.base64.data: At least one of the image dimensions exceed max allowed size for many-image requests: %d pixels", maxManySide)
	}

	return nil
}
