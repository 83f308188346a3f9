package modeltest

import (
	"fmt"
	"net/http"

	"github.com/seed93082962/agenthost/runtime/model"
)

// anthropic is the Messages API, version 2023-06-01, streaming.
type anthropic struct{}

func (anthropic) base() string { return "" }

func (anthropic) header(h http.Header) {
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("Request-Id", "req_modeltest")
}

func (anthropic) encoder(bool) encoder { return &anthropicEncoder{index: -1} }

func (anthropic) failure(status int, message string) []byte {
	kind, text := "invalid_request_error", "Invalid request"
	switch {
	case status == http.StatusUnauthorized:
		kind, text = "authentication_error", "invalid x-api-key"
	case status == http.StatusForbidden:
		kind, text = "permission_error", "Your API key does not have permission to use the specified resource."
	case status == http.StatusNotFound:
		kind, text = "not_found_error", "Not Found"
	case status == http.StatusRequestEntityTooLarge:
		kind, text = "request_too_large", "Request exceeds the maximum size"
	case status == http.StatusTooManyRequests:
		kind, text = "rate_limit_error", "This request would exceed your organization's rate limit."
	case status == http.StatusGatewayTimeout:
		kind, text = "timeout_error", "Request timed out"
	case status == 529:
		kind, text = "overloaded_error", "Overloaded"
	case status >= 500:
		kind, text = "api_error", "Internal server error"
	}

	if message != "" {
		text = message
	}

	return fmt.Appendf(nil, `{"type":"error","error":{"type":%s,"message":%s},"request_id":"req_modeltest"}`,
		quote(kind), quote(text))
}

func (a anthropic) tooLong() (int, []byte) {
	return http.StatusBadRequest, a.failure(http.StatusBadRequest, "prompt is too long: 208310 tokens > 200000 maximum")
}

// anthropicEncoder tracks the open content block.
type anthropicEncoder struct {
	index int // of the latest block
	open  kind
}

func anthropicEvent(b []byte, name, data string) []byte {
	return fmt.Appendf(b, "event: %s\ndata: %s\n\n", name, data)
}

func anthropicUsage(u model.Usage) string {
	return fmt.Sprintf(`{"input_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,"output_tokens":%d}`,
		u.InputTokens, u.CacheCreationInputTokens, u.CacheReadInputTokens, u.OutputTokens)
}

func (e *anthropicEncoder) begin(u model.Usage) []byte {
	// At the start upstream counts only the first token of the response.
	u.OutputTokens = min(u.OutputTokens, 1)
	b := anthropicEvent(nil, "message_start", fmt.Sprintf(`{"type":"message_start","message":{"id":"msg_modeltest","type":"message",`+
		`"role":"assistant","model":"modeltest","content":[],"stop_reason":null,"stop_sequence":null,"usage":%s}}`, anthropicUsage(u)))
	return append(b, e.ping()...)
}

func (e *anthropicEncoder) ping() []byte { return anthropicEvent(nil, "ping", `{"type":"ping"}`) }

func (e *anthropicEncoder) text(s string) []byte {
	b := e.block(kindText, `{"type":"text","text":""}`)
	return e.delta(b, `{"type":"text_delta","text":`+quote(s)+`}`)
}

func (e *anthropicEncoder) thinking(s string) []byte {
	b := e.block(kindThinking, `{"type":"thinking","thinking":"","signature":""}`)
	return e.delta(b, `{"type":"thinking_delta","thinking":`+quote(s)+`}`)
}

func (e *anthropicEncoder) signature(s string) []byte {
	var b []byte
	if e.open != kindSignature {
		b = e.block(kindThinking, `{"type":"thinking","thinking":"","signature":""}`)
		e.open = kindSignature // more thinking makes a new block
	}

	return e.delta(b, `{"type":"signature_delta","signature":`+quote(s)+`}`)
}

func (e *anthropicEncoder) redacted(data string) []byte {
	return append(e.close(), e.block(kindRedacted, `{"type":"redacted_thinking","data":`+quote(data)+`}`)...)
}

func (e *anthropicEncoder) toolCall(id, name string) []byte {
	b := append(e.close(), e.block(kindToolCall, `{"type":"tool_use","id":`+quote(id)+`,"name":`+quote(name)+`,"input":{}}`)...)
	return e.delta(b, `{"type":"input_json_delta","partial_json":""}`)
}

func (e *anthropicEncoder) toolInput(s string) []byte {
	return e.delta(nil, `{"type":"input_json_delta","partial_json":`+quote(s)+`}`)
}

func (e *anthropicEncoder) fail(errorType string) []byte {
	text := errorType
	switch errorType {
	case "overloaded_error":
		text = "Overloaded"
	case "api_error":
		text = "Internal server error"
	}

	return anthropicEvent(nil, "error", `{"type":"error","error":{"details":null,"type":`+quote(errorType)+`,"message":`+quote(text)+
		`},"request_id":"req_modeltest"}`)
}

func (e *anthropicEncoder) stop(reason string, u model.Usage) []byte {
	b := anthropicEvent(e.close(), "message_delta", fmt.Sprintf(
		`{"type":"message_delta","delta":{"stop_reason":%s,"stop_sequence":null},"usage":%s}`, quote(reason), anthropicUsage(u)))
	return anthropicEvent(b, "message_stop", `{"type":"message_stop"}`)
}

// block begins a content block, unless one of that kind is open.
func (e *anthropicEncoder) block(k kind, content string) []byte {
	if e.open == k {
		return nil
	}

	b := e.close()
	e.index++
	e.open = k
	return anthropicEvent(b, "content_block_start",
		fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, e.index, content))
}

func (e *anthropicEncoder) delta(b []byte, delta string) []byte {
	return anthropicEvent(b, "content_block_delta",
		fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":%s}`, e.index, delta))
}

func (e *anthropicEncoder) close() []byte {
	if e.open == 0 {
		return nil
	}

	e.open = 0
	return anthropicEvent(nil, "content_block_stop", fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, e.index))
}
