package engine_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// sizeLimited is an upstream that rejects requests with bodies over limit bytes. It responds
// to the others with reply.
func sizeLimited(t *testing.T, protocol modeltest.Protocol, limit int, reply func(n int) modeltest.Reply) (model.Model, *modeltest.Upstream) {
	t.Helper()
	accepted := 0
	return upstream(t, protocol, modeltest.Repeat(modeltest.Choose(func(r *modeltest.Request) modeltest.Reply {
		if len(r.Body) > limit {
			return modeltest.PromptTooLong()
		}
		accepted++
		return reply(accepted)
	})))
}

func textReply(int) modeltest.Reply { return modeltest.Stream(modeltest.Text("Fine.")) }

// largestTokens is the context window of the tests, far above what their upstreams accept.
const largestTokens = 200_000

func TestSessionRejectedForItsSizeStaysUsable(t *testing.T) {
	const limit = 20_000 // bytes of a request body
	big := strings.Repeat("word ", 40_000)
	bigTool := tool.New(tool.Spec{Name: "read", Description: "Reads.", ReadOnly: true},
		func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{Output: big[:100_000]}, nil })
	stores := map[string]func(*testing.T) session.Store{
		"memory": func(*testing.T) session.Store { return session.NewMemory(session.MemoryConfig{}) },
		"files": func(t *testing.T) session.Store {
			store, err := session.NewFiles(session.FilesConfig{Dir: t.TempDir(), CWD: t.TempDir()})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, store.Close()) })
			return store
		},
	}
	for name, row := range map[string]struct {
		stored   []string // messages of the session, by user and assistant alternately
		messages []string // one per run
		failing  int      // runs at the beginning that fail
		reply    func(n int) modeltest.Reply
	}{
		"a message that is too long by itself": {messages: []string{big, "And now?", "Again."}, failing: 1},
		"the same message twice":               {messages: []string{big, big, "And now?", "Again."}, failing: 2},
		"many turns that are too long together": {
			stored:   strings.Split(strings.Repeat(strings.Repeat("word ", 500)+"|", 60)+"last", "|"),
			messages: []string{"And now?", "Again."},
		},
		"a long answer": {stored: []string{"Write a book.", big}, messages: []string{"And now?"}},
		"text that is not ASCII": {
			stored:   []string{strings.Repeat("好", 50_000), "ok"},
			messages: []string{"And now?"},
		},
		"results of parallel calls": {messages: []string{"Read.", "Again."}, reply: func(n int) modeltest.Reply {
			if n > 1 {
				return textReply(n)
			}
			return modeltest.Stream(modeltest.ToolCall("t1", "read", `{}`), modeltest.ToolCall("t2", "read", `{}`))
		}},
	} {
		if row.reply == nil {
			row.reply = textReply
		}
		for storeName, store := range stores {
			for _, protocol := range []modeltest.Protocol{modeltest.Anthropic, modeltest.OpenAI} {
				t.Run(name+"/"+storeName+"/"+string(protocol), func(t *testing.T) {
					m, up := sizeLimited(t, protocol, limit, row.reply)
					s := newSetup(m, bigTool)
					s.ContextWindow, s.store, s.input.Partials = largestTokens, store(t), false
					id := storeMessages(t, s.store, row.stored)
					for i, message := range row.messages {
						s.input.Message = message
						got := s.run(t.Context(), t, id)
						id = got.session
						if i < row.failing {
							var upstream *model.Error
							require.ErrorAs(t, got.err, &upstream)
							require.Equal(t, model.Code(runvalue.ErrorTypePromptTooLong), upstream.Code)
							continue
						}
						require.NoError(t, got.err)
						require.Equal(t, "Fine.", got.outcome.Text)
						require.Contains(t, string(last(up).Body), message, "the request itself is never cut")
					}
					before := len(up.Requests())
					s.input.Message = "Last."
					require.NoError(t, s.run(t.Context(), t, id).err)
					require.Len(t, up.Requests(), before+1, "a compacted session is not rejected again")
				})
			}
		}
	}
}

func storeMessages(t *testing.T, store session.Store, texts []string) string {
	t.Helper()
	held, err := store.Open(t.Context(), "agent", "")
	require.NoError(t, err)
	for i, text := range texts {
		m := model.UserText(text)
		if i%2 == 1 {
			m.Role = model.RoleAssistant
		}
		require.NoError(t, held.Append(t.Context(), m))
	}
	require.NoError(t, held.Close())
	return held.ID()
}

func last(up *modeltest.Upstream) *modeltest.Request {
	all := up.Requests()
	return all[len(all)-1]
}

func TestRejectedRequestIsNotSentAgain(t *testing.T) {
	m, up := sizeLimited(t, modeltest.Anthropic, 20_000, textReply)
	s := newSetup(m)
	s.ContextWindow = largestTokens
	id := storeMessages(t, s.store, []string{strings.Repeat("word ", 40_000), "ok"})
	got := s.run(t.Context(), t, id)
	require.NoError(t, got.err)
	require.Equal(t, 1, got.outcome.NumTurns, "a rejected request is not a turn")
	sent := map[string]bool{}
	for _, r := range up.Requests() {
		require.False(t, sent[string(r.Body)])
		sent[string(r.Body)] = true
	}
}

func TestRejectionsOfOneRunAreBounded(t *testing.T) {
	m, up := sizeLimited(t, modeltest.Anthropic, 0, textReply)
	s := newSetup(m)
	id := storeMessages(t, s.store, []string{strings.Repeat("word ", 40_000), "ok"})
	got := s.run(t.Context(), t, id)
	require.ErrorContains(t, got.err, "prompt is too long")
	require.LessOrEqual(t, len(up.Requests()), 8)
	held, err := s.store.Open(t.Context(), "agent", id)
	require.NoError(t, err)
	require.Len(t, held.Messages(), 3, "nothing is removed without a summary")
	require.NoError(t, held.Close())
}

func TestRejectionAfterTextEndsTheRun(t *testing.T) {
	m, up := upstream(t, modeltest.OpenAI, modeltest.Stream(modeltest.Text("Half"),
		modeltest.Verbatim("data: {\"error\":{\"message\":\"maximum context length\",\"code\":\"context_length_exceeded\"}}\n\n")))
	s := newSetup(m)
	id := storeMessages(t, s.store, []string{strings.Repeat("word ", 4_000), "ok"})
	got := s.run(t.Context(), t, id)
	require.ErrorContains(t, got.err, "maximum context length")
	require.Len(t, up.Requests(), 1)
	require.Positive(t, got.outcome.Usage.InputTokens)
	require.True(t, got.outcome.Usage.Estimated)
	got.outcome.Usage = wire.Usage{}
	require.Equal(t, engine.Outcome{Text: "Half", NumTurns: 1}, got.outcome)
}
