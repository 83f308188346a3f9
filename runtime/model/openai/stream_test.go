package openai_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/openai"
)

// TestStreams reads responses as servers send them, split in two at every place and byte by byte.
func TestStreams(t *testing.T) {
	for name, want := range map[string]collect.Response{
		"text.sse": {
			Message: model.Message{Role: model.RoleAssistant, Content: []model.Block{
				{Type: model.BlockText, Text: "Hello! \"Naïve\" 😀\nwe are"},
			}},
			Usage:      model.Usage{InputTokens: 200, OutputTokens: 15, CacheReadInputTokens: 1024},
			StopReason: model.StopEndTurn,
		},
		"reasoning_tools.sse": {
			Message: model.Message{Role: model.RoleAssistant, Content: []model.Block{
				{Type: model.BlockThinking, Text: "I need the weather.\nTwo calls.", Field: "reasoning_content"},
				{Type: model.BlockText, Text: "Okay."},
				{Type: model.BlockToolUse, ID: "call_DdmO9pD3xa9XTPNJ32zg2hcA", Name: "get_weather",
					Input: []byte(`{"location":"Paris, France"}`)},
				{Type: model.BlockToolUse, ID: "call_2", Name: "now", Input: []byte(`{}`)},
			}},
			Usage:      model.Usage{InputTokens: 30, OutputTokens: 7},
			StopReason: model.StopToolUse,
		},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join("testdata", name))
			require.NoError(t, err)
			readers := []func() io.Reader{
				func() io.Reader { return iotest.OneByteReader(strings.NewReader(string(raw))) },
				func() io.Reader { return strings.NewReader(strings.ReplaceAll(string(raw), "\n", "\r\n")) },
			}
			for i := range raw {
				readers = append(readers, func() io.Reader {
					return io.MultiReader(strings.NewReader(string(raw[:i])), strings.NewReader(string(raw[i:])))
				})
			}
			for _, body := range readers {
				got, err := new(collect.Collector).Collect(inMemory(t, body).Stream(t.Context(), hello()))
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
		})
	}
}

// choice is a chunk of one choice with these fields.
func choice(fields string) string { return `data: {"choices":[{` + fields + `}]}` + "\n\n" }

func finish(reason string) string {
	return choice(`"index":0,"delta":{},"finish_reason":"` + reason + `"`)
}

const done = "data: [DONE]\n\n"

func TestEnds(t *testing.T) {
	text := choice(`"delta":{"content":"a"}`)
	usage := `data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}}` + "\n\n"
	for name, row := range map[string]struct {
		raw  string
		want string // stop reason; "" for a connection error
	}{
		"stop":                    {text + finish("stop") + usage + done, model.StopEndTurn},
		"length":                  {text + finish("length") + done, model.StopMaxTokens},
		"content filter":          {text + finish("content_filter") + done, model.StopRefusal},
		"function_call":           {finish("function_call") + done, model.StopToolUse},
		"not known":               {text + finish("paused") + done, "paused"},
		"eos":                     {text + finish("eos") + done, model.StopEndTurn},
		"STOP":                    {text + finish("STOP") + done, model.StopEndTurn},
		"MAX_TOKENS":              {text + finish("MAX_TOKENS") + done, model.StopMaxTokens},
		"SAFETY":                  {text + finish("SAFETY") + done, model.StopRefusal},
		"refusal":                 {choice(`"delta":{"refusal":"I cannot."}`) + finish("stop") + done, model.StopRefusal},
		"no [DONE]":               {text + finish("stop") + usage, model.StopEndTurn},
		"broken event after it":   {text + finish("stop") + `data: {"choices":[],`, model.StopEndTurn},
		"reason with the text":    {choice(`"delta":{"content":"a"},"finish_reason":"stop"`) + done, model.StopEndTurn},
		"no reason":               {text + usage, ""},
		"[DONE] without a reason": {text + done, model.StopEndTurn},
		"[DONE] without content":  {done, ""},
		"[DONE] in a call":        {choice(`"delta":{"tool_calls":[{"id":"c","function":{"name":"a","arguments":"{"}}]}`) + done, ""},
		"[DONE] after a call":     {choice(`"delta":{"tool_calls":[{"id":"c","function":{"name":"a","arguments":"{}"}}]}`) + done, model.StopToolUse},
		"empty data":              {"data:\n\n" + text + "data: \n\n" + finish("stop") + done, model.StopEndTurn},
		"nothing":                 {"", ""},
		"[DONE] with white space": {text + finish("stop") + "data:  [DONE] \n\n", model.StopEndTurn},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := collected(t, row.raw)
			if row.want != "" {
				require.NoError(t, err)
				require.Equal(t, row.want, got.StopReason)
				return
			}
			var coded *model.Error
			require.ErrorAs(t, err, &coded)
			require.Equal(t, model.Code(runvalue.ErrorTypeConnection), coded.Code)
		})
	}
}

// TestConnectionLeftOpen verifies that a response with a finish reason is complete even if neither
// [DONE] nor the end of the stream follows.
func TestConnectionLeftOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body, w := io.Pipe()
		defer w.Close()
		c := client(t, openai.Config{HTTPClient: &http.Client{Transport: upstreamFunc(func(r *http.Request) (*http.Response, error) {
			context.AfterFunc(r.Context(), func() { _ = w.CloseWithError(r.Context().Err()) })
			go func() {
				_, _ = io.WriteString(w, choice(`"delta":{"content":"a"}`)+finish("stop")+`data: {"choices":[],"usage":{"prompt_tokens":3}}`+"\n\n")
			}()
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body}, nil
		})}})
		began := time.Now()
		got, err := new(collect.Collector).Collect(c.Stream(t.Context(), hello()))
		require.NoError(t, err)
		require.Equal(t, []any{"a", model.StopEndTurn, int64(3)}, []any{got.Message.Text(), got.StopReason, got.Usage.InputTokens})
		require.Less(t, time.Since(began), time.Minute)
	})
}

func TestDeltas(t *testing.T) {
	for name, row := range map[string]struct {
		deltas []string
		want   []model.Block
	}{
		"content as a list": {
			[]string{`"content":[{"type":"thinking","thinking":[{"type":"text","text":"so"}]}]`,
				`"content":[{"type":"text","text":"a"},{"type":"image"}]`},
			[]model.Block{{Type: model.BlockThinking, Text: "so", Field: "content"}, {Type: model.BlockText, Text: "a"}},
		},
		"reasoning by both names": {
			[]string{`"reasoning":"so","reasoning_content":"so","content":"a"`},
			[]model.Block{{Type: model.BlockThinking, Text: "so", Field: "reasoning_content"}, {Type: model.BlockText, Text: "a"}},
		},
		"refusal": {
			[]string{`"refusal":"I "`, `"refusal":"cannot."`}, []model.Block{{Type: model.BlockText, Text: "I cannot."}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var raw strings.Builder
			for _, d := range row.deltas {
				raw.WriteString(choice(`"index":0,"delta":{` + d + `}`))
			}
			got, err := collected(t, raw.String()+choice(`"index":1,"delta":{"content":"another choice"}`)+finish("stop"))
			require.NoError(t, err)
			require.Equal(t, row.want, got.Message.Content)
		})
	}
}

func TestUsage(t *testing.T) {
	for name, row := range map[string]struct {
		usage string
		want  model.Usage
	}{
		"cached": {`{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":60}}`,
			model.Usage{InputTokens: 40, OutputTokens: 7, CacheReadInputTokens: 60}},
		"by another name": {`{"prompt_tokens":100,"completion_tokens":7,"prompt_cache_hit_tokens":60}`,
			model.Usage{InputTokens: 40, OutputTokens: 7, CacheReadInputTokens: 60}},
		"null details": {`{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":null}`,
			model.Usage{InputTokens: 100, OutputTokens: 7}},
		"more than the total": {`{"prompt_tokens":1,"completion_tokens":7,"prompt_cache_hit_tokens":60}`,
			model.Usage{InputTokens: 1, OutputTokens: 7, CacheReadInputTokens: 60}},
		"cached next to the prompt": {`{"prompt_tokens":100,"completion_tokens":7,"total_tokens":167,"cached_tokens":60}`,
			model.Usage{InputTokens: 100, OutputTokens: 7, CacheReadInputTokens: 60}},
		"cached in the total": {`{"prompt_tokens":100,"completion_tokens":7,"total_tokens":107,"cached_tokens":60}`,
			model.Usage{InputTokens: 40, OutputTokens: 7, CacheReadInputTokens: 60}},
		"thinking next to the completion": {
			`{"prompt_tokens":900,"completion_tokens":40,"total_tokens":1100,"completion_tokens_details":{"reasoning_tokens":160}}`,
			model.Usage{InputTokens: 900, OutputTokens: 200, ReasoningTokens: 160}},
		"less thinking next to the completion": {
			`{"prompt_tokens":900,"completion_tokens":40,"total_tokens":970,"completion_tokens_details":{"reasoning_tokens":30}}`,
			model.Usage{InputTokens: 900, OutputTokens: 70, ReasoningTokens: 30}},
		"thinking next to the completion, without a total": {
			`{"prompt_tokens":900,"completion_tokens":40,"completion_tokens_details":{"reasoning_tokens":160}}`,
			model.Usage{InputTokens: 900, OutputTokens: 200, ReasoningTokens: 160}},
		"thinking as a part": {
			`{"prompt_tokens":900,"completion_tokens":200,"total_tokens":1100,"completion_tokens_details":{"reasoning_tokens":160}}`,
			model.Usage{InputTokens: 900, OutputTokens: 200, ReasoningTokens: 160}},
		"thinking as a part, without a total": {
			`{"prompt_tokens":900,"completion_tokens":200,"completion_tokens_details":{"reasoning_tokens":160}}`,
			model.Usage{InputTokens: 900, OutputTokens: 200, ReasoningTokens: 160}},
		"thinking only in the total": {`{"prompt_tokens":900,"completion_tokens":40,"total_tokens":1100}`,
			model.Usage{InputTokens: 900, OutputTokens: 200}},
		"thinking without details": {`{"prompt_tokens":900,"completion_tokens":40,"reasoning_tokens":160,"total_tokens":940}`,
			model.Usage{InputTokens: 900, OutputTokens: 200, ReasoningTokens: 160}},
		"thinking and cached, both next to the whole": {
			`{"prompt_tokens":100,"completion_tokens":40,"total_tokens":230,"cached_tokens":60,"completion_tokens_details":{"reasoning_tokens":30}}`,
			model.Usage{InputTokens: 100, OutputTokens: 70, CacheReadInputTokens: 60, ReasoningTokens: 30}},
		"only a total": {`{"total_tokens":50}`, model.Usage{InputTokens: 50}},
		"negative":     {`{"prompt_tokens":-5,"completion_tokens":7,"total_tokens":-1}`, model.Usage{OutputTokens: 7}},
		"fractions":    {`{"prompt_tokens":4.5,"completion_tokens":7.0}`, model.Usage{InputTokens: 5, OutputTokens: 7}},
		"huge": {`{"prompt_tokens":9223372036854775807,"completion_tokens":1e300,"completion_tokens_details":{"reasoning_tokens":1e400}}`,
			model.Usage{InputTokens: 1 << 40, OutputTokens: 1 << 40, ReasoningTokens: 1 << 40}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := collected(t, finish("stop")+`data: {"choices":[],"usage":`+row.usage+"}\n\n"+done)
			require.NoError(t, err)
			require.Equal(t, row.want, got.Usage)
			got, err = collected(t, choice(`"delta":{"content":"a"},"finish_reason":"stop","usage":`+row.usage))
			require.NoError(t, err)
			require.Equal(t, row.want, got.Usage)
		})
	}
}

func TestFaults(t *testing.T) {
	for name, row := range map[string]struct {
		raw  string
		code model.Code
	}{
		"error object":      {`data: {"error":{"message":"Overloaded.","type":"server_error","code":null}}`, model.Code(runvalue.ErrorTypeServer)},
		"next to choices":   {`data: {"choices":[],"error":{"message":"x","code":429}}`, model.Code(runvalue.ErrorTypeRateLimit)},
		"error event":       {"event: error\n" + `data: {"message":"maximum context length is 8","code":400}`, model.Code(runvalue.ErrorTypePromptTooLong)},
		"reason is error":   {strings.TrimSpace(finish("error")), model.Code(runvalue.ErrorTypeServer)},
		"call without name": {strings.TrimSpace(choice(`"delta":{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{}"}}]},"finish_reason":"tool_calls"`)), model.Code(runvalue.ErrorTypeServer)},
		"no JSON":           {"data: hello", model.Code(runvalue.ErrorTypeServer)},
		"another shape":     {`data: {"choices":{}}`, model.Code(runvalue.ErrorTypeServer)},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := collected(t, "event: gateway\ndata: of its own\n\n"+choice(`"delta":{"content":"a"}`)+row.raw+"\n\n")
			var coded *model.Error
			require.ErrorAs(t, err, &coded)
			require.Equal(t, row.code, coded.Code, coded.Message)
		})
	}
}
