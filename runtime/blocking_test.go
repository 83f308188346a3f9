package runtime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

func TestBlockingResponse(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Thinking("Hm."), modeltest.Text("Good ", "day."),
		modeltest.Usage(model.Usage{InputTokens: 7, OutputTokens: 3})))
	res, run := serve(t, up, nil).blocking(t, `{"message":"hello"}`)
	require.Equal(t, http.StatusOK, res.status)
	require.Equal(t, run.RunID, res.header.Get("X-Run-ID"))
	var body map[string]any
	require.NoError(t, json.Unmarshal([]byte(res.body), &body))
	require.NotEmpty(t, body["sessionId"])
	require.Contains(t, body, "durationMs")
	delete(body, "durationMs")
	delete(body, "sessionId")
	require.Equal(t, map[string]any{
		"runId": run.RunID, "state": "completed", "text": "Good day.", "usage": usage(7, 3, 0, 0), "numTurns": 1.0,
		"stopReason": "end_turn",
	}, body)
}

// failures are failing upstreams and the expected errors.
var failures = map[string]struct {
	reply     modeltest.Reply
	status    int
	errorType string
	text      string
}{
	"rate limit":    {modeltest.Status(429, "Retry-After", "7"), 429, "rate_limit", ""},
	"overloaded":    {modeltest.Status(529), 502, "overloaded", ""},
	"server":        {modeltest.Status(500), 502, "server", ""},
	"unauthorized":  {modeltest.Status(401), 502, "auth", ""},
	"forbidden":     {modeltest.Status(403), 502, "auth", ""},
	"bad request":   {modeltest.Status(400), 502, "invalid_request", ""},
	"too long":      {modeltest.PromptTooLong(), 502, "prompt_too_long", ""},
	"HTML":          {modeltest.Raw(200, "text/html", "<h1>Hello</h1>"), 502, "server", ""},
	"half a stream": {modeltest.Stream(modeltest.Text("Half an"), modeltest.Drop()), 502, "connection", "Half an"},
	"overloaded later on": {modeltest.Stream(modeltest.Text("Half an"), modeltest.Error("overloaded_error")), 502,
		"overloaded", "Half an"},
	"garbage": {modeltest.Stream(modeltest.Text("Half an"),
		modeltest.Verbatim("event: content_block_delta\ndata: {\"type\":\n\n")), 502, "server", "Half an"},
	"a giant line": {modeltest.Stream(modeltest.Text("Half an"),
		modeltest.Verbatim("data: "+strings.Repeat("x", 20<<20)+"\n\n")), 502, "server", "Half an"},
}

func TestFailedRunsBlocking(t *testing.T) {
	for name, row := range failures {
		t.Run(name, func(t *testing.T) {
			b := serve(t, modeltest.Start(t, modeltest.Anthropic, row.reply), nil)
			res, run := b.blocking(t, `{"message":"hello"}`)
			require.Equal(t, row.status, res.status)
			require.Equal(t, wire.StateFailed, run.State)
			require.Equal(t, row.errorType, run.ErrorType)
			require.NotEmpty(t, run.Error)
			require.Equal(t, []string{run.Error}, run.Errors)
			require.Equal(t, row.text, run.Text)
			require.NotContains(t, res.body, "127.0.0.1", "no address of ours")
			require.NotContains(t, res.body, "upstream-key")
			if name == "rate limit" {
				require.Equal(t, "7", res.header.Get("Retry-After"))
			}
			cancel := b.do(t, "POST", "/v1/runs/"+run.RunID+"/cancel", "")
			require.Equal(t, http.StatusConflict, cancel.status)
			require.JSONEq(t, `{"runId":"`+run.RunID+`","state":"failed"}`, cancel.body)
		})
	}
}

func TestFailedRunsStreamed(t *testing.T) {
	for name, row := range failures {
		t.Run(name, func(t *testing.T) {
			b := serve(t, modeltest.Start(t, modeltest.Anthropic, row.reply), nil)
			all := b.open(t.Context(), t, `{"message":"hello"}`).rest()
			require.Equal(t, "done", all[len(all)-1].name)
			result := all[len(all)-2]
			require.Equal(t, "result", result.name)
			delete(result.data, "duration_ms")
			delete(result.data, "usage")
			message := result.data["errors"].([]any)[0]
			want := map[string]any{
				"type": "result", "subtype": "error", "runId": all[0].data["runId"], "session_id": all[0].data["session_id"],
				"is_error": true, "num_turns": 1.0, "error_type": row.errorType, "errors": []any{message},
			}
			if row.errorType == "rate_limit" {
				want["retry_after_ms"] = 7000.0
			}
			require.Equal(t, want, result.data)
		})
	}
}

func TestNoConnection(t *testing.T) {
	b := serve(t, nil, func(c *runtime.Config) {
		c.Agents[0].Provider = agent.Provider{Protocol: "anthropic", BaseURL: "http://127.0.0.1:1", APIKey: "k"}
	})
	res, run := b.blocking(t, `{"message":"hello"}`)
	require.Equal(t, http.StatusBadGateway, res.status)
	require.Equal(t, "connection", run.ErrorType)
	require.NotContains(t, res.body, "127.0.0.1")
	require.Contains(t, b.log.String(), "127.0.0.1:1", "the cause is logged")
}

func TestMaxTurns(t *testing.T) {
	var n atomic.Int64
	call := modeltest.Repeat(modeltest.Choose(func(*modeltest.Request) modeltest.Reply {
		id := fmt.Sprintf("t%d", n.Add(1))
		return modeltest.Stream(modeltest.Text("Again."), modeltest.ToolCall(id, "greet", `{"name":"Ada"}`))
	}))
	b := serve(t, modeltest.Start(t, modeltest.Anthropic, call), func(c *runtime.Config) {
		c.Agents[0].AllowedTools = []string{"greet"}
		c.Tools = []tool.Tool{greet()}
	})
	res, run := b.blocking(t, `{"message":"hello","maxTurns":2}`)
	require.Equal(t, http.StatusBadGateway, res.status)
	require.Equal(t, "error_max_turns", run.ErrorType)
	require.Equal(t, 2, run.NumTurns)
	require.Equal(t, "Again.", run.Text)

	_, run = b.blocking(t, `{"message":"hello","maxTurns":50}`)
	require.Equal(t, 10, run.NumTurns, "a request cannot widen the agent's limit")

	all := b.open(t.Context(), t, `{"message":"hello","maxTurns":1}`).rest()
	require.Equal(t, "error_max_turns", all[len(all)-2].data["subtype"])
	require.Equal(t, "error_max_turns", all[len(all)-2].data["error_type"])
}

func TestTimeouts(t *testing.T) {
	for name, row := range map[string]struct{ request, subtype string }{
		"runTimeout by the request": {`{"message":"hello","timeoutMs":20}`, "error_during_execution"},
		"llmIdleTimeout":            {`{"message":"hello"}`, "error"},
	} {
		t.Run(name, func(t *testing.T) {
			up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("Half an"), modeltest.Hang())))
			b := serve(t, up, func(c *runtime.Config) {
				if row.subtype == "error" {
					c.Limits.LLMIdleTimeout = 20 * time.Millisecond
				}
			})
			res, run := b.blocking(t, row.request)
			require.Equal(t, http.StatusBadGateway, res.status)
			require.Equal(t, "timeout", run.ErrorType)
			all := b.open(t.Context(), t, row.request).rest()
			require.Equal(t, row.subtype, all[len(all)-2].data["subtype"])
			require.Equal(t, "timeout", all[len(all)-2].data["error_type"])
			for _, req := range up.Requests() {
				_, early := req.End()
				require.True(t, early, "the upstream connection is closed")
			}
		})
	}
}

// broken is a model with a bug.
type broken struct{}

func (broken) Stream(context.Context, *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		yield(model.Part{Kind: model.KindText, Text: "Half an", More: true}, nil)
		panic("nil map in /srv/secret/path")
	}
}

func TestInternalError(t *testing.T) {
	b := serve(t, nil, func(c *runtime.Config) {
		c.NewModel = func(agent.Provider) (model.Model, error) { return broken{}, nil }
	})
	res := b.do(t, "POST", runs, `{"message":"hello"}`, "Accept", "application/json", "X-Request-ID", "my-request")
	require.Equal(t, http.StatusInternalServerError, res.status)
	require.JSONEq(t, `{"error":"Internal error","requestId":"my-request"}`, res.body)
	require.Contains(t, b.log.String(), "secret/path")
	require.Contains(t, b.log.String(), "my-request")

	all := b.open(t.Context(), t, `{"message":"hello"}`).rest()
	require.Equal(t, []string{"system", "partial_message", "error", "done"}, names(all))
	id := all[0].data["runId"].(string)
	estimated(t, all[2].data["usage"], len("hello")/4, len("Half an")/4)
	delete(all[2].data, "usage")
	require.Equal(t, map[string]any{"type": "error", "error": "Internal error", "errorType": "error_during_execution", "runId": id}, all[2].data)
	require.JSONEq(t, `{"runId":"`+id+`","state":"failed"}`, b.do(t, "POST", "/v1/runs/"+id+"/cancel", "").body)
}
