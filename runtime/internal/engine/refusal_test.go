package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/internal/permission"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// A model that sends the same refused call is told so at the third time, and the run ends at the
// sixth.
func TestTheSameRefusedCall(t *testing.T) {
	const told = "Do not repeat it"
	for name, row := range map[string]struct {
		input  func(turn int) []string // pairs of a tool and its input
		warned []int                   // turns whose result says that the call must not be repeated
		turns  int                     // that the run has
	}{
		"denied":       {func(int) []string { return []string{"Bash", `{"command":"rm a"}`} }, []int{3, 4, 5, 6}, 6},
		"unknown":      {func(int) []string { return []string{"Nothing", `{}`} }, []int{3, 4, 5, 6}, 6},
		"invalid":      {func(int) []string { return []string{"count", `{"n":"many"}`} }, []int{3, 4, 5, 6}, 6},
		"not JSON":     {func(int) []string { return []string{"count", `{"n":`} }, []int{3, 4, 5, 6}, 6},
		"other orders": {func(i int) []string { return []string{"count", []string{`{"n":[], "m":1}`, `{"m":1,"n":[]}`}[i%2]} }, []int{3, 4, 5, 6}, 6},
		"next to a call that runs": {func(i int) []string {
			return []string{"count", fmt.Sprintf(`{"n":%d}`, i), "Bash", `{"command":"rm a"}`}
		}, []int{3, 4, 5, 6}, 6},
		"twice in a turn":   {func(int) []string { return []string{"Nothing", `{}`, "Nothing", `{}`} }, []int{3, 3, 4, 4, 5, 5, 6, 6}, 6},
		"another input":     {func(i int) []string { return []string{"count", fmt.Sprintf(`{"n":"many","m":%d}`, i)} }, nil, 9},
		"digits":            {func(i int) []string { return []string{"count", fmt.Sprintf(`{"n":[],"m":1234567890123456789%d}`, i)} }, nil, 9},
		"a pause":           {func(i int) []string { return []string{[]string{"count", "Nothing"}[min(i%3, 1)], `{}`} }, nil, 9},
		"a tool that fails": {func(int) []string { return []string{"fail", `{}`} }, nil, 9},
	} {
		t.Run(name, func(t *testing.T) {
			var script []modeltest.Reply
			for i := range 8 {
				var calls []modeltest.Step
				for pair := range slices.Chunk(row.input(i), 2) {
					calls = append(calls, modeltest.ToolCall(fmt.Sprintf("t%d-%d", i+1, len(calls)), pair[0], pair[1]))
				}
				script = append(script, modeltest.Stream(calls...))
			}
			m, up := upstream(t, modeltest.Anthropic, append(script, modeltest.Stream(modeltest.Text("Done.")))...)
			s := newSetup(m, tool.New(tool.Spec{Name: "Bash"}, nil),
				withSchema("count", `{"type":"object","properties":{"n":{"type":"integer"}}}`),
				tool.New(tool.Spec{Name: "fail"}, func(context.Context, tool.Call) (tool.Result, error) {
					return tool.Result{Output: "not yet", IsError: true}, nil
				}))
			s.Policy = policy(t, permission.ModeDontAsk, []string{"count", "fail"}, nil)
			s.MaxTurns = 20
			got := s.run(t.Context(), t, "")
			var warned []int
			for _, line := range results(got.lines) {
				if strings.Contains(line, told) {
					var turn int
					_, err := fmt.Sscanf(line, "tool_result t%d", &turn)
					require.NoError(t, err)
					require.Contains(t, line, fmt.Sprintf("in %d turns in a row", turn))
					warned = append(warned, turn)
				}
			}
			require.Equal(t, row.warned, warned)
			require.Equal(t, row.turns, got.outcome.NumTurns)
			require.Len(t, up.Requests(), row.turns)
			if row.turns == 9 {
				require.NoError(t, got.err)
				return
			}
			require.ErrorIs(t, got.err, engine.ErrRepeated)
			require.Contains(t, string(last(up).Body), told, "the model reads it")
		})
	}
}

// The call that a tool, the policy and Approve receive is that of the conversation and the events.
func TestTheCoercedInputIsJudgedAndStored(t *testing.T) {
	m, up := upstream(t, modeltest.OpenAI,
		modeltest.Stream(modeltest.ToolCall("t1", "Bash", `"{\"command\":\"ls\",\"timeout\":\"5\",\"description\":null}"`)),
		modeltest.Stream(modeltest.Text("Done.")))
	const want = `{"command":"ls","timeout":5}`
	var got, asked string
	bash := tool.New(tool.Spec{Name: "Bash", InputSchema: json.RawMessage(`{"type":"object","required":["command"],
		"properties":{"command":{"type":"string"},"timeout":{"type":"integer"},"description":{"type":"string"}}}`)},
		func(_ context.Context, call tool.Call) (tool.Result, error) {
			got = string(call.Input)
			return tool.Result{Output: "ok"}, nil
		})
	s := newSetup(m, bash)
	s.Policy = policy(t, permission.ModeDefault, nil, nil)
	s.Approve = func(_ context.Context, a engine.ApprovalRequest) bool {
		asked = string(a.Input)
		return true
	}
	events := s.run(t.Context(), t, "")
	require.NoError(t, events.err)
	require.Equal(t, want, got)
	require.Equal(t, want, asked)
	require.Contains(t, string(last(up).Body), `{\"command\":\"ls\",\"timeout\":5}`)
	require.NotContains(t, string(last(up).Body), "description\\\":null")
	held, err := s.store.Open(t.Context(), "agent", events.session)
	require.NoError(t, err)
	defer held.Close()
	require.Equal(t, want, string(held.Messages()[1].ToolUses()[0].Input))
}
