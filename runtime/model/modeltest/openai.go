package modeltest

import (
	"fmt"
	"net/http"

	"github.com/seed93082962/agenthost/runtime/model"
)

// openai is the Chat Completions API, streaming, with the reasoning_content that compatible
// servers send for thinking.
type openai struct{}

func (openai) base() string { return "/v1" }

func (openai) header(h http.Header) {
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Request-Id", "req_modeltest")
}

func (openai) encoder(usage bool) encoder { return &openaiEncoder{usage: usage, index: -1} }

func (openai) failure(status int, message string) []byte {
	kind, text, code := "invalid_request_error", "Invalid request.", "null"
	switch {
	case status == http.StatusUnauthorized:
		text, code = "Incorrect API key provided. You can find your API key at https://platform.openai.com/account/api-keys.", `"invalid_api_key"`
	case status == http.StatusForbidden:
		text, code = "You are not allowed to use this model.", `"model_not_found"`
	case status == http.StatusTooManyRequests:
		kind, text, code = "requests", "Rate limit reached for requests.", `"rate_limit_exceeded"`
	case status == http.StatusServiceUnavailable || status == 529:
		kind, text = "server_error", "The engine is currently overloaded, please try again later."
	case status >= 500:
		kind, text = "server_error", "The server had an error while processing your request. Sorry about that!"
	}

	if message != "" {
		text = message
	}

	return openaiError(kind, text, code)
}

func openaiError(kind, text, code string) []byte {
	return fmt.Appendf(nil, `{"error":{"message":%s,"type":%s,"param":null,"code":%s}}`, quote(text), quote(kind), code)
}

func (openai) tooLong() (int, []byte) {
	return http.StatusBadRequest, openaiError("invalid_request_error", "This model's maximum context length is 128000 tokens. "+
		"However, your messages resulted in 130912 tokens. Please reduce the length of the messages.", `"context_length_exceeded"`)
}

type openaiEncoder struct {
	usage bool // the client requested it, and every chunk has the field
	index int  // of the latest tool call
}

func (e *openaiEncoder) chunk(b []byte, choices, usage string) []byte {
	b = append(b, `data: {"id":"chatcmpl-modeltest","object":"chat.completion.chunk","created":1735689600,"model":"modeltest",`+
		`"service_tier":"default","system_fingerprint":"fp_modeltest","choices":`...)
	b = append(b, choices...)
	if e.usage {
		b = append(b, `,"usage":`...)
		b = append(b, usage...)
	}

	return append(b, "}\n\n"...)
}

func (e *openaiEncoder) delta(delta string) []byte {
	return e.chunk(nil, `[{"index":0,"delta":`+delta+`,"logprobs":null,"finish_reason":null}]`, "null")
}

func (e *openaiEncoder) begin(model.Usage) []byte {
	return e.delta(`{"role":"assistant","content":"","refusal":null}`)
}

func (e *openaiEncoder) text(s string) []byte { return e.delta(`{"content":` + quote(s) + `}`) }

func (e *openaiEncoder) thinking(s string) []byte {
	return e.delta(`{"content":null,"reasoning_content":` + quote(s) + `}`)
}

func (e *openaiEncoder) signature(string) []byte { return nil }

func (e *openaiEncoder) redacted(string) []byte { return nil }

func (e *openaiEncoder) toolCall(id, name string) []byte {
	e.index++
	return e.delta(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%s,"type":"function","function":{"name":%s,"arguments":""}}]}`,
		e.index, quote(id), quote(name)))
}

func (e *openaiEncoder) toolInput(s string) []byte {
	return e.delta(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, e.index, quote(s)))
}

func (e *openaiEncoder) ping() []byte { return []byte(": ping\n\n") }

func (e *openaiEncoder) fail(errorType string) []byte {
	kind, text, code := errorType, errorType, "null"
	switch errorType {
	case "overloaded_error":
		kind, text = "server_error", "The engine is currently overloaded, please try again later."
	case "api_error":
		kind, text = "server_error", "The server had an error while processing your request. Sorry about that!"
	case "rate_limit_error":
		kind, text, code = "requests", "Rate limit reached for requests.", `"rate_limit_exceeded"`
	}

	return fmt.Appendf(nil, "data: %s\n\n", openaiError(kind, text, code))
}

func (e *openaiEncoder) stop(reason string, u model.Usage) []byte {
	switch reason {
	case model.StopEndTurn, "stop_sequence":
		reason = "stop"
	case model.StopToolUse:
		reason = "tool_calls"
	case model.StopMaxTokens:
		reason = "length"
	case model.StopRefusal:
		reason = "content_filter"
	}

	b := e.chunk(nil, `[{"index":0,"delta":{},"logprobs":null,"finish_reason":`+quote(reason)+`}]`, "null")
	if e.usage {
		prompt := u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens
		b = e.chunk(b, "[]", fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,`+
			`"prompt_tokens_details":{"cached_tokens":%d},"completion_tokens_details":{"reasoning_tokens":%d}}`,
			prompt, u.OutputTokens, prompt+u.OutputTokens, u.CacheReadInputTokens, u.ReasoningTokens))
	}

	return append(b, "data: [DONE]\n\n"...)
}
