package upstream_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/internal/upstream"
	"github.com/seed93082962/agenthost/sse"
)

const authMessage = "upstream did not accept the API key"

func response(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil
		if contentType != "" {
			w.Header().Set("Content-Type", contentType)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestStatus(t *testing.T) {
	upstreamError := func(kind, text string) string {
		return `{"type":"error","error":{"type":"` + kind + `","message":"` + text + `"},"request_id":"req_1"}`
	}
	for name, row := range map[string]struct {
		status  int
		body    string
		code    model.Code
		message string
	}{
		"bad key shows none of it": {401, upstreamError("authentication_error", "invalid x-api-key "+key), model.Code(runvalue.ErrorTypeAuth), authMessage},
		"forbidden":                {403, upstreamError("permission_error", "no access"), model.Code(runvalue.ErrorTypeAuth), "no access"},
		"message is an object": {422, `{"object":"error","message":{"detail":[{"type":"missing","loc":["body","messages",0,"content"],"msg":"Field required"}]},"type":"invalid_request_error","code":null}`,
			model.Code(runvalue.ErrorTypeInvalidRequest), "body.messages.0.content: Field required"},
		"FastAPI": {422, `{"detail":[{"loc":["body","model"],"msg":"field required","type":"value_error.missing"},{"msg":"and more"}]}`,
			model.Code(runvalue.ErrorTypeInvalidRequest), "body.model: field required; and more"},
		"tokens per minute of Groq": {413, `{"error":{"message":"Request too large for model on tokens per minute (TPM): Limit 6000, Requested 9000","type":"tokens","code":"rate_limit_exceeded"}}`,
			model.Code(runvalue.ErrorTypeRateLimit), "Request too large for model on tokens per minute (TPM): Limit 6000, Requested 9000"},
		"OpenRouter, raw text": {400, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"temperature is not supported","provider_name":"X"}}}`,
			model.Code(runvalue.ErrorTypeInvalidRequest), "Provider returned error: temperature is not supported"},
		"OpenRouter, raw JSON": {400, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"detail\":[{\"loc\":[\"body\"],\"msg\":\"bad\"}]}"}}}`,
			model.Code(runvalue.ErrorTypeInvalidRequest), "Provider returned error: body: bad"},
		"OpenRouter, raw object": {400, `{"error":{"message":"Provider returned error","metadata":{"raw":{"error":{"message":"bad"}}}}}`,
			model.Code(runvalue.ErrorTypeInvalidRequest), "Provider returned error: bad"},
		"metadata of another kind": {400, `{"error":{"message":"bad","metadata":"x","base_resp":1}}`, model.Code(runvalue.ErrorTypeInvalidRequest), "bad"},
		"nested without end":       {400, `{"error":{"error":{"error":{"error":{"error":{"error":{"message":"deep"}}}}}}}`, model.Code(runvalue.ErrorTypeInvalidRequest), "upstream responded with status 400"},
		"forbidden, empty":         {403, "", model.Code(runvalue.ErrorTypeAuth), "upstream refused the request (status 403): check the permissions of the API key"},
		"rate limit":               {429, upstreamError("rate_limit_error", "Too many tokens."), model.Code(runvalue.ErrorTypeRateLimit), "Too many tokens."},
		"overloaded":               {529, upstreamError("overloaded_error", "Overloaded"), model.Code(runvalue.ErrorTypeOverloaded), "Overloaded"},
		"server":                   {500, upstreamError("api_error", "Internal server error"), model.Code(runvalue.ErrorTypeServer), "Internal server error"},
		"gateway page":             {502, "<html><h1>10.0.0.1 is down</h1>", model.Code(runvalue.ErrorTypeServer), "upstream responded with status 502"},
		"unavailable, empty":       {503, "", model.Code(runvalue.ErrorTypeServer), "upstream responded with status 503"},
		"gateway timeout":          {504, upstreamError("timeout_error", "Timed out"), model.Code(runvalue.ErrorTypeServer), "Timed out"},
		"bad request": {400, upstreamError("invalid_request_error", "max_tokens: too large"), model.Code(runvalue.ErrorTypeInvalidRequest),
			"max_tokens: too large"},
		"not found": {404, upstreamError("not_found_error", "model: x"), model.Code(runvalue.ErrorTypeInvalidRequest), "model: x"},
		"too large": {413, upstreamError("request_too_large", "Request exceeds the maximum size"), model.Code(runvalue.ErrorTypePromptTooLong),
			"Request exceeds the maximum size"},
		"prompt too long": {400, upstreamError("invalid_request_error", "prompt is too long: 2 tokens > 1 maximum"),
			model.Code(runvalue.ErrorTypePromptTooLong), "prompt is too long: 2 tokens > 1 maximum"},
		"context length code": {400, `{"error":{"message":"Too much.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, model.Code(runvalue.ErrorTypePromptTooLong), "Too much."},
		"context length text": {400, `{"object":"error","message":"This model's maximum context length is 4096 tokens.","code":400}`, model.Code(runvalue.ErrorTypePromptTooLong), "This model's maximum context length is 4096 tokens."},
		"context size of llama.cpp": {400, `{"error":{"code":400,"message":"Too big","type":"exceed_context_size_error"}}`,
			model.Code(runvalue.ErrorTypePromptTooLong), "Too big"},
		"error is a string": {400, `{"error":"model not loaded"}`, model.Code(runvalue.ErrorTypeInvalidRequest), "model not loaded"},
		"detail":            {422, `{"detail":"bad field"}`, model.Code(runvalue.ErrorTypeInvalidRequest), "bad field"},
		"in an array": {400, `[{"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}}]`,
			model.Code(runvalue.ErrorTypeInvalidRequest), "bad"},
		"empty array": {400, `[]`, model.Code(runvalue.ErrorTypeInvalidRequest), "upstream responded with status 400"},
		"cut-off JSON": {400, `{"error":{"message":"secret`, model.Code(runvalue.ErrorTypeInvalidRequest),
			"upstream responded with status 400"},
		"a teapot":   {418, `{}`, model.Code(runvalue.ErrorTypeInvalidRequest), "upstream responded with status 418"},
		"DeepInfra":  {400, `{"error_message":"The model is not available","error_type":"invalid_request_error"}`, model.Code(runvalue.ErrorTypeInvalidRequest), "The model is not available"},
		"no content": {204, "", model.Code(runvalue.ErrorTypeServer), "upstream responded with status 204"},
	} {
		t.Run(name, func(t *testing.T) {
			got := failure(t, client(t, response(row.status, "application/json", row.body)))
			require.Equal(t, model.Error{Code: row.code, Status: row.status, Message: row.message}, *got)
		})
	}
}

func TestNotAStream(t *testing.T) {
	for name, row := range map[string]struct {
		contentType, body string
		code              model.Code
		message           string
	}{
		"page": {"text/html; charset=utf-8", "<p>hello", model.Code(runvalue.ErrorTypeServer), "upstream responded with text/html, not an event stream"},
		"whole JSON": {"application/json", `{"type":"message","content":[]}`, model.Code(runvalue.ErrorTypeServer),
			"upstream responded with application/json, not an event stream"},
		"nonsense type":     {"a b c", "", model.Code(runvalue.ErrorTypeServer), "upstream responded with an unknown type, not an event stream"},
		"an error all same": {"application/json", `{"error":{"message":"Slow down","code":429}}`, model.Code(runvalue.ErrorTypeRateLimit), "Slow down"},
		"no type, no event": {"", "hello", model.Code(runvalue.ErrorTypeConnection), "upstream ended its response before it was complete"},
	} {
		t.Run(name, func(t *testing.T) {
			got := failure(t, client(t, response(200, row.contentType, row.body)))
			require.Equal(t, []any{row.code, 200, row.message}, []any{got.Code, got.Status, got.Message})
		})
	}
}

func TestRetryAfter(t *testing.T) {
	for name, row := range map[string]struct {
		value    string
		from, to time.Duration
	}{
		"seconds":   {"7", 7 * time.Second, 7 * time.Second},
		"fraction":  {"0.25", 250 * time.Millisecond, 250 * time.Millisecond},
		"date":      {time.Now().Add(time.Hour).UTC().Format(http.TimeFormat), 59 * time.Minute, time.Hour},
		"past date": {"Mon, 02 Jan 2006 15:04:05 GMT", 0, 0},
		"negative":  {"-5", 0, 0},
		"huge":      {"1e300", 24 * time.Hour, 24 * time.Hour},
		"nan":       {"NaN", 0, 0},
		"nonsense":  {"soon", 0, 0},
		"absent":    {"", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := failure(t, client(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", row.value)
				w.WriteHeader(http.StatusTooManyRequests)
			}))
			require.Equal(t, model.Code(runvalue.ErrorTypeRateLimit), got.Code)
			require.GreaterOrEqual(t, got.RetryAfter, row.from)
			require.LessOrEqual(t, got.RetryAfter, row.to)
		})
	}
}

func TestMessagesAreSafe(t *testing.T) {
	for name, row := range map[string]struct{ text, want string }{
		"own key":       {"key " + key + " is wrong", "key [redacted] is wrong"},
		"another key":   {"key sk-proj-AbC123_x-9 and sk-...wxyz", "key [redacted] and [redacted]"},
		"bearer":        {"header Bearer abcdef.ghi", "header [redacted]"},
		"URL":           {"see https://docs.example.com/errors?a=b for help", "see [address] for help"},
		"host and port": {"dial llm.internal:8080: refused", "dial [address]: refused"},
		"IP address":    {"dial tcp 10.1.2.3:443", "dial tcp [address]"},
		"IPv6 address":  {"dial tcp [fd00::1]:443", "dial tcp [address]"},
		"own host":      {"Post to 127.0.0.1 failed", "Post to [address] failed"},
		"lines":         {`a\r\n\tb\u0000c\u2028d\u202ee`, "a b c d e"},
		"long":          {strings.Repeat("é", 500), strings.Repeat("é", 297) + "..."},
		"places":        {"messages.0.content.1: text must not be empty", "messages.0.content.1: text must not be empty"},
	} {
		t.Run(name, func(t *testing.T) {
			got := failure(t, client(t, response(400, "application/json", `{"error":{"message":"`+row.text+`"}}`)))
			require.Equal(t, row.want, got.Message)
		})
	}
}

// A secret may contain another one, and a message may be as long as an event.
func TestLongMessagesAndOverlappingSecrets(t *testing.T) {
	const inner = "0123456789"
	text := "a " + inner + "-and-more b " + strings.Repeat("sk-abcdefgh ", 300_000) + inner + "-and-more"
	srv := httptest.NewServer(stream("a", `{"error":{"message":"`+text+`"}}`))
	defer srv.Close()
	for range 5 { // the order of Custom varies
		c := clientOf(t, upstream.Config{
			BaseURL: srv.URL,
			Custom:  map[string]string{"X-A": inner, "X-B": inner + "-and-more", "X-C": inner + "-and"},
		})
		got := failure(t, c)
		c.CloseIdleConnections()
		require.True(t, strings.HasPrefix(got.Message, "a [redacted] b [redacted] [redacted]"), got.Message)
		require.Equal(t, 300, utf8.RuneCountInString(got.Message))
	}
}

func TestFaultInMidStream(t *testing.T) {
	for name, row := range map[string]struct {
		data string
		code model.Code
	}{
		"overloaded":     {`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, model.Code(runvalue.ErrorTypeOverloaded)},
		"rate limit":     {`{"type":"error","error":{"type":"rate_limit_error","message":"x"}}`, model.Code(runvalue.ErrorTypeRateLimit)},
		"authentication": {`{"type":"error","error":{"type":"authentication_error","message":"x"}}`, model.Code(runvalue.ErrorTypeAuth)},
		"permission":     {`{"type":"error","error":{"type":"permission_error","message":"x"}}`, model.Code(runvalue.ErrorTypeAuth)},
		"api error":      {`{"type":"error","error":{"type":"api_error","message":"x"}}`, model.Code(runvalue.ErrorTypeServer)},
		"timeout":        {`{"type":"error","error":{"type":"timeout_error","message":"x"}}`, model.Code(runvalue.ErrorTypeTimeout)},
		"invalid":        {`{"type":"error","error":{"type":"invalid_request_error","message":"x"}}`, model.Code(runvalue.ErrorTypeInvalidRequest)},
		"prompt too long": {`{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long"}}`,
			model.Code(runvalue.ErrorTypePromptTooLong)},
		"code of a limit": {`{"error":{"message":"x","type":"tokens","code":"rate_limit_exceeded"}}`, model.Code(runvalue.ErrorTypeRateLimit)},
		"status as code":  {`{"error":{"message":"Provider returned error","code":502}}`, model.Code(runvalue.ErrorTypeServer)},
		"context length":  {`{"error":{"message":"x","code":"context_length_exceeded"}}`, model.Code(runvalue.ErrorTypePromptTooLong)},
		"unknown":         {`{"error":{"message":"x","type":"mystery_error"}}`, model.Code(runvalue.ErrorTypeUnknown)},
		"nothing":         {`{}`, model.Code(runvalue.ErrorTypeUnknown)},
	} {
		t.Run(name, func(t *testing.T) {
			got := failure(t, client(t, stream("a", row.data)))
			require.Equal(t, row.code, got.Code)
			require.Equal(t, 200, got.Status)
			require.NotEmpty(t, got.Message)
		})
	}
}

func TestUnreachable(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	got := failure(t, clientOf(t, upstream.Config{BaseURL: srv.URL + "/?token=hidden"}))
	require.Equal(t, model.Code(runvalue.ErrorTypeConnection), got.Code)
	require.Zero(t, got.Status)
	require.Equal(t, "the connection to upstream failed", got.Message)
	require.ErrorContains(t, errors.Unwrap(got), "refused")
	require.NotContains(t, errors.Unwrap(got).Error(), "hidden")
}

func TestBrokenStream(t *testing.T) {
	t.Run("ended too early", func(t *testing.T) {
		got := failure(t, client(t, stream("a", "b")))
		require.Equal(t, []any{model.Code(runvalue.ErrorTypeConnection), 200}, []any{got.Code, got.Status})
		require.ErrorIs(t, got, io.ErrUnexpectedEOF)
	})
	t.Run("dropped", func(t *testing.T) {
		got := failure(t, client(t, func(w http.ResponseWriter, r *http.Request) {
			stream("a")(w, r)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}))
		require.Equal(t, []any{model.Code(runvalue.ErrorTypeConnection), 200}, []any{got.Code, got.Status})
		require.ErrorIs(t, got, io.ErrUnexpectedEOF)
	})
	t.Run("too many values", func(t *testing.T) {
		got := failure(t, client(t, stream("a", "["+strings.Repeat("{},", 1<<18)+"{}]", "stop")))
		require.Equal(t, model.Code(runvalue.ErrorTypeServer), got.Code)
		require.Equal(t, "upstream sent an event with too many values", got.Message)
	})
	t.Run("line without end", func(t *testing.T) {
		got := failure(t, client(t, func(w http.ResponseWriter, r *http.Request) {
			stream("a")(w, r)
			filler := []byte(strings.Repeat("x", 1<<20))
			for range 16 {
				if _, err := w.Write(filler); err != nil {
					return
				}
			}
		}))
		require.Equal(t, []any{model.Code(runvalue.ErrorTypeServer), 200}, []any{got.Code, got.Status})
		var limit *sse.LimitError
		require.ErrorAs(t, got, &limit)
	})
}

// llama.cpp writes an error in the middle of a stream as a line that is no field of an event. It
// may arrive in pieces, and a text with the same word is not such a line.
func TestErrorLines(t *testing.T) {
	const line = `error: {"error":{"code":500,"message":"Context is full.","type":"exceed_context_size_error"}}` + "\n\n"
	for name, row := range map[string]struct {
		pieces []string
		want   string
	}{
		"whole":                 {[]string{line}, "Context is full."},
		"in bytes":              {strings.Split(line, ""), "Context is full."},
		"without a line break":  {[]string{strings.TrimSpace(line)}, "Context is full."},
		"CRLF":                  {[]string{strings.ReplaceAll(line, "\n", "\r\n")}, "Context is full."},
		"after another":         {[]string{"error: x\n", line}, "Context is full."},
		"no document":           {[]string{"error: out of ", "memory\n"}, "out of memory"},
		"too long":              {[]string{"error: " + strings.Repeat("x", 10_000), "x\n"}, strings.Repeat("x", 297) + "..."},
		"a piece of an event":   {[]string{": a comment\ndata: x", "error: no"}, "upstream ended its response before it was complete"},
		"the name in two lines": {[]string{"err\n", "or: no\n"}, "upstream ended its response before it was complete"},
	} {
		t.Run(name, func(t *testing.T) {
			got := failure(t, client(t, func(w http.ResponseWriter, r *http.Request) {
				stream("a")(w, r)
				for _, piece := range row.pieces {
					_, _ = io.WriteString(w, piece)
					w.(http.Flusher).Flush()
				}
			}))
			require.Equal(t, row.want, got.Message)
		})
	}
}
