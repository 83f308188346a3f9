package upstream

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/seed93082962/agenthost/runtime/model"
)

// Fault is what upstream says of an error, in a body or in mid-stream. As an error it is for the
// [Client] alone, which sorts it and makes its message safe.
type Fault struct {
	Type    string
	Code    string // a number too, in digits
	Message string
}

func (f *Fault) Error() string { return "upstream told an error of type " + f.Type }

// ParseFault reads the shapes that are in use: {"error":{"type","code","message"}}, the same
// without the outer object or in an array of one, {"error":"text"}, {"message"} and {"detail"}.
// Anything else gives an empty fault.
func ParseFault(raw []byte) *Fault {
	raw = bytes.TrimSpace(raw)
	if len(raw) > 0 && raw[0] == '[' {
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
			return &Fault{}
		}
		raw = list[0]
	}
	var doc struct {
		Error, Message, Detail, Type, Code json.RawMessage
	}
	if json.Unmarshal(raw, &doc) != nil {
		return &Fault{}
	}
	if inner := bytes.TrimSpace(doc.Error); len(inner) > 0 && inner[0] == '{' {
		return ParseFault(inner)
	}
	f := &Fault{Type: scalar(doc.Type), Code: scalar(doc.Code)}
	for _, raw := range []json.RawMessage{doc.Message, doc.Error, doc.Detail} {
		if f.Message == "" {
			f.Message = scalar(raw)
		}
	}
	return f
}

// scalar is the text of a JSON string or number, "" for anything else.
func scalar(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var number json.Number
	if json.Unmarshal(raw, &number) == nil {
		return number.String()
	}
	return ""
}

func (f *Fault) told() bool { return f.Message != "" || f.Code != "" }

// code sorts a fault that came without a status of its own.
func (f *Fault) code() model.Code {
	for _, word := range []string{f.Type, f.Code} {
		switch word {
		case "overloaded_error", "overloaded":
			return model.CodeOverloaded
		case "rate_limit_error", "rate_limit_exceeded", "rate_limit", "insufficient_quota", "too_many_requests":
			return model.CodeRateLimit
		case "authentication_error", "permission_error", "invalid_api_key", "permission_denied":
			return model.CodeAuth
		case "request_too_large":
			return model.CodePromptTooLong
		case "timeout_error", "timeout":
			return model.CodeTimeout
		case "api_error", "server_error", "internal_server_error", "internal_error", "service_unavailable", "engine_error":
			return model.CodeServer
		}
	}
	if f.tooLong() {
		return model.CodePromptTooLong
	}
	switch f.Type {
	case "invalid_request_error", "not_found_error", "billing_error", "BadRequestError":
		return model.CodeInvalidRequest
	}
	if status, err := strconv.Atoi(f.Code); err == nil && status >= http.StatusBadRequest && status < 600 {
		return statusCode(status)
	}
	return model.CodeUnknown
}

// tooLong knows the ways in which servers say that a conversation is over the context window.
func (f *Fault) tooLong() bool {
	switch f.Code {
	case "context_length_exceeded", "string_above_max_length":
		return true
	}
	switch f.Type {
	case "request_too_large", "exceed_context_size_error", "context_length_exceeded":
		return true
	}
	text := strings.ToLower(f.Message)
	for _, phrase := range []string{
		"prompt is too long", "input is too long", "request_too_large",
		"maximum context length", "maximum prompt length", "context_length_exceeded",
		"exceed context limit", "exceeds the context window", "exceeds the model's context",
		"exceeds the available context size", "exceeds the maximum number of tokens", "longer than the model's context length",
	} {
		if strings.Contains(text, phrase) {
			return true
		}
	}
	return false
}

// maxMessage is in characters.
const maxMessage = 300

var (
	// secrets are keys as vendors write them, whole or in part ("sk-...abcd", "Bearer x").
	secrets = regexp.MustCompile(`(?i)\b(?:sk|pk|rk|gsk|xai|pplx|hf|AIza)[-_.*][\w.*-]{4,}|\bAIza[\w-]{10,}|\bbearer\s+[\w.~+/=*-]{6,}`)

	// addresses are URLs, hosts with a port, and IP addresses.
	addresses = regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*://[^\s"'<>]+` +
		`|\b(?:localhost|[a-z0-9_-]+(?:\.[a-z0-9_-]+)+):\d{2,5}\b` +
		`|\b\d{1,3}(?:\.\d{1,3}){3}\b` +
		`|\[[0-9a-f]*:[0-9a-f:.]+\](?::\d{1,5})?`)
)

// safe makes one line of text that shows neither key nor address.
func (c *Client) safe(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if c.key != "" {
		text = strings.ReplaceAll(text, c.key, "[redacted]")
	}
	// Control, format (text direction) and separator characters go; white space becomes one space.
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
	}), " ")
	text = secrets.ReplaceAllString(text, "[redacted]")
	text = addresses.ReplaceAllString(text, "[address]")
	for _, host := range c.hosts {
		text = strings.ReplaceAll(text, host, "[address]")
	}
	if runes := []rune(text); len(runes) > maxMessage {
		text = string(runes[:maxMessage-3]) + "..."
	}
	return text
}
