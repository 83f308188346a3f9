package runtime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// estimated requires a usage, as JSON, that is an estimate of at least these tokens.
func estimated(t *testing.T, value any, input, output int) {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	var u wire.Usage
	require.NoError(t, json.Unmarshal(text, &u))
	require.True(t, u.Estimated, "%s", text)
	require.GreaterOrEqual(t, u.InputTokens, int64(input), "%s", text)
	require.GreaterOrEqual(t, u.OutputTokens, int64(output), "%s", text)
	require.Less(t, u.OutputTokens, int64(2*output+10), "%s", text)
}

// Every call of a model without a final usage counts what was sent and received.
func TestInterruptedAnswersAreCounted(t *testing.T) {
	const size = 8000
	answer, question := strings.Repeat("word ", size/5), strings.Repeat("ask ", size/4)
	ask := `{"message":"` + question + `"`
	whole := map[string]bool{"complete": true}
	for protocol, wireFormat := range map[string]modeltest.Protocol{agent.ProtocolAnthropic: modeltest.Anthropic, agent.ProtocolOpenAI: modeltest.OpenAI} {
		for name, last := range map[string]modeltest.Step{
			"client left": modeltest.Hang(), "timeoutMs": modeltest.Hang(), "cancel": modeltest.Hang(), "drop": modeltest.Drop(), "cut": modeltest.Cut(),
			"malformed": modeltest.Verbatim("data: {\"choices\":7,\"type\":\"message_delta\",\"delta\":[]}\n\n"), "error": modeltest.Error("api_error"),
			"complete": modeltest.Stop("end_turn"),
		} {
			t.Run(protocol+" "+name, func(t *testing.T) {
				up := modeltest.Start(t, wireFormat, modeltest.Stream(modeltest.Text(answer), last))
				ended := make(chan wire.Payload, 1)
				b := serve(t, up, func(c *runtime.Config) {
					c.Agents[0].AllowedTools = []string{}
					c.Agents[0].Provider.Protocol = protocol
					c.Observe = func(_ runtime.RunInfo, e wire.Event) {
						switch e.Payload.(type) {
						case *wire.Result, *wire.Cancelled, *wire.Fault:
							ended <- e.Payload
						}
					}
				})
				body := ask
				if name == "timeoutMs" {
					body += `,"timeoutMs":300`
				}
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				s := b.open(ctx, t, body+"}")
				id := s.until("system").data["runId"].(string)
				s.until("partial_message")
				switch name {
				case "client left":
					leave()
				case "cancel":
					b.cancel(t, id)
				}
				end := <-ended
				var u wire.Usage
				switch end := end.(type) {
				case *wire.Result:
					u = end.Usage
				case *wire.Cancelled:
					u = end.Usage
				}
				if whole[name] {
					require.Equal(t, wire.Usage{InputTokens: 10, OutputTokens: 5}, u, "as upstream has counted")
					return
				}
				estimated(t, u, size/4, size/4)
			})
		}
	}
}

// A server that counts no tokens is not free. Those of a rejected request, and of one that was not
// sent, are zero.
func TestUncountedAnswers(t *testing.T) {
	question := strings.Repeat("ask ", 1000)
	status := http.StatusOK
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if status != http.StatusOK {
			w.WriteHeader(status)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"choices":[{"delta":{"content":"`+strings.Repeat("word ", 200)+`"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}))
	defer up.Close()
	b := serve(t, nil, func(c *runtime.Config) {
		c.Agents[0].Provider = agent.Provider{Protocol: agent.ProtocolOpenAI, BaseURL: agent.Secret(up.URL), APIKey: "k"}
		c.Agents[0].AllowedTools = []string{}
	})
	for _, row := range []struct {
		status        int
		input, output int
	}{{200, 1000, 250}, {401, 0, 0}, {429, 0, 0}, {400, 0, 0}, {500, 0, 0}, {503, 0, 0}, {529, 0, 0}, {502, 1000, 0}, {504, 1000, 0}} {
		status = row.status
		_, run := b.blocking(t, `{"message":"`+question+`"}`)
		if row.input == 0 {
			require.Zero(t, run.Usage, row.status)
			continue
		}
		estimated(t, run.Usage, row.input, row.output)
	}
	up.Close()
	_, run := b.blocking(t, `{"message":"`+question+`"}`)
	require.Equal(t, "connection", run.ErrorType)
	require.Zero(t, run.Usage)
}

// The tokens of an interrupted subagent count, and for its model.
func TestInterruptedSubagentsAreCounted(t *testing.T) {
	up := modeltest.Start(t, modeltest.OpenAI,
		modeltest.Stream(modeltest.ToolCall("t1", "Task", `{"description":"d","prompt":"`+strings.Repeat("ask ", 500)+`","subagent_type":"s"}`)),
		modeltest.Stream(modeltest.Text(strings.Repeat("word ", 800)), modeltest.Hang()))
	b := serve(t, up, func(c *runtime.Config) {
		c.Agents[0].Provider.Protocol = agent.ProtocolOpenAI
		c.Agents[0].Subagents = map[string]agent.Subagent{"s": {Description: "d", Prompt: "p", Model: "small", Tools: []string{}}}
	})
	const id = "4a6f1b2c-3d4e-4f50-a6b7-c8d9e0f1a2b3"
	res := b.request(t.Context(), t, http.MethodPost, runs, `{"message":"hello","runId":"`+id+`","timeoutMs":500}`, "Te", "trailers")
	_, err := io.Copy(io.Discard, res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	var got wire.RunUsage
	require.NoError(t, json.Unmarshal([]byte(res.Trailer.Get(runvalue.UsageHeader)), &got))
	require.True(t, got.Usage.Estimated)
	estimated(t, got.Others["small"], 500, 1000)
	require.Equal(t, got.Others["small"].OutputTokens+5, got.Usage.OutputTokens)
}

// A report has at most runvalue.MaxUsage bytes, however many models a run calls and however long
// their names are. Those with the most tokens are named, and the total has all.
func TestReportIsBounded(t *testing.T) {
	for _, name := range []string{"m", strings.Repeat("<", 5000), strings.Repeat("\u2028", 3000)} {
		var replies []modeltest.Reply
		subagents := map[string]agent.Subagent{}
		for i := range 60 {
			sub := fmt.Sprintf("s%02d", i)
			subagents[sub] = agent.Subagent{Description: "d", Prompt: "p", Model: sub + strings.Repeat("x", i)}
			replies = append(replies,
				modeltest.Stream(modeltest.ToolCall("t"+sub, "Task", `{"description":"d","prompt":"p","subagent_type":"`+sub+`"}`)),
				modeltest.Stream(modeltest.Text("Done.")))
		}
		up := modeltest.Start(t, modeltest.OpenAI, append(replies, modeltest.Stream(modeltest.Text("Done.")))...)
		b := serve(t, up, func(c *runtime.Config) {
			c.Agents[0].Provider.Protocol = agent.ProtocolOpenAI
			c.Agents[0].Model, c.Agents[0].Subagents, c.Agents[0].MaxTurns = name, subagents, 100
		})
		res := b.request(t.Context(), t, http.MethodPost, runs, hello, "Te", "trailers")
		_, err := io.Copy(io.Discard, res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		text := res.Trailer.Get(runvalue.UsageHeader)
		require.LessOrEqual(t, len(text), runvalue.MaxUsage)
		require.Greater(t, len(text), runvalue.MaxUsage-600, "what fits is named")
		var got wire.RunUsage
		require.NoError(t, json.Unmarshal([]byte(text), &got))
		require.Equal(t, wire.Usage{InputTokens: 1210, OutputTokens: 605}, got.Usage)
	}
}
