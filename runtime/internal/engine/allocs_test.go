package engine_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// runAllocs returns the allocations of a run with that number of tokens.
func runAllocs(t *testing.T, tokens int, change func(*engine.Config)) float64 {
	t.Helper()
	m := inProcess(func(_ context.Context, _ *model.Request, yield func(model.Part, error) bool) {
		for range tokens {
			if !yield(model.Part{Kind: model.KindText, Text: "token"}, nil) {
				return
			}
		}
		yield(model.Part{Kind: model.KindStop, StopReason: model.StopEndTurn}, nil)
	})
	s := newSetup(m)
	change(&s.Config)
	e, err := engine.New(s.Config)
	require.NoError(t, err)
	out := engine.OutputFunc(func(wire.Payload) {})
	least := math.Inf(1) // other goroutines of the process allocate too
	for range 100 {
		least = min(least, testing.AllocsPerRun(2, func() {
			in := s.input
			in.Session, err = s.store.Open(t.Context(), "agent", "")
			require.NoError(t, err)
			_, err = e.Run(t.Context(), in, out)
			require.NoError(t, err)
			require.NoError(t, in.Session.Close())
		}))
	}
	return least
}

// Metrics and traces, whether they are on or off, allocate for a run and for a call of the model,
// but not for a token. A text that grows is reallocated a few times.
func TestTokensDoNotAllocate(t *testing.T) {
	const tokens, growth = 10_000, 30
	for name, change := range map[string]func(*engine.Config){
		"off": func(*engine.Config) {},
		"on": func(c *engine.Config) {
			c.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
			c.TracerProvider = sdktrace.NewTracerProvider()
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Less(t, runAllocs(t, tokens, change)-runAllocs(t, 1, change), float64(growth))
		})
	}
}
