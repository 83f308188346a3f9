package modeltest_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// TestWire compares with goldens, which were checked against recorded streams of the vendors.
func TestWire(t *testing.T) {
	everything := []modeltest.Step{
		modeltest.Usage(model.Usage{InputTokens: 100, OutputTokens: 20, CacheCreationInputTokens: 7, CacheReadInputTokens: 30}),
		modeltest.Thinking("Let me ", "see."), modeltest.Signature("c2ln"),
		modeltest.Thinking("More."),
		modeltest.Redacted("ZW5j"),
		modeltest.Text("a \"quoted\" <b>\n", "日本"), modeltest.Ping(), modeltest.Text("!"),
		modeltest.ToolCall("call_1", "Read", `{"file_path":`), modeltest.ToolInput(`"a.txt"}`),
		modeltest.ToolCall("call_2", "Now"),
	}
	for _, c := range []struct {
		name  string
		steps []modeltest.Step
	}{
		{"everything", everything},
		{"nothing", nil},
		{"stop", []modeltest.Step{modeltest.Text("x"), modeltest.Stop(model.StopMaxTokens), modeltest.Verbatim("data: {\n\n")}},
		{"error", []modeltest.Step{modeltest.Error("rate_limit_error")}},
	} {
		for _, p := range protocols {
			t.Run(c.name+" "+string(p), func(t *testing.T) {
				want, err := os.ReadFile(filepath.Join("testdata", string(p)+"-"+c.name+".sse"))
				require.NoError(t, err)
				up := modeltest.Start(t, p, modeltest.Stream(c.steps...), modeltest.Burst(c.steps...))
				res := open(t.Context(), t, up, p)
				require.Equal(t, "text/event-stream; charset=utf-8", res.Header.Get("Content-Type"))
				got, err := io.ReadAll(res.Body)
				require.NoError(t, err)
				require.Equal(t, string(want), string(got))
				require.Equal(t, string(want), ask(t, up, p), "a burst has the same bytes")
			})
		}
	}
}

func TestStopReasons(t *testing.T) {
	for _, c := range []struct{ reason, openai string }{
		{model.StopEndTurn, "stop"},
		{"stop_sequence", "stop"},
		{model.StopToolUse, "tool_calls"},
		{model.StopMaxTokens, "length"},
		{model.StopRefusal, "content_filter"},
		{"pause_turn", "pause_turn"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Stop(c.reason)))
			require.Contains(t, ask(t, up, modeltest.Anthropic), `"stop_reason":"`+c.reason+`"`)
			up = modeltest.Start(t, modeltest.OpenAI, modeltest.Stream(modeltest.Stop(c.reason)))
			require.Contains(t, ask(t, up, modeltest.OpenAI), `"finish_reason":"`+c.openai+`"`)
		})
	}
}

func TestOpenAIUsageOnlyIfRequested(t *testing.T) {
	up := modeltest.New(modeltest.OpenAI, modeltest.Stream(modeltest.Text("x")))
	w := httptest.NewRecorder()
	body := strings.Replace(openaiBody, "true}", "false}", 1)
	up.ServeHTTP(w, request(t.Context(), t, modeltest.OpenAI, "/v1", body))
	require.Equal(t, http.StatusOK, w.Code)
	require.NotContains(t, w.Body.String(), "usage")
	require.Contains(t, w.Body.String(), "data: [DONE]\n\n")
}

func TestErrorBodies(t *testing.T) {
	for _, c := range []struct {
		name              string
		reply             modeltest.Reply
		status            int
		anthropic, openai string
	}{
		{"bad request", modeltest.Status(400), 400, `"type":"invalid_request_error"`, `"type":"invalid_request_error"`},
		{"no key", modeltest.Status(401), 401, `"type":"authentication_error"`, `"code":"invalid_api_key"`},
		{"forbidden", modeltest.Status(403), 403, `"type":"permission_error"`, `"code":"model_not_found"`},
		{"not found", modeltest.Status(404), 404, `"type":"not_found_error"`, `"type":"invalid_request_error"`},
		{"too large", modeltest.Status(413), 413, `"type":"request_too_large"`, `"type":"invalid_request_error"`},
		{"rate limit", modeltest.Status(429), 429, `"type":"rate_limit_error"`, `"code":"rate_limit_exceeded"`},
		{"server", modeltest.Status(500), 500, `"type":"api_error"`, `"type":"server_error"`},
		{"timeout", modeltest.Status(504), 504, `"type":"timeout_error"`, `"type":"server_error"`},
		{"overloaded", modeltest.Status(529), 529, `"type":"overloaded_error"`, `"type":"server_error"`},
		{"too long", modeltest.PromptTooLong(), 400, `"message":"prompt is too long: `, `"code":"context_length_exceeded"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			for p, want := range map[modeltest.Protocol]string{modeltest.Anthropic: c.anthropic, modeltest.OpenAI: c.openai} {
				up := modeltest.Start(t, p, c.reply)
				res := open(t.Context(), t, up, p)
				body, err := io.ReadAll(res.Body)
				require.NoError(t, err)
				require.Equal(t, c.status, res.StatusCode)
				require.Contains(t, string(body), want)
			}
		})
	}
}
