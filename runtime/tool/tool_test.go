package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/tool"
)

func TestNewForwardsCalls(t *testing.T) {
	type key struct{}
	spec := tool.Spec{Name: "look", Description: "Looks.", InputSchema: json.RawMessage(`{"type":"object"}`), ReadOnly: true}
	failed := errors.New("nothing there")
	var got tool.Call
	look := tool.New(spec, func(ctx context.Context, call tool.Call) (tool.Result, error) {
		require.Equal(t, "value", ctx.Value(key{}))
		got = call
		return tool.Result{Output: "half of it", IsError: true}, failed
	})
	require.Equal(t, spec, look.Spec())
	call := tool.Call{ID: "t1", Input: json.RawMessage(`{"at":1}`), RunID: "r1", SessionID: "s1"}
	res, err := look.Call(context.WithValue(t.Context(), key{}, "value"), call)
	require.ErrorIs(t, err, failed)
	require.Equal(t, tool.Result{Output: "half of it", IsError: true}, res)
	require.Equal(t, call, got)
}

type sum struct {
	A    int    `json:"a"`
	B    int    `json:"b"`
	Note string `json:"note"`
}

func TestFunc(t *testing.T) {
	failed := errors.New("too large to add")
	spec := tool.Spec{Name: "add", Description: "Adds."}
	for name, row := range map[string]struct {
		input  string
		output string
		err    string
		called bool
	}{
		"all fields":             {`{"a":1,"b":2,"note":"x"}`, "3x", "", true},
		"a field left out":       {`{"a":1}`, "1", "", true},
		"a field that is null":   {`{"a":1,"b":null}`, "1", "", true},
		"an unknown field":       {`{"a":1,"b":2,"c":3}`, "3", "", true},
		"no fields":              {`{}`, "0", "", true},
		"another letter case":    {`{"a":1,"A":2}`, "1", "", true},
		"a field twice":          {`{"a":1,"a":2}`, "", "the input does not match: a must not occur twice", false},
		"an unknown field twice": {`{"a":1,"c":{"d":1,"d":2}}`, "", "the input does not match: c.d must not occur twice", false},
		"a field of other type":  {`{"a":"1"}`, "", "the input does not match", false},
		"a fraction":             {`{"a":1.5}`, "", "the input does not match", false},
		"an input of other type": {`[1,2]`, "", "the input does not match", false},
		"an error":               {`{"a":1000}`, "so far 1000", "too large to add", true},
	} {
		t.Run(name, func(t *testing.T) {
			called := false
			add := tool.Func(spec, func(ctx context.Context, in sum) (string, error) {
				called = true
				if in.A >= 1000 {
					return "so far 1000", failed
				}
				return string(rune('0'+in.A+in.B)) + in.Note, ctx.Err()
			})
			require.Equal(t, spec, add.Spec())
			res, err := add.Call(t.Context(), tool.Call{Input: json.RawMessage(row.input)})
			require.Equal(t, row.called, called)
			require.Equal(t, tool.Result{Output: row.output}, res)
			if row.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, row.err)
			}
		})
	}
}

func TestFuncSharesNothingBetweenCalls(t *testing.T) {
	keep := tool.Func(tool.Spec{Name: "keep"}, func(_ context.Context, in struct{ Words []string }) (string, error) {
		return in.Words[0], nil
	})
	for _, word := range []string{"one", "two"} {
		input, err := json.Marshal(map[string][]string{"Words": {word}})
		require.NoError(t, err)
		res, err := keep.Call(t.Context(), tool.Call{Input: input})
		require.NoError(t, err)
		require.Equal(t, word, res.Output)
	}
}

func TestFuncForwardsItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("over")
	cancel(over)
	wait := tool.Func(tool.Spec{Name: "wait"},
		func(ctx context.Context, _ struct{}) (string, error) { return "", context.Cause(ctx) })
	_, err := wait.Call(ctx, tool.Call{Input: json.RawMessage(`{}`)})
	require.ErrorIs(t, err, over)
}

// Fields without tags have members in any letter case, once.
func TestFieldsWithoutTags(t *testing.T) {
	type point struct{ X, Y int }
	type input struct {
		Name   string `json:"name"`
		Points []*point
	}
	draw := tool.Func(tool.Spec{Name: "draw"}, func(_ context.Context, in input) (string, error) {
		return fmt.Sprint(in.Name, *in.Points[0]), nil
	})
	call := func(text string) (tool.Result, error) {
		return draw.Call(t.Context(), tool.Call{Input: json.RawMessage(text)})
	}
	for _, text := range []string{`{"name":"a","points":[{"x":1,"y":2}]}`, `{"Name":"a","Points":[{"X":1,"Y":2}]}`} {
		res, err := call(text)
		require.NoError(t, err)
		require.Equal(t, "a{1 2}", res.Output)
	}
	for _, text := range []string{`{"name":"a","points":[],"Points":[]}`, `{"name":"a","points":[{"x":1,"X":2}]}`} {
		_, err := call(text)
		require.ErrorContains(t, err, "must not occur twice")
	}
}
