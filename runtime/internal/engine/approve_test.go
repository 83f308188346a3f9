package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/internal/permission"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/tool"
)

func TestApprove(t *testing.T) {
	yes := func(context.Context, engine.ApprovalRequest) bool { return true }
	for name, row := range map[string]struct {
		mode       permission.Mode
		disallowed []string
		approve    func(context.Context, engine.ApprovalRequest) bool
		runs       bool
		asked      int
	}{
		"yes": {permission.ModeDefault, nil, yes, true, 1},
		"no":  {permission.ModeDefault, nil, func(context.Context, engine.ApprovalRequest) bool { return false }, false, 1},
		"a panic": {permission.ModeDefault, nil,
			func(context.Context, engine.ApprovalRequest) bool { panic("secret detail") }, false, 1},
		"not what is free":                    {permission.ModeBypass, nil, yes, true, 0},
		"not what is denied, which stays so":  {permission.ModeDefault, []string{"greet"}, yes, false, 0},
		"not what the mode plan has left out": {permission.ModePlan, nil, yes, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := upstream(t, modeltest.Anthropic, modeltest.Stream(modeltest.ToolCall("t1", "greet", `{"name":"Ada"}`)),
				modeltest.Stream(modeltest.Text("Done.")))
			s := newSetup(m, greet(false))
			s.AgentID, s.Policy = "agent", policy(t, row.mode, nil, row.disallowed)
			var log bytes.Buffer
			s.Logger = slog.New(slog.NewTextHandler(&log, nil))
			var asked []engine.ApprovalRequest
			s.Approve = func(ctx context.Context, a engine.ApprovalRequest) bool {
				asked = append(asked, a)
				return row.approve(ctx, a)
			}
			got := s.run(t.Context(), t, "")
			require.NoError(t, got.err)
			require.Len(t, asked, row.asked)
			if row.runs {
				require.Equal(t, []string{`tool_result t1 false "Hello, Ada"`}, results(got.lines))
				require.Empty(t, got.outcome.Denials)
			} else {
				require.Len(t, got.outcome.Denials, 1)
			}
			for _, a := range asked {
				require.Error(t, a.Reason)
				a.Reason = nil
				require.Equal(t, engine.ApprovalRequest{
					AgentID: "agent", RunID: "run", SessionID: got.session,
					ToolUseID: "t1", ToolName: "greet", Input: json.RawMessage(`{"name":"Ada"}`),
				}, a)
			}
			if name == "a panic" {
				require.Contains(t, log.String(), "secret detail")
			}
		})
	}
}

func TestWaitingForApprovalIsNoToolTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(turns(calls("greet"), says("Done.")), greet(false))
		s.Policy = policy(t, permission.ModeDefault, nil, nil)
		s.Approve = func(context.Context, engine.ApprovalRequest) bool { <-time.After(10 * time.Minute); return true }
		got := s.run(t.Context(), t, "")
		require.NoError(t, got.err)
		require.Equal(t, []string{`tool_result t1 false "Hello, "`}, results(got.lines))
	})
}

func TestInputIsValidated(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"},"times":{"type":"integer","minimum":1}},
		"required":["text"],"additionalProperties":false}`)
	for name, row := range map[string]struct {
		schema json.RawMessage
		input  string
		fault  string // "" calls the tool
	}{
		"fits":               {schema, `{"text":"a","times":2}`, ""},
		"a field is missing": {schema, `{}`, `missing properties: [\"text\"]`},
		"another type":       {schema, `{"text":[1]}`, "/properties/text"},
		"too small":          {schema, `{"text":"a","times":0}`, "minimum"},
		"an unknown field":   {schema, `{"text":"a","more":1}`, "more"},
		"no schema":          {nil, `{"anything":[1]}`, ""},
		"a schema that cannot be used is left to the tool": {json.RawMessage(`{"type":"object","$ref":"https://example.com/far"}`), `{"a":1}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			called := false
			echo := tool.New(tool.Spec{Name: "echo", InputSchema: row.schema}, func(context.Context, tool.Call) (tool.Result, error) {
				called = true
				return tool.Result{Output: "ok"}, nil
			})
			m, _ := upstream(t, modeltest.Anthropic, modeltest.Stream(modeltest.ToolCall("t1", "echo", row.input)),
				modeltest.Stream(modeltest.Text("Done.")))
			got := newSetup(m, echo).run(t.Context(), t, "")
			require.NoError(t, got.err, "the run goes on")
			require.Equal(t, row.fault == "", called)
			if row.fault != "" {
				require.Contains(t, results(got.lines)[0], "tool_result t1 true \"The input does not match the schema of echo: ")
				require.Contains(t, results(got.lines)[0], row.fault)
			}
		})
	}
}

// timed is a tool whose input sets the duration of the call.
type timed struct{ tool.Tool }

func (timed) Timeout(input json.RawMessage, limit time.Duration) time.Duration {
	var in struct{ Minutes int }
	if json.Unmarshal(input, &in) != nil || in.Minutes == 0 {
		return limit
	}
	return time.Duration(in.Minutes) * time.Minute
}

func TestATimedToolHasItsOwnTime(t *testing.T) {
	for name, row := range map[string]struct {
		input string
		want  time.Duration
	}{
		"longer":          {`{"minutes":9}`, 9 * time.Minute},
		"shorter":         {`{"minutes":1}`, time.Minute},
		"as the runtime":  {`{}`, 2 * time.Minute},
		"not understood ": {`{"minutes":"x"}`, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := timed{tool.New(tool.Spec{Name: "slow"}, func(ctx context.Context, _ tool.Call) (tool.Result, error) {
					<-ctx.Done()
					return tool.Result{}, ctx.Err()
				})}
				call := slices.Insert(calls("slow"), 1, model.Part{Kind: model.KindToolInput, Text: row.input})
				s := newSetup(turns(call, says("Done.")), slow)
				begin := time.Now()
				got := s.run(t.Context(), t, "")
				require.NoError(t, got.err)
				require.Equal(t, row.want, time.Since(begin))
				require.Contains(t, results(got.lines)[0], "The call exceeded its time limit of "+row.want.String()+" and was stopped.")
			})
		})
	}
}
