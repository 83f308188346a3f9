package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// BenchmarkToolTurn measures the overhead of the engine for a turn with one tool call. The model
// and the tool take no time. One run has 50 such turns.
func BenchmarkToolTurn(b *testing.B) {
	const turns = 50
	schema := []byte(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}`)
	quick := tool.New(tool.Spec{Name: "greet", InputSchema: schema, ReadOnly: true},
		func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{Output: "Hello!"}, nil
		})
	m := inProcess(func(_ context.Context, req *model.Request, yield func(model.Part, error) bool) {
		parts := []model.Part{
			{Kind: model.KindToolUse, ID: "t1", Name: "greet"}, {Kind: model.KindToolInput, Text: `{"name":"Ada"}`},
			{Kind: model.KindStop, StopReason: model.StopToolUse},
		}
		if len(req.Messages) > 2*turns {
			parts = says("Done.")
		}
		for _, p := range parts {
			if !yield(p, nil) {
				return
			}
		}
	})
	s := newSetup(m, quick)
	s.MaxTurns = turns + 1
	e, err := engine.New(s.Config)
	require.NoError(b, err)
	in := s.input
	for b.Loop() {
		held, err := s.store.Open(b.Context(), "agent", "")
		require.NoError(b, err)
		in.Session = held
		run := start(e, in)
		for _, err := range run.Events(b.Context()) {
			require.NoError(b, err)
		}
		require.Equal(b, turns+1, run.Outcome().NumTurns)
		require.NoError(b, held.Close())
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/turns, "us/turn")
}
