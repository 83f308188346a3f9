package collect_test

import (
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
)

// yielding returns a response with these parts. If err is not nil, the response ends with it.
func yielding(err error, parts ...model.Part) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		for _, p := range parts {
			if !yield(p, nil) {
				return
			}
		}
		if err != nil {
			yield(model.Part{}, err)
		}
	}
}

func part(kind model.PartKind, index int, text string) model.Part {
	return model.Part{Kind: kind, Index: index, Text: text}
}

func call(index int, id string) model.Part {
	return model.Part{Kind: model.KindToolUse, Index: index, ID: id, Name: "Read"}
}

func stop(reason string) model.Part { return model.Part{Kind: model.KindStop, StopReason: reason} }

func TestCollect(t *testing.T) {
	for name, row := range map[string]struct {
		parts []model.Part
		want  []model.Block
	}{
		"nothing": {nil, nil},
		"text": {[]model.Part{part(model.KindText, 0, "a"), part(model.KindText, 0, "b")},
			[]model.Block{{Type: model.BlockText, Text: "ab"}}},
		"texts apart": {[]model.Part{part(model.KindText, 0, "a"), part(model.KindText, 2, "b")},
			[]model.Block{{Type: model.BlockText, Text: "a"}, {Type: model.BlockText, Text: "b"}}},
		"empty text": {[]model.Part{part(model.KindText, 0, "")}, nil},
		"thinking, signed": {[]model.Part{part(model.KindThinking, 0, "a"), part(model.KindSignature, 0, "s"),
			part(model.KindSignature, 0, "t")}, []model.Block{{Type: model.BlockThinking, Text: "a", Signature: "st"}}},
		"only a signature": {[]model.Part{part(model.KindSignature, 0, "s")},
			[]model.Block{{Type: model.BlockThinking, Signature: "s"}}},
		"redacted": {[]model.Part{part(model.KindRedacted, 0, "r")}, []model.Block{{Type: model.BlockRedacted, Data: "r"}}},
		"one index for two types": {[]model.Part{part(model.KindThinking, 0, "a"), part(model.KindText, 0, "b"),
			part(model.KindThinking, 0, "c")},
			[]model.Block{{Type: model.BlockThinking, Text: "ac"}, {Type: model.BlockText, Text: "b"}}},
		"calls interleaved": {
			[]model.Part{call(1, "c1"), call(2, "c2"), part(model.KindToolInput, 1, `{"n"`),
				part(model.KindToolInput, 2, ` {"m": [1, 2]} `), part(model.KindToolInput, 1, `:1}`)},
			[]model.Block{
				{Type: model.BlockToolUse, ID: "c1", Name: "Read", Input: []byte(`{"n":1}`)},
				{Type: model.BlockToolUse, ID: "c2", Name: "Read", Input: []byte(`{"m":[1,2]}`)},
			},
		},
		"call without input": {[]model.Part{call(0, "c1")},
			[]model.Block{{Type: model.BlockToolUse, ID: "c1", Name: "Read", Input: []byte(`{}`)}}},
		"input cut short": {[]model.Part{call(0, "c1"), part(model.KindToolInput, 0, `{"n":`)},
			[]model.Block{{Type: model.BlockToolUse, ID: "c1", Name: "Read", Input: []byte(`{}`), BadInput: `{"n":`}}},
		"input not an object": {[]model.Part{call(0, "c1"), part(model.KindToolInput, 0, `[1]`)},
			[]model.Block{{Type: model.BlockToolUse, ID: "c1", Name: "Read", Input: []byte(`{}`), BadInput: `[1]`}}},
		"two objects": {[]model.Part{call(0, "c1"), part(model.KindToolInput, 0, `{}{}`)},
			[]model.Block{{Type: model.BlockToolUse, ID: "c1", Name: "Read", Input: []byte(`{}`), BadInput: `{}{}`}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := new(collect.Collector).Collect(yielding(nil, append(row.parts, stop(model.StopEndTurn))...))
			require.NoError(t, err)
			require.Equal(t, collect.Response{
				Message:    model.Message{Role: model.RoleAssistant, Content: row.want},
				StopReason: model.StopEndTurn,
			}, got)
		})
	}
}

func TestLatestUsageCounts(t *testing.T) {
	u := func(n int64) model.Part {
		return model.Part{Kind: model.KindUsage, Usage: model.Usage{OutputTokens: n}}
	}
	got, err := new(collect.Collector).Collect(yielding(nil, u(1), u(7), stop(model.StopEndTurn)))
	require.NoError(t, err)
	require.Equal(t, model.Usage{OutputTokens: 7}, got.Usage)
}

// TestCollectCutOff verifies that a call that may be incomplete is neither run nor stored.
func TestCollectCutOff(t *testing.T) {
	broken := errors.New("broken off")
	got, err := new(collect.Collector).Collect(yielding(broken,
		part(model.KindText, 0, "a"),
		call(1, "whole"), part(model.KindToolInput, 1, `{"n":1}`),
		call(2, "half"), part(model.KindToolInput, 2, `{"n":`),
		call(3, "no input yet"),
	))
	require.ErrorIs(t, err, broken)
	require.Equal(t, collect.Response{Message: model.Message{Role: model.RoleAssistant, Content: []model.Block{
		{Type: model.BlockText, Text: "a"},
		{Type: model.BlockToolUse, ID: "whole", Name: "Read", Input: []byte(`{"n":1}`)},
	}}}, got)

	_, err = new(collect.Collector).Collect(yielding(nil, part(model.KindText, 0, "a")))
	require.ErrorContains(t, err, "without a stop reason")
}

func TestCollectorText(t *testing.T) {
	var c collect.Collector
	require.Empty(t, c.Response().Message.Text())
	for _, p := range []model.Part{part(model.KindText, 0, "a"), part(model.KindThinking, 1, "b"), part(model.KindText, 2, "c")} {
		require.NoError(t, c.Add(&p))
	}
	require.Equal(t, "ac", c.Response().Message.Text())
}

func TestCollectorHasLimits(t *testing.T) {
	megabyte := strings.Repeat("x", 1<<20)
	long := func(n int) string { return strings.Repeat("n", n) }
	for name, row := range map[string]struct {
		part  func(i int) model.Part
		taken int // parts before the error
	}{
		"bytes": {func(int) model.Part { return part(model.KindText, 0, megabyte) },
			collect.MaxTotal>>20 - 1}, // a block counts a little too
		"blocks": {func(i int) model.Part { return part(model.KindText, i, "") }, collect.MaxBlocks},
		"calls":  {func(i int) model.Part { return call(i, long(256)) }, collect.MaxBlocks},
		"name":   {func(int) model.Part { return model.Part{Kind: model.KindToolUse, Name: long(257)} }, 0},
		"id":     {func(int) model.Part { return model.Part{Kind: model.KindToolUse, ID: long(64<<10 + 1)} }, 0},
		"ids":    {func(i int) model.Part { return call(i, long(64<<10)) }, collect.MaxTotal / (64<<10 + 256)},
		"reason": {func(int) model.Part { return stop(long(129)) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var c collect.Collector
			var err error
			n := 0
			for ; err == nil; n++ {
				p := row.part(n)
				err = c.Add(&p)
			}
			require.Equal(t, row.taken, n-1)
			var coded *model.Error
			require.ErrorAs(t, err, &coded)
			require.Equal(t, model.Code(runvalue.ErrorTypeServer), coded.Code)
		})
	}
	t.Run("at each of them", func(t *testing.T) {
		var c collect.Collector
		for i := range collect.MaxBlocks {
			p := call(i, long(256))
			p.Name = long(256)
			require.NoError(t, c.Add(&p))
			require.NoError(t, c.Add(&p)) // the same block
		}
		p := stop(long(128))
		require.NoError(t, c.Add(&p))
		require.Len(t, c.Response().Message.ToolUses(), collect.MaxBlocks)
	})
}

// TestBlocksCountTowardsTheBytes verifies that blocks without text count, because they use memory.
func TestBlocksCountTowardsTheBytes(t *testing.T) {
	var c collect.Collector
	add := func(p model.Part) error { return c.Add(&p) }
	for i := range collect.MaxBlocks {
		require.NoError(t, add(part(model.KindText, i, "")))
	}
	rest := collect.MaxTotal - 256*collect.MaxBlocks
	require.NoError(t, add(part(model.KindText, 0, strings.Repeat("x", rest))))
	require.Error(t, add(part(model.KindText, 0, "x")))
}

func TestATokenAllocatesNothing(t *testing.T) {
	var c collect.Collector
	head := part(model.KindText, 0, strings.Repeat("x", 1<<16)) // room to grow into
	require.NoError(t, c.Add(&head))
	token := part(model.KindText, 0, "token")
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = c.Add(&token) }))
}

// Some upstreams send the arguments as a JSON string, or null for none.
func TestInputsOfOtherTypes(t *testing.T) {
	for input, want := range map[string]string{
		`"{\"n\": 1}"`: `{"n":1}`, `null`: `{}`, `""`: `{}`, `" null "`: `{}`,
	} {
		got, err := new(collect.Collector).Collect(yielding(nil, call(0, "c1"), part(model.KindToolInput, 0, input), stop(model.StopToolUse)))
		require.NoError(t, err)
		require.Equal(t, want, string(got.Message.Content[0].Input))
		require.Empty(t, got.Message.Content[0].BadInput)
	}
	for _, input := range []string{`"[1]"`, `"\"{}\""`, `"{\"n\":1,\"n\":2}"`, `"{}`, `1`} {
		got, err := new(collect.Collector).Collect(yielding(nil, call(0, "c1"), part(model.KindToolInput, 0, input), stop(model.StopToolUse)))
		require.NoError(t, err)
		require.Equal(t, input, got.Message.Content[0].BadInput)
	}
}

// Calls of one response have different ids, also if a model of an embedder gives them one.
func TestCallsWithOneID(t *testing.T) {
	got, err := new(collect.Collector).Collect(yielding(nil, call(0, "c1"), call(1, "c1"), call(1, "c1"), call(2, "c2"), stop(model.StopToolUse)))
	require.NoError(t, err)
	calls := got.Message.ToolUses()
	require.Len(t, calls, 3)
	require.Equal(t, []string{"c1", "c2"}, []string{calls[0].ID, calls[2].ID})
	require.NotEmpty(t, calls[1].ID)
	require.NotEqual(t, "c1", calls[1].ID)
}
