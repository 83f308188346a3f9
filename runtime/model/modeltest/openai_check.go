package modeltest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The requests that Chat Completions accepts. If compatible servers are stricter than OpenAI (an
// empty user message, a conversation that does not begin with the user), the stricter rule applies.

type openaiRequest struct {
	Model         string          `json:"model"`
	Messages      []openaiMessage `json:"messages"`
	Stream        bool            `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Temperature         *float64        `json:"temperature"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	ToolChoice          json.RawMessage `json:"tool_choice"`
	ResponseFormat      json.RawMessage `json:"response_format"`
	Tools               []struct {
		Type     string `json:"type"`
		Function struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
}

type openaiMessage struct {
	Role       string           `json:"role"`
	Content    json.RawMessage  `json:"content"`
	ToolCalls  []openaiToolCall `json:"tool_calls"`
	ToolCallID string           `json:"tool_call_id"`
}

type openaiToolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string  `json:"name"`
		Arguments *string `json:"arguments"`
	} `json:"function"`
}

var openaiToolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func (openai) check(r *Request) (bool, *refusal) {
	usage, refused := checkChat(r, "/v1/chat/completions")
	if refused != nil {
		return usage, refused
	}

	q, refused := newProfileRequest(r)
	if refused == nil {
		refused = longCallIDs(r, q)
	}

	if refused == nil {
		refused = onlyFields(append([]string{"reasoning_content"}, openaiMessageFields...), openaiCallFields, openaiUnknown)(r, q)
	}

	return usage, refused
}

// checkChat checks what every server that speaks Chat Completions has in common.
func checkChat(r *Request, path string) (bool, *refusal) {
	if refused := endpoint(r, path, fmt.Sprintf("Invalid URL (%s %s)", r.Method, r.Path)); refused != nil {
		return false, refused
	}

	var q openaiRequest
	if err := json.Unmarshal(r.Body, &q); err != nil {
		return false, bad("We could not parse the JSON body of your request: %v", err)
	}

	for _, check := range []func(*openaiRequest) *refusal{openaiSettings, openaiTools, openaiOutput, openaiMessages} {
		if refused := check(&q); refused != nil {
			return false, refused
		}
	}

	return q.StreamOptions.IncludeUsage, nil
}

func openaiSettings(q *openaiRequest) *refusal {
	switch {
	case q.Model == "":
		return bad("you must provide a model parameter")
	case !q.Stream:
		return bad("modeltest: stream: the request must ask for a stream")
	case q.Temperature != nil && (*q.Temperature < 0 || *q.Temperature > 2):
		return bad("Invalid 'temperature': expected a value between 0 and 2.")
	case q.MaxTokens != nil && q.MaxCompletionTokens != nil:
		return bad("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
	case q.MaxTokens != nil && *q.MaxTokens < 1, q.MaxCompletionTokens != nil && *q.MaxCompletionTokens < 1:
		return bad("Invalid 'max_tokens': integer below minimum value. Expected a value >= 1.")
	}

	return nil
}

func openaiTools(q *openaiRequest) *refusal {
	if q.Tools != nil && len(q.Tools) == 0 {
		return bad("Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.")
	}

	if len(q.Tools) > 128 {
		return bad("Invalid 'tools': array too long. Expected an array with maximum length 128.")
	}

	for i, t := range q.Tools {
		switch {
		case t.Type != "function":
			return bad("Invalid value: '%s'. Supported values are: 'function' (tools[%d].type).", t.Type, i)
		case !openaiToolName.MatchString(t.Function.Name):
			return bad("Invalid 'tools[%d].function.name': string does not match pattern. Expected a string that matches the pattern '%s'.", i, openaiToolName)
		}

		if present(t.Function.Parameters) {
			if refused := openaiSchema(t.Function.Name, t.Function.Parameters); refused != nil {
				return refused
			}
		}
	}

	return nil
}

func openaiMessages(q *openaiRequest) *refusal {
	var open []string // calls that have no result yet
	last := ""        // role of the previous message that is not a system message
	for i := range q.Messages {
		m := &q.Messages[i]
		if m.Role != "tool" && len(open) > 0 {
			return openaiUnanswered(open)
		}

		if refused := m.check(i, last); refused != nil {
			return refused
		}

		switch m.Role {
		case "system", "developer":
			continue
		case "tool":
			j := slices.Index(open, m.ToolCallID)
			if j < 0 {
				return bad("Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.")
			}

			open = slices.Delete(open, j, j+1)
		case "assistant":
			for _, call := range m.ToolCalls {
				open = append(open, call.ID)
			}
		}

		last = m.Role
	}

	if len(open) > 0 {
		return openaiUnanswered(open)
	}

	if last != "user" && last != "tool" {
		return bad("modeltest: messages: the conversation must end with a user or tool message")
	}

	return nil
}

func openaiUnanswered(ids []string) *refusal {
	return bad("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "+
		"The following tool_call_ids did not have response messages: %s", strings.Join(ids, ", "))
}

// check validates message i. last is the role of the previous message, or "" for the first one.
func (m *openaiMessage) check(i int, last string) *refusal {
	text, refused := m.text(i)
	if refused != nil {
		return refused
	}

	switch m.Role {
	case "system", "developer":
		if last != "" {
			return bad("modeltest: messages[%d]: system messages must stand first", i)
		}
	case "user":
		if strings.TrimSpace(text) == "" {
			return bad("modeltest: messages[%d]: a user message must not be empty", i)
		}
	case "tool":
		if !present(m.Content) {
			return bad("Invalid value for 'content': expected a string, got null. (messages[%d])", i)
		}
	case "assistant":
		if last == "" {
			return bad("modeltest: messages[%d]: the conversation must begin with a user message", i)
		}

		if text == "" && len(m.ToolCalls) == 0 {
			return bad("Invalid value for 'content': expected a string, got null. (messages[%d])", i)
		}

		return m.calls(i)
	default:
		return bad("Invalid value: '%s'. Supported values are: 'system', 'assistant', 'user', 'tool', and 'developer'. (messages[%d].role)", m.Role, i)
	}

	return nil
}

// text joins the content, which is a string, an array of parts, or null.
func (m *openaiMessage) text(i int) (string, *refusal) {
	if !present(m.Content) {
		return "", nil
	}

	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return text, nil
	}

	var parts []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ImageURL struct {
			URL string `json:"url"`
		} `json:"image_url"`
		File struct {
			Name string `json:"filename"`
			Data string `json:"file_data"`
		} `json:"file"`
	}
	if json.Unmarshal(m.Content, &parts) != nil {
		return "", bad("Invalid type for 'messages[%d].content': expected one of a string or array of objects.", i)
	}

	for _, p := range parts {
		if p.Type == "image_url" {
			media, data, ok := strings.Cut(strings.TrimPrefix(p.ImageURL.URL, "data:"), ";base64,")
			if _, err := base64.StdEncoding.Strict().DecodeString(data); !ok || err != nil || !slices.Contains(imageTypes, media) {
				return "", bad("Invalid 'messages[%d].content': You uploaded an unsupported image.", i)
			}

			if m.Role != "user" {
				return "", bad("Invalid 'messages[%d]'. Image URLs are only allowed for messages with role 'user', but this message with role '%s' contains an image URL.", i, m.Role)
			}
		}

		if p.Type == "file" {
			data, ok := strings.CutPrefix(p.File.Data, "data:application/pdf;base64,")
			bytes, err := base64.StdEncoding.Strict().DecodeString(data)
			if !ok || err != nil || !strings.HasPrefix(string(bytes), "%PDF-") || p.File.Name == "" || m.Role != "user" {
				return "", bad("Invalid 'messages[%d].content': You uploaded an unsupported file.", i)
			}
		}

		if p.Type != "text" {
			text += p.Type
			continue
		}

		if p.Text == "" {
			return "", bad("modeltest: messages[%d]: a text part must not be empty", i)
		}

		text += p.Text
	}

	return text, nil
}

func (m *openaiMessage) calls(i int) *refusal {
	if m.ToolCalls != nil && len(m.ToolCalls) == 0 {
		return bad("Invalid 'messages[%d].tool_calls': empty array. Expected an array with minimum length 1, but got an empty array instead.", i)
	}

	var ids []string
	for j, c := range m.ToolCalls {
		switch {
		case c.ID == "":
			return bad("Invalid 'messages[%d].tool_calls[%d].id': empty string. Expected a string with minimum length 1.", i, j)
		case slices.Contains(ids, c.ID):
			return bad("Duplicate value for 'tool_call_id' of '%s' in messages[%d].", c.ID, i)
		case c.Type != "function":
			return bad("Missing required parameter: 'messages[%d].tool_calls[%d].type'.", i, j)
		case !openaiToolName.MatchString(c.Function.Name):
			return bad("Invalid 'messages[%d].tool_calls[%d].function.name': string does not match pattern '%s'.", i, j, openaiToolName)
		case c.Function.Arguments == nil:
			return bad("Missing required parameter: 'messages[%d].tool_calls[%d].function.arguments'.", i, j)
		case json.Unmarshal([]byte(*c.Function.Arguments), &map[string]json.RawMessage{}) != nil: // Ollama and chat templates parse them
			return bad("modeltest: messages[%d].tool_calls[%d].function.arguments: not a JSON object", i, j)
		}

		ids = append(ids, c.ID)
	}

	return nil
}
