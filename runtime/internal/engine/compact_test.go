package engine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// asked returns the conversation in a request to upstream, one line for each message.
func asked(t *testing.T, r *modeltest.Request) string {
	t.Helper()
	var body struct {
		Messages []struct {
			Role    string
			Content []struct{ Type, Text, Name, Content, ID string }
		}
	}
	require.NoError(t, json.Unmarshal(r.Body, &body), "%s", r.Body)
	var lines []string
	for _, m := range body.Messages {
		line := m.Role + ":"
		for _, c := range m.Content {
			text := c.Text + c.Name + c.Content
			line += fmt.Sprintf(" %s %q", c.Type, text[:min(len(text), 60)])
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// long is an input that exceeds a fifth of a window of 1000 tokens.
var long = `{"name":"Ada` + strings.Repeat("a", 900) + `"}`

func TestAConversationNearTheWindowIsSummarised(t *testing.T) {
	m, up := upstream(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.ToolCall("t1", "greet", long), modeltest.Usage(model.Usage{InputTokens: 300, OutputTokens: 20})),
		modeltest.Stream(modeltest.ToolCall("t2", "greet", `{"name":"Bob"}`),
			modeltest.Usage(model.Usage{InputTokens: 700, CacheReadInputTokens: 80, OutputTokens: 30})),
		modeltest.Stream(modeltest.Text("Ada was greeted."),
			modeltest.Usage(model.Usage{InputTokens: 800, OutputTokens: 9})), // the summary
		modeltest.Stream(modeltest.Text("Both are greeted."), modeltest.Usage(model.Usage{InputTokens: 100, OutputTokens: 5})),
		modeltest.Stream(modeltest.Text("Once more."), modeltest.Usage(model.Usage{InputTokens: 130, OutputTokens: 5})),
	)
	s := newSetup(m, greet(true))
	s.ContextWindow, s.input.Partials = 1000, false
	s.input.Message = "Greet Ada and Bob."
	e, err := engine.New(s.Config)
	require.NoError(t, err)
	held, err := s.store.Open(t.Context(), "agent", "")
	require.NoError(t, err)
	in := s.input
	in.Session = held
	run := start(e, in)
	var meta *wire.CompactMetadata
	var names []string
	for ev, err := range run.Events(t.Context()) {
		require.NoError(t, err)
		if p, ok := ev.Payload.(*wire.System); ok {
			require.Equal(t, runvalue.SystemCompactBoundary, p.Subtype)
			meta = p.CompactMetadata
		}
		names = append(names, ev.EventName())
	}
	require.NoError(t, held.Close())
	require.Equal(t, []string{"assistant", "tool_result", "assistant", "tool_result", "system", "assistant"}, names)
	require.Equal(t, "auto", meta.Trigger)
	require.Greater(t, meta.PreTokens, int64(800), "what upstream has counted, and the result since")
	require.Less(t, meta.PostTokens, meta.PreTokens)
	require.Equal(t, 3, run.Outcome().NumTurns, "the summary is not a turn")
	require.Equal(t, int64(300+700+800+100), run.Outcome().Usage.InputTokens, "but it counts")

	reqs := up.Requests()
	summary := asked(t, reqs[2])
	require.True(t, strings.HasPrefix(summary, `user: text "Greet Ada and Bob."`), summary)
	require.Contains(t, summary, "about to be replaced by a summary")
	require.Equal(t, `user: text "This is a summary of the conversation so far:\n\nAda was greet"
assistant: tool_use "greet"
user: tool_result "Hello, Bob"`, asked(t, reqs[3]), "a call keeps its result")
	require.Contains(t, string(reqs[3].Body), `The current request:\n\nGreet Ada and Bob.`)

	// The session continues with the summary.
	s.input.Message = "And again."
	got := s.run(t.Context(), t, held.ID())
	require.NoError(t, got.err)
	require.Equal(t, asked(t, reqs[3])+"\nassistant: text \"Both are greeted.\"\nuser: text \"And again.\"",
		asked(t, up.Requests()[4]))
}

func TestALongSessionIsSummarisedWhenItIsResumed(t *testing.T) {
	m, up := upstream(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.Text("ok")),
		modeltest.Stream(modeltest.Text("A long text was sent.")),
		modeltest.Stream(modeltest.Text("Fine.")),
	)
	s := newSetup(m)
	s.ContextWindow, s.input.Partials = 1000, false
	s.input.Message = strings.Repeat("word ", 700)
	first := s.run(t.Context(), t, "")
	require.NoError(t, first.err)
	s.input.Message = "And now?"
	second := s.run(t.Context(), t, first.session)
	require.NoError(t, second.err)
	require.Equal(t, []string{"system compact_boundary ", "assistant end_turn 1 blocks"}, second.lines)
	last := asked(t, up.Requests()[2])
	require.NotContains(t, last, "word word")
	require.Contains(t, last, "And now?")
	require.NotContains(t, string(up.Requests()[2].Body), "being worked on", "the message is still there itself")
}

func TestRunContinuesWithoutASummary(t *testing.T) {
	big, small := modeltest.Usage(model.Usage{InputTokens: 900,
		OutputTokens: 1}), modeltest.Usage(model.Usage{InputTokens: 400, OutputTokens: 1})
	for name, reply := range map[string]modeltest.Reply{
		"upstream refuses":  modeltest.Status(529),
		"no text came back": modeltest.Stream(modeltest.ToolCall("x", "greet", `{}`)),
		"it is cut":         modeltest.Stream(modeltest.Text(strings.Repeat("sum ", 500)), modeltest.Cut()),
	} {
		t.Run(name, func(t *testing.T) {
			m, up := upstream(t, modeltest.Anthropic,
				modeltest.Stream(modeltest.ToolCall("t1", "greet", long), small),
				modeltest.Stream(modeltest.ToolCall("t2", "greet", `{"name":"Bob"}`), big),
				reply,
				modeltest.Stream(modeltest.ToolCall("t3", "greet", `{"name":"Eve"}`), big),
				modeltest.Stream(modeltest.Text("Done.")),
			)
			s := newSetup(m, greet(true))
			s.ContextWindow, s.input.Partials = 1000, false
			got := s.run(t.Context(), t, "")
			require.NoError(t, got.err)
			require.Equal(t, []string{
				"assistant tool_use 1 blocks", fmt.Sprintf("tool_result t1 false %q", "Hello, Ada"+strings.Repeat("a", 900)),
				"assistant tool_use 1 blocks", `tool_result t2 false "Hello, Bob"`, "system warning ",
				"assistant tool_use 1 blocks", `tool_result t3 false "Hello, Eve"`, "assistant end_turn 1 blocks",
			}, got.lines, "it is tried once")
			require.Contains(t, asked(t, up.Requests()[3]), "hello")
			require.Equal(t, name == "it is cut", got.outcome.Usage.Estimated)
			if got.outcome.Usage.Estimated {
				require.GreaterOrEqual(t, got.outcome.Usage.OutputTokens, int64(500), "the beginning of the summary counts")
			}
		})
	}
}
