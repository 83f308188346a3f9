package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/outbound"
	"github.com/seed93082962/agenthost/internal/pattern"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/sse"
)

// check returns nil if the response is an event stream.
func (c *Client) check(resp *http.Response, cancel context.CancelFunc) error {
	status := resp.StatusCode
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if status == http.StatusOK && (media == "text/event-stream" || media == "" && err != nil && resp.Header.Get("Content-Type") == "") {
		return nil
	}

	var head []byte
	within(errorWait, cancel, func() { head, _ = io.ReadAll(io.LimitReader(resp.Body, errorBytes)) })
	fault := ParseFault(head)

	if status == http.StatusOK {
		if fault.reported() {
			return c.reported(fault, status)
		}

		if err != nil {
			media = "an unknown type"
		}

		return &model.Error{Code: runvalue.ErrorTypeServer, Status: status,
			Message: c.safe(fmt.Sprintf("upstream responded with %s, not an event stream", media))}
	}

	code := statusCode(status)
	switch {
	case status >= 400 && status < 500 && (fault.Code == "rate_limit_exceeded" || fault.Type == "rate_limit_error"):
		code = runvalue.ErrorTypeRateLimit // Groq responds with 413 to a request that exceeds the tokens per minute
	case code == runvalue.ErrorTypeInvalidRequest && fault.tooLong():
		code = runvalue.ErrorTypePromptTooLong
	}

	return &model.Error{
		Code:       code,
		Status:     status,
		Message:    c.message(code, status, fault.Message),
		RetryAfter: outbound.RetryAfter(resp.Header),
	}
}

// fault returns the error of a call whose response had begun.
func (c *Client) fault(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}

	var (
		fault *Fault
		coded *model.Error
		limit *sse.LimitError
	)
	switch {
	case errors.As(err, &fault):
		return c.reported(fault, http.StatusOK)
	case errors.As(err, &coded):
		coded.Status = http.StatusOK
		coded.Message = c.safe(coded.Message)
		return coded
	case errors.As(err, &limit):
		return &model.Error{Code: runvalue.ErrorTypeServer, Status: http.StatusOK,
			Message: "upstream sent an event over the size limit", Err: err}
	case errors.Is(err, ErrEnded):
		return &model.Error{Code: runvalue.ErrorTypeConnection, Status: http.StatusOK,
			Message: "upstream ended its response before it was complete", Err: err}
	default:
		return &model.Error{Code: runvalue.ErrorTypeConnection, Status: http.StatusOK,
			Message: "the connection to upstream was lost during its response", Err: err}
	}
}

// reported returns the error for a fault in a response with status 200.
func (c *Client) reported(fault *Fault, status int) error {
	code := fault.code()
	return &model.Error{Code: code, Status: status, Message: c.message(code, status, fault.Message)}
}

func (c *Client) message(code model.Code, status int, text string) string {
	if code == runvalue.ErrorTypeAuth && status != http.StatusForbidden {
		return "upstream did not accept the API key" // messages of this kind often show a part of the key
	}

	if text = c.safe(text); text != "" {
		return text
	}

	switch {
	case status == http.StatusOK:
		return "upstream returned an error without a message"
	case status == http.StatusForbidden:
		return "upstream refused the request (status 403): check the permissions of the API key"
	case status >= 300 && status < 400:
		return fmt.Sprintf("upstream responded with a redirect (status %d)", status)
	}

	return fmt.Sprintf("upstream responded with status %d", status)
}

// statusCode classifies every status other than 200.
func statusCode(status int) model.Code {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return runvalue.ErrorTypeAuth
	case status == http.StatusTooManyRequests:
		return runvalue.ErrorTypeRateLimit
	case status == http.StatusRequestEntityTooLarge:
		return runvalue.ErrorTypePromptTooLong
	case status == 529:
		return runvalue.ErrorTypeOverloaded
	case status >= 400 && status < 500:
		return runvalue.ErrorTypeInvalidRequest
	default: // 5xx, and statuses that an API does not use: 204, 302
		return runvalue.ErrorTypeServer
	}
}

// reported reports whether the fault has a message or a code.
func (f *Fault) reported() bool { return f.Message != "" || f.Code != "" }

// code classifies a fault in a response with status 200.
func (f *Fault) code() model.Code {
	for _, word := range []string{f.Type, f.Code} {
		switch word {
		case "overloaded_error", "overloaded", "engine_overloaded_error":
			return runvalue.ErrorTypeOverloaded
		case "rate_limit_error", "rate_limit_exceeded", "rate_limit", "insufficient_quota", "too_many_requests",
			"rate_limit_reached_error", "exceeded_current_quota_error", "RateLimitError":
			return runvalue.ErrorTypeRateLimit
		case "authentication_error", "permission_error", "invalid_api_key", "permission_denied", "AuthenticationError":
			return runvalue.ErrorTypeAuth
		case "request_too_large":
			return runvalue.ErrorTypePromptTooLong
		case "timeout_error", "timeout":
			return runvalue.ErrorTypeTimeout
		case "api_error", "server_error", "internal_server_error", "internal_error", "service_unavailable", "engine_error",
			"InternalServerError", "ServiceUnavailableError":
			return runvalue.ErrorTypeServer
		}
	}

	if f.tooLong() {
		return runvalue.ErrorTypePromptTooLong
	}

	if f.Status != 0 {
		return statusCode(f.Status)
	}

	for _, word := range []string{f.Type, f.Code} {
		switch word {
		case "invalid_request_error", "not_found_error", "billing_error", "BadRequestError":
			return runvalue.ErrorTypeInvalidRequest
		}
	}

	return runvalue.ErrorTypeUnknown
}

// tooLong reports whether the fault is an error of a known server for a conversation that exceeds
// the context window.
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
	return slices.ContainsFunc(tooLongPhrases, func(phrase string) bool { return strings.Contains(text, phrase) })
}

var tooLongPhrases = []string{
	"prompt is too long", "input is too long", "request_too_large",
	"maximum context length", "maximum prompt length", "context_length_exceeded",
	"exceed context limit", "exceeds the context window", "exceeds the model's context",
	"exceeds the available context size", "exceeds the maximum number of tokens", "longer than the model's context length",
	"exceeded model token limit",                              // Kimi
	"exceeds max length", "exceeds the maximum allowed input", // GLM
	"context window exceeds limit",      // MiniMax
	"range of input length should be",   // Qwen
	"context length is only",            // vLLM
	"context length of only",            // LM Studio
	"but model only supports up to",     // Vertex
	"tokens + `max_new_tokens` must be", // TGI
}

const (
	maxMessage = 300      // characters of the message of an error
	maxSearch  = 16 << 10 // bytes of a text that are searched for keys and addresses; an event may have megabytes
)

var (
	// keys are API keys as vendors write them, whole or in part ("sk-...abcd", "Bearer x").
	keys = pattern.Compile(`(?i)\b(?:sk|pk|rk|gsk|xai|pplx|hf|AIza)[-_.*][\w.*-]{4,}|\bAIza[\w-]{10,}|\bbearer\s+[\w.~+/=*-]{6,}`)

	// addresses are URLs, hosts with a port, and IP addresses.
	addresses = pattern.Compile(`(?i)\b[a-z][a-z0-9+.-]*://[^\s"'<>]+` +
		`|\b(?:localhost|[a-z0-9_-]+(?:\.[a-z0-9_-]+)+):\d{2,5}\b` +
		`|\b\d{1,3}(?:\.\d{1,3}){3}\b` +
		`|\[[0-9a-f]*:[0-9a-f:.]+\](?::\d{1,5})?`)
)

// safe returns text as one line that contains neither keys nor addresses.
func (c *Client) safe(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	for _, key := range c.secrets {
		text = strings.ReplaceAll(text, key, "[redacted]")
	}

	text = excerpt.Head(text, maxSearch) // contains no part of a secret
	// Control, format (text direction) and separator characters are removed; white space becomes
	// one space.
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
	}), " ")
	text = keys().ReplaceAllString(text, "[redacted]")
	text = addresses().ReplaceAllString(text, "[address]")
	for _, host := range c.hosts {
		text = strings.ReplaceAll(text, host, "[address]")
	}

	if utf8.RuneCountInString(text) > maxMessage {
		text = excerpt.Characters(text, maxMessage-len("...")) + "..."
	}

	return text
}
