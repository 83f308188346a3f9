package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model"
)

// thoughtful is a response with thinking, a redacted block and a call with unknown fields.
func thoughtful(origin, id string) model.Message {
	return model.Message{Role: model.RoleAssistant, Origin: origin, Content: []model.Block{
		{Type: model.BlockThinking, Text: "Hm.", Signature: "sig"}, {Type: model.BlockRedacted, Data: "opaque"},
		{Type: model.BlockToolUse, ID: id, Name: "greet", Input: []byte(`{}`), Extra: []byte(`{"x":1}`)},
	}}
}

func resultOf(id string) model.Message {
	return model.Message{Role: model.RoleUser, Content: []model.Block{{Type: model.BlockToolResult, ID: id, Text: "hi"}}}
}

// Only the model that produced thinking and unknown fields accepts them. Ids of calls become those
// that every model accepts, and are the same in each run.
func TestMessagesOfAnotherOrigin(t *testing.T) {
	const short = "JA4KBQSS4" // of toolu_1
	cleaned := model.Message{Role: model.RoleAssistant, Origin: "b", Content: []model.Block{
		{Type: model.BlockToolUse, ID: short, Name: "greet", Input: []byte(`{}`)},
	}}
	for name, row := range map[string]struct {
		origin string
		stored []model.Message
		want   []model.Message
	}{
		"own":             {"a", []model.Message{thoughtful("a", "toolu_1"), resultOf("toolu_1")}, []model.Message{thoughtful("a", "toolu_1"), resultOf("toolu_1")}},
		"unknown":         {"a", []model.Message{thoughtful("", "toolu_1"), resultOf("toolu_1")}, []model.Message{thoughtful("", "toolu_1"), resultOf("toolu_1")}},
		"another":         {"a", []model.Message{thoughtful("b", "toolu_1"), resultOf("toolu_1")}, []model.Message{cleaned, resultOf(short)}},
		"none of its own": {"", []model.Message{thoughtful("b", "toolu_1"), resultOf("toolu_1")}, []model.Message{cleaned, resultOf(short)}},
		"no result": {"a", []model.Message{thoughtful("b", "toolu_1")}, []model.Message{cleaned,
			{Role: model.RoleUser, Content: []model.Block{{Type: model.BlockToolResult, ID: short, Text: "The call was interrupted, and its outcome is unknown: it may have had its effect.", IsError: true}}}}},
		"a result of an own call next": {"a", []model.Message{thoughtful("b", "toolu_1"), resultOf("toolu_1"), thoughtful("a", "toolu_1"), resultOf("toolu_1")},
			[]model.Message{cleaned, resultOf(short), thoughtful("a", "toolu_1"), resultOf("toolu_1")}},
		"only thinking": {"a", []model.Message{{Role: model.RoleAssistant, Origin: "b", Content: thoughtful("b", "").Content[:2]}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []model.Message
			s := newSetup(inProcess(func(_ context.Context, req *model.Request, yield func(model.Part, error) bool) {
				got = req.Messages
				_ = yield(model.Part{Kind: model.KindText, Text: "Hi."}, nil) && yield(model.Part{Kind: model.KindStop, StopReason: model.StopEndTurn}, nil)
			}))
			s.Origin = row.origin
			held, err := s.store.Open(t.Context(), "agent", "")
			require.NoError(t, err)
			require.NoError(t, held.Append(t.Context(), model.UserText("first")))
			for _, m := range row.stored {
				require.NoError(t, held.Append(t.Context(), m))
			}
			require.NoError(t, held.Close())
			for range 2 {
				run := s.run(t.Context(), t, held.ID())
				require.NoError(t, run.err)
				require.Equal(t, model.UserText("first").Content[0], got[0].Content[0])
				for i, want := range row.want {
					require.Equal(t, want.Role, got[1+i].Role)
					require.Equal(t, want.Content, got[1+i].Content[:len(want.Content)])
				}
			}
			held, err = s.store.Open(t.Context(), "agent", held.ID())
			require.NoError(t, err)
			messages := held.Messages()
			require.Equal(t, row.stored, messages[1:1+len(row.stored)], "the session keeps them as they are")
			require.Equal(t, row.origin, messages[len(messages)-1].Origin)
			require.NoError(t, held.Close())
		})
	}
}

// The last call of a truncated response is not executed, and the run ends with the text before it.
func TestATruncatedResponse(t *testing.T) {
	for _, stop := range []string{model.StopMaxTokens, model.StopContext} {
		n := 0
		s := newSetup(inProcess(func(_ context.Context, _ *model.Request, yield func(model.Part, error) bool) {
			n++
			_ = yield(model.Part{Kind: model.KindText, Text: "First"}, nil) &&
				yield(model.Part{Kind: model.KindToolUse, Index: 1, ID: "t1", Name: "Now"}, nil) &&
				yield(model.Part{Kind: model.KindToolInput, Index: 1, Text: `{"a":`}, nil) &&
				yield(model.Part{Kind: model.KindStop, StopReason: stop}, nil)
		}))
		got := s.run(t.Context(), t, "")
		require.NoError(t, got.err)
		require.Equal(t, 1, n)
		require.Equal(t, stop, got.outcome.StopReason)
		require.Equal(t, "First", got.outcome.Text)
	}
}

// A response without a text or a call is no success, and it is not stored: model APIs reject it in
// the next request. The text of an earlier response of the run is an answer.
func TestAResponseWithoutOutput(t *testing.T) {
	for name, row := range map[string]struct {
		text, stop, want string
	}{
		"the limit":          {"", model.StopMaxTokens, "maxOutputTokens must be larger"},
		"nothing":            {"", model.StopEndTurn, "the model ended its response without a text"},
		"a blank text":       {" \n", model.StopEndTurn, "the model ended its response without a text"},
		"a call that is no":  {"", model.StopToolUse, "the model ended its response without a text"},
		"the context window": {"", model.StopContext, "the conversation reached the context window of the model"},
		"a refusal":          {"", model.StopRefusal, "the model refused to respond"},
		"a text":             {"Yes.", model.StopEndTurn, ""},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			s := newSetup(inProcess(func(_ context.Context, req *model.Request, yield func(model.Part, error) bool) {
				calls++
				_ = yield(model.Part{Kind: model.KindThinking, Text: "Hm."}, nil) && yield(model.Part{Kind: model.KindSignature, Text: "sig"}, nil) &&
					(row.text == "" || yield(model.Part{Kind: model.KindText, Index: 1, Text: row.text}, nil)) &&
					yield(model.Part{Kind: model.KindStop, StopReason: row.stop}, nil)
			}))
			for n := range 2 {
				got := s.run(t.Context(), t, "")
				if row.want == "" {
					require.NoError(t, got.err)
				} else {
					require.ErrorContains(t, got.err, row.want)
				}
				require.Equal(t, n+1, calls)
			}
		})
	}
	t.Run("after a call", func(t *testing.T) {
		for text, want := range map[string]string{"It is done.": "", "": "without a text"} {
			n := 0
			s := newSetup(inProcess(func(_ context.Context, _ *model.Request, yield func(model.Part, error) bool) {
				if n++; n > 1 {
					yield(model.Part{Kind: model.KindStop, StopReason: model.StopEndTurn}, nil)
					return
				}
				_ = (text == "" || yield(model.Part{Kind: model.KindText, Text: text}, nil)) &&
					yield(model.Part{Kind: model.KindToolUse, Index: 1, ID: "t1", Name: "Now"}, nil) &&
					yield(model.Part{Kind: model.KindStop, StopReason: model.StopToolUse}, nil)
			}))
			got := s.run(t.Context(), t, "")
			if want != "" {
				require.ErrorContains(t, got.err, want)
				continue
			}
			require.NoError(t, got.err)
			require.Equal(t, text, got.outcome.Text)
		}
	})
	t.Run("the session continues", func(t *testing.T) {
		calls := 0
		s := newSetup(inProcess(func(_ context.Context, req *model.Request, yield func(model.Part, error) bool) {
			calls++
			require.Len(t, req.Messages, 1)
			require.Len(t, req.Messages[0].Content, calls)
			_ = yield(model.Part{Kind: model.KindThinking, Text: "Hm."}, nil) && yield(model.Part{Kind: model.KindStop, StopReason: model.StopMaxTokens}, nil)
		}))
		first := s.run(t.Context(), t, "")
		require.Error(t, first.err)
		require.Contains(t, first.lines, "assistant max_tokens 1 blocks")
		require.Error(t, s.run(t.Context(), t, first.session).err)
		require.Equal(t, 2, calls)
		held, err := s.store.Open(t.Context(), "agent", first.session)
		require.NoError(t, err)
		require.Len(t, held.Messages(), 2, "the messages of the user")
		require.NoError(t, held.Close())
	})
}
