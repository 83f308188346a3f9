package modeltest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// The requests that the Messages API accepts: fields from its reference, rules from its error
// texts.

type anthropicRequest struct {
	Model       string             `json:"model"`
	MaxTokens   int                `json:"max_tokens"`
	Messages    []anthropicMessage `json:"messages"`
	System      json.RawMessage    `json:"system"`
	Stream      bool               `json:"stream"`
	Temperature *float64           `json:"temperature"`
	Thinking    *struct {
		Type    string `json:"type"`
		Budget  int    `json:"budget_tokens"`
		Display string `json:"display"`
	} `json:"thinking"`
	Tools []struct {
		Name         string          `json:"name"`
		Description  string          `json:"description"`
		InputSchema  json.RawMessage `json:"input_schema"`
		CacheControl json.RawMessage `json:"cache_control"`
		Type         string          `json:"type"`
	} `json:"tools"`

	CacheControl  json.RawMessage `json:"cache_control"`
	Container     json.RawMessage `json:"container"`
	InferenceGeo  json.RawMessage `json:"inference_geo"`
	Metadata      json.RawMessage `json:"metadata"`
	OutputConfig  json.RawMessage `json:"output_config"`
	ServiceTier   json.RawMessage `json:"service_tier"`
	StopSequences json.RawMessage `json:"stop_sequences"`
	ToolChoice    json.RawMessage `json:"tool_choice"`
	TopK          json.RawMessage `json:"top_k"`
	TopP          json.RawMessage `json:"top_p"`
}

type anthropicMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type anthropicBlock struct {
	Type         string          `json:"type"`
	Text         string          `json:"text"`
	Thinking     *string         `json:"thinking"`
	Signature    string          `json:"signature"`
	Data         string          `json:"data"`
	ID           string          `json:"id"`
	Name         string          `json:"name"`
	Input        json.RawMessage `json:"input"`
	ToolUseID    string          `json:"tool_use_id"`
	Content      json.RawMessage `json:"content"`
	IsError      bool            `json:"is_error"`
	CacheControl json.RawMessage `json:"cache_control"`
	Source       json.RawMessage `json:"source"`
	Citations    json.RawMessage `json:"citations"`
	Title        string          `json:"title"`
	Context      string          `json:"context"`
}

// anthropicFields returns the fields of a type of block, nil for an unknown type.
func anthropicFields(blockType string) []string {
	switch blockType {
	case "text":
		return []string{"type", "text", "cache_control", "citations"}
	case "image":
		return []string{"type", "source", "cache_control"}
	case "document":
		return []string{"type", "source", "title", "context", "citations", "cache_control"}
	case "thinking":
		return []string{"type", "thinking", "signature"}
	case "redacted_thinking":
		return []string{"type", "data"}
	case "tool_use":
		return []string{"type", "id", "name", "input", "cache_control"}
	case "tool_result":
		return []string{"type", "tool_use_id", "content", "is_error", "cache_control"}
	}

	return nil
}

var (
	anthropicToolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
	anthropicToolID   = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
)

func bad(format string, a ...any) *refusal {
	return &refusal{http.StatusBadRequest, fmt.Sprintf(format, a...)}
}

// endpoint checks what both protocols have in common.
func endpoint(r *Request, path, notFound string) *refusal {
	switch {
	case r.Path != path:
		return &refusal{http.StatusNotFound, notFound}
	case r.Method != http.MethodPost:
		return &refusal{http.StatusMethodNotAllowed, "Method Not Allowed"}
	case !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json"):
		return bad("Content-Type: the header must be application/json")
	case !json.Valid(r.Body):
		return bad("The request body is not valid JSON")
	}

	return nil
}

// decode decodes raw into v. It rejects unknown fields.
func decode(raw []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}

func (anthropic) check(r *Request) (bool, *refusal) {
	if refused := endpoint(r, "/v1/messages", "Not Found"); refused != nil {
		return false, refused
	}

	return checkMessages(r, false)
}

// checkMessages checks a request of the Messages API. Servers that do not sign thinking require it
// without a signature, and accept any id of a call.
func checkMessages(r *Request, unsigned bool) (bool, *refusal) {
	if r.Header.Get("Anthropic-Version") == "" {
		return false, bad("anthropic-version: header is required")
	}

	var q anthropicRequest
	if err := decode(r.Body, &q); err != nil {
		return false, bad("%v: Extra inputs are not permitted, or not of their type", err)
	}

	c := anthropicChecker{unsigned: unsigned}
	if q.Thinking != nil {
		c.thinking = q.Thinking.Type
	}

	for _, check := range []func(*anthropicRequest) *refusal{c.thinks, c.settings, c.tools, c.output, c.system, c.messages} {
		if refused := check(&q); refused != nil {
			return false, refused
		}
	}

	if c.cached > 4 {
		return false, bad("A maximum of 4 blocks with cache_control may be provided. Found %d.", c.cached)
	}

	return false, nil
}

type anthropicChecker struct {
	thinking string // type, "" for none
	unsigned bool
	all      []anthropicMessage
	cached   int      // blocks with cache_control
	used     []string // ids of all tool calls
	images   int
	side     int // the largest one of all images, in pixels
}

func (c *anthropicChecker) settings(q *anthropicRequest) *refusal {
	switch {
	case q.Model == "":
		return bad("model: Field required")
	case q.MaxTokens < 1:
		return bad("max_tokens: Input should be greater than or equal to 1")
	case !q.Stream:
		return bad("modeltest: stream: the request must ask for a stream")
	case q.Temperature != nil && (*q.Temperature < 0 || *q.Temperature > 1):
		return bad("temperature: range: 0..1")
	case c.on() && q.Temperature != nil && *q.Temperature != 1:
		return bad("`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.")
	}

	return nil
}

// on reports whether thinking is enabled.
func (c *anthropicChecker) on() bool { return c.thinking == "enabled" || c.thinking == "adaptive" }

// thinks checks the settings of thinking.
func (c *anthropicChecker) thinks(q *anthropicRequest) *refusal {
	var output struct {
		Effort string `json:"effort"`
	}
	if present(q.OutputConfig) && (json.Unmarshal(q.OutputConfig, &output) != nil ||
		!slices.Contains([]string{"", "low", "medium", "high", "xhigh", "max"}, output.Effort)) {
		return bad("output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'")
	}

	switch {
	case c.thinking == "" || c.thinking == "disabled":
	case !c.on():
		return bad("thinking: Input tag '%s' found using 'type' does not match any of the expected tags: 'adaptive', 'disabled', 'enabled'", c.thinking)
	case c.thinking == "adaptive" && q.Thinking.Budget != 0:
		return bad("thinking.adaptive.budget_tokens: Extra inputs are not permitted")
	case c.thinking == "adaptive":
	case q.Thinking.Budget < 1024:
		return bad("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
	case q.Thinking.Budget >= q.MaxTokens:
		return bad("`max_tokens` must be greater than `thinking.budget_tokens`.")
	}

	return nil
}

func (c *anthropicChecker) tools(q *anthropicRequest) *refusal {
	names := make(map[string]bool)
	for i, t := range q.Tools {
		c.cache(t.CacheControl)
		if !anthropicToolName.MatchString(t.Name) {
			return bad("tools.%d.custom.name: String should match pattern '%s'", i, anthropicToolName)
		}

		if names[t.Name] {
			return bad("tools: Tool names must be unique.")
		}

		names[t.Name] = true
		if t.Type == "" || t.Type == "custom" {
			if refused := anthropicSchema(i, t.InputSchema); refused != nil {
				return refused
			}
		}
	}

	return nil
}

func (c *anthropicChecker) system(q *anthropicRequest) *refusal {
	if len(q.System) == 0 {
		return nil
	}

	blocks, wrong := anthropicContent(q.System)
	if wrong != "" {
		return bad("system: %s", wrong)
	}

	if q.System[0] == '"' {
		return nil // the API accepts an empty string
	}

	for i, b := range blocks {
		if b.Type != "text" {
			return bad("system.%d.type: Input should be 'text'", i)
		}

		if b.Text == "" {
			return bad("system: text content blocks must be non-empty")
		}

		c.cache(b.CacheControl)
	}

	return nil
}

func (c *anthropicChecker) cache(control json.RawMessage) {
	if present(control) {
		c.cached++
	}
}

func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// anthropicContent decodes content, which is a string or an array of blocks. It returns a message
// if it is invalid.
func anthropicContent(raw json.RawMessage) (blocks []anthropicBlock, wrong string) {
	if len(raw) > 0 && raw[0] == '"' {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, err.Error()
		}

		return []anthropicBlock{{Type: "text", Text: text}}, ""
	}

	var fields []map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, "Input should be a valid array"
	}

	if err := json.Unmarshal(raw, &blocks); err != nil {
		return nil, err.Error()
	}

	for i := range blocks {
		known := anthropicFields(blocks[i].Type)
		if known == nil {
			return nil, fmt.Sprintf("%d: Input tag '%s' does not match any of the expected tags", i, blocks[i].Type)
		}

		for name := range fields[i] {
			if !slices.Contains(known, name) {
				return nil, fmt.Sprintf("%d.%s.%s: Extra inputs are not permitted", i, blocks[i].Type, name)
			}
		}
	}

	return blocks, ""
}
