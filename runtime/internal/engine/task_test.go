package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/internal/permission"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

func policy(t *testing.T, mode permission.Mode, allowed, disallowed []string) *permission.Policy {
	t.Helper()
	p, err := permission.New(permission.Config{Mode: mode, Allowed: allowed, Disallowed: disallowed})
	require.NoError(t, err)
	return p
}

// helped returns a setup whose agent has a subagent "scout" with a separate upstream.
func helped(t *testing.T, change func(*engine.Config), sub ...modeltest.Reply) (*setup, *modeltest.Upstream) {
	t.Helper()
	m, up := upstream(t, modeltest.Anthropic, sub...)
	cfg := engine.Config{Model: m, Request: model.Request{Model: "small", System: "You scout."}, Tools: []tool.Tool{greet(true)}}
	if change != nil {
		change(&cfg)
	}
	scout, err := engine.New(cfg)
	require.NoError(t, err)
	s := newSetup(nil)
	s.Subagents = []engine.Subagent{{Name: "scout", Description: "Looks around.", Engine: scout}}
	return s, up
}

const taskInput = `{"description":"look","prompt":"Look around.","subagent_type":"scout"}`

func TestTask(t *testing.T) {
	s, subUp := helped(t, nil,
		modeltest.Stream(modeltest.Text("Looking."), modeltest.ToolCall("s1", "greet", `{"name":"Ada"}`),
			modeltest.Usage(model.Usage{InputTokens: 100, OutputTokens: 10})),
		modeltest.Stream(modeltest.Text("All quiet."), modeltest.Usage(model.Usage{InputTokens: 200, OutputTokens: 20})))
	var up *modeltest.Upstream
	s.Model, up = upstream(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.ToolCall("t1", "Task", taskInput), modeltest.Usage(model.Usage{InputTokens: 1, OutputTokens: 1})),
		modeltest.Stream(modeltest.Text("Done."), modeltest.Usage(model.Usage{InputTokens: 2, OutputTokens: 2})))
	e, err := engine.New(s.Config)
	require.NoError(t, err)
	held, err := s.store.Open(t.Context(), "agent", "")
	require.NoError(t, err)
	in := s.input
	in.Session, in.Message, in.Partials = held, "the user's secret plan", false
	run := start(e, in)
	var got []string
	for ev, err := range run.Events(t.Context()) {
		require.NoError(t, err)
		line, parent := short(ev), (*string)(nil)
		switch p := ev.Payload.(type) {
		case *wire.Assistant:
			parent = p.ParentToolUseID
			require.Equal(t, held.ID(), p.SessionID)
		case *wire.ToolResult:
			parent = p.ParentToolUseID
		}
		if parent != nil {
			line = "in " + *parent + ": " + line
		}
		got = append(got, line)
	}
	require.NoError(t, held.Close())
	require.Equal(t, []string{
		"assistant tool_use 1 blocks",
		"in t1: assistant tool_use 2 blocks", `in t1: tool_result s1 false "Hello, Ada"`, "in t1: assistant end_turn 1 blocks",
		`tool_result t1 false "All quiet."`,
		"assistant end_turn 1 blocks",
	}, got)
	outcome := run.Outcome()
	require.Equal(t, wire.Usage{InputTokens: 303, OutputTokens: 33}, outcome.Usage, "what a subagent used counts")
	require.Equal(t, 2, outcome.NumTurns, "its turns do not")
	require.Equal(t, "Done.", outcome.Text)

	first := string(subUp.Requests()[0].Body)
	require.Contains(t, first, "Look around.")
	require.Contains(t, first, "You scout.")
	require.NotContains(t, first, "secret plan", "it starts with only its prompt")
	require.NotContains(t, first, `"Task"`, "one level deep")
	require.Contains(t, string(up.Requests()[0].Body), "- scout: Looks around.")
	second := string(up.Requests()[1].Body)
	require.Contains(t, second, "All quiet.")
	require.NotContains(t, second, "Looking.", "only its last text comes back")
}

func TestTasksRunInParallel(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	meet := tool.New(tool.Spec{Name: "meet"}, func(context.Context, tool.Call) (tool.Result, error) {
		both.Done()
		both.Wait()
		return tool.Result{Output: "met"}, nil
	})
	answer := modeltest.Choose(func(r *modeltest.Request) modeltest.Reply {
		if strings.Contains(string(r.Body), "tool_result") {
			return modeltest.Stream(modeltest.Text("Met."))
		}
		return modeltest.Stream(modeltest.ToolCall("s1", "meet", `{}`))
	})
	s, _ := helped(t, func(c *engine.Config) {
		c.Tools, c.Policy = []tool.Tool{meet}, policy(t, permission.ModeBypass, nil, nil)
	}, modeltest.Repeat(answer))
	s.Model, _ = upstream(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.ToolCall("t1", "Task", taskInput), modeltest.ToolCall("t2", "Task", taskInput)),
		modeltest.Stream(modeltest.Text("Done.")))
	got := s.run(t.Context(), t, "")
	require.NoError(t, got.err)
	require.Contains(t, got.lines, `tool_result t1 false "Met."`)
	require.Contains(t, got.lines, `tool_result t2 false "Met."`)
}

func TestTaskGoesWrong(t *testing.T) {
	again := modeltest.Stream(modeltest.Text("More."), modeltest.ToolCall("s1", "greet", `{"name":"Ada"}`))
	for name, row := range map[string]struct {
		input  string
		change func(*engine.Config)
		sub    []modeltest.Reply
		want   string
	}{
		"unknown subagent": {`{"description":"d","prompt":"p","subagent_type":"spy"}`, nil, nil, "does not match the schema"},
		"an empty prompt":  {`{"description":"d","prompt":" ","subagent_type":"scout"}`, nil, nil, "The prompt is empty."},
		"no prompt":        {`{"description":"d","subagent_type":"scout"}`, nil, nil, "does not match the schema"},
		"upstream refuses": {taskInput, nil, []modeltest.Reply{modeltest.Status(401)}, "The subagent did not finish"},
		"too many turns": {taskInput, func(c *engine.Config) { c.MaxTurns = 1 }, []modeltest.Reply{again},
			"More.\nThe subagent did not finish: the maximum number of turns is reached."},
		"turns of the agent": {taskInput, nil, []modeltest.Reply{again, again}, "maximum number of turns"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := helped(t, row.change, row.sub...)
			s.Model, _ = upstream(t, modeltest.Anthropic,
				modeltest.Stream(modeltest.ToolCall("t1", "Task", row.input)), modeltest.Stream(modeltest.Text("Done.")))
			s.MaxTurns = 2 // also for subagents that may have more
			got := s.run(t.Context(), t, "")
			require.NoError(t, got.err)
			lines := results(got.lines)
			require.Contains(t, lines[len(lines)-1], "tool_result t1 true")
			require.Contains(t, strings.ReplaceAll(lines[len(lines)-1], `\n`, "\n"), row.want)
		})
	}
}

func TestDenialsInATaskBelongToTheRun(t *testing.T) {
	s, _ := helped(t, func(c *engine.Config) { c.Tools = []tool.Tool{greet(false)} },
		modeltest.Stream(modeltest.ToolCall("s1", "greet", `{}`)), modeltest.Stream(modeltest.Text("Refused.")))
	s.Model, _ = upstream(t, modeltest.Anthropic, modeltest.Stream(modeltest.ToolCall("t1", "Task", taskInput)),
		modeltest.Stream(modeltest.Text("Done.")))
	got := s.run(t.Context(), t, "")
	require.NoError(t, got.err)
	require.Contains(t, got.lines, "system permission_denied greet")
	require.Len(t, got.outcome.Denials, 1)
	require.Equal(t, "s1", got.outcome.Denials[0].ToolUseID)
}

func TestCancelReachesSubagents(t *testing.T) {
	s, subUp := helped(t, nil, modeltest.Stream(modeltest.Text("One"), modeltest.Hang()))
	s.Model, _ = upstream(t, modeltest.Anthropic, modeltest.Stream(modeltest.ToolCall("t1", "Task", taskInput)))
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		subUp.Await(t, 1)
		cancel(cause)
	}()
	require.ErrorIs(t, s.run(ctx, t, "").err, cause)
	_, early := subUp.Requests()[0].End()
	require.True(t, early, "the subagent's upstream sees the connection closed")
}

func TestInvalidSubagents(t *testing.T) {
	s, _ := helped(t, nil)
	s.Model, _ = upstream(t, modeltest.Anthropic)
	whole, err := engine.New(s.Config)
	require.NoError(t, err)
	scout := s.Subagents[0]
	for name, row := range map[string]struct {
		subagents []engine.Subagent
		tools     []tool.Tool
		want      string
	}{
		"no engine":            {[]engine.Subagent{{Name: "a"}}, nil, "needs a name and an engine"},
		"two of one name":      {[]engine.Subagent{scout, scout}, nil, `two subagents are named "scout"`},
		"of two levels":        {[]engine.Subagent{{Name: "a", Engine: whole}}, nil, "subagents of its own"},
		"next to another Task": {[]engine.Subagent{scout}, []tool.Tool{remote("Task")}, `two tools are named "Task"`},
		"a schema that is not": {nil, []tool.Tool{tool.New(tool.Spec{Name: "a", InputSchema: []byte("[]")}, nil)}, "not a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := s.Config
			cfg.Subagents, cfg.Tools = row.subagents, row.tools
			_, err := engine.New(cfg)
			require.ErrorContains(t, err, row.want)
		})
	}
}
