package runtime_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/tool"
)

func TestIDsOfARun(t *testing.T) {
	b := serve(t, nil, nil)
	seen := map[string]bool{}
	for range 2 {
		res, run := b.blocking(t, hello)
		require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, run.RunID, "random, version 4")
		require.Equal(t, run.RunID, res.header.Get("X-Run-ID"))
		require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-7`, run.SessionID, "in order, version 7")
		s := b.open(t.Context(), t, hello)
		init := s.next().data
		require.Equal(t, s.res.Header.Get("X-Run-ID"), init["runId"])
		s.until("done")
		for _, id := range []string{run.RunID, run.SessionID, init["runId"].(string), init["session_id"].(string)} {
			require.False(t, seen[id])
			seen[id] = true
		}
	}
}

func TestFailedModelCallsAreNotRepeated(t *testing.T) {
	for _, status := range []int{408, 429, 500, 503, 529} {
		up := modeltest.Start(t, modeltest.Anthropic, modeltest.Status(status, "Retry-After", "0"))
		b := serve(t, up, nil)
		res, run := b.blocking(t, hello)
		require.GreaterOrEqual(t, res.status, 400)
		require.Equal(t, 1, run.NumTurns)
		require.Len(t, up.Requests(), 1)
	}
}

// There is no history of runs and no stream to resume.
func TestRunsAreNotStored(t *testing.T) {
	b := serve(t, nil, nil)
	_, run := b.blocking(t, hello)
	for _, path := range []string{"/v1/runs", "/v1/runs/" + run.RunID, "/v1/runs/" + run.RunID + "/events"} {
		require.Equal(t, http.StatusNotFound, b.do(t, "GET", path, "").status, path)
	}
	require.Equal(t, http.StatusMethodNotAllowed, b.do(t, "GET", runs, "").status)
	res := b.do(t, "POST", runs, `{"message":"hello"}`, "Last-Event-ID", "3", "Accept", "text/event-stream")
	require.NotEqual(t, run.RunID, res.header.Get("X-Run-ID"), "a run of its own")
	require.NotContains(t, res.body, "id: ", "events have no ids to go on from")
}

func TestToolResultsReachTheClientAndTheModel(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.ToolCall("t1", "greet", `{"name":"Ada"}`), modeltest.ToolCall("t2", "nothing", `{}`),
			modeltest.Usage(model.Usage{InputTokens: 5})),
		modeltest.Stream(modeltest.Text("Done."), modeltest.Usage(model.Usage{InputTokens: 7})))
	b := serve(t, up, func(c *runtime.Config) {
		c.Agents[0].AllowedTools = []string{"greet"}
		c.Tools = []tool.Tool{greet()}
	})
	all := b.open(t.Context(), t, `{"message":"hello","stream":"block"}`).rest()
	require.Equal(t, []string{"system", "assistant", "tool_result", "tool_result", "assistant", "result", "done"}, names(all))
	require.InDelta(t, 5, all[1].data["usage"].(map[string]any)["input_tokens"], 0, "of the message")
	require.InDelta(t, 12, all[5].data["usage"].(map[string]any)["input_tokens"], 0, "of the run")
	require.InDelta(t, 2, all[5].data["num_turns"], 0)
	require.Equal(t, true, all[3].data["result"].(map[string]any)["is_error"])
	require.Regexp(t, `"tool_use_id":"t1".*"tool_use_id":"t2"`, string(up.Requests()[1].Body), "in the order of the calls")
}

func TestToolTimeoutDoesNotLimitTask(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.ToolCall("t1", "Task", `{"description":"Look","prompt":"Look at it.","subagent_type":"slow"}`)),
		modeltest.Stream(modeltest.Wait(100*time.Millisecond), modeltest.Text("Looked.")), modeltest.Stream(modeltest.Text("Done.")))
	b := serve(t, up, func(c *runtime.Config) {
		c.Limits.ToolTimeout = 10 * time.Millisecond
		c.Agents[0].Subagents = map[string]agent.Subagent{"slow": {Description: "Takes its time", Prompt: "You look."}}
	})
	all := b.open(t.Context(), t, `{"message":"hello","stream":"block"}`).rest()
	require.Equal(t, []string{"system", "assistant", "assistant", "tool_result", "assistant", "result", "done"}, names(all))
	result := all[3].data["result"].(map[string]any)
	require.Equal(t, "Looked.", result["output"])
	require.Equal(t, false, result["is_error"])
}
