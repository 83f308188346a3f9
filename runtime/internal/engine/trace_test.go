package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// recorder is a sampler that stores the attributes of each span.
type recorder struct {
	sdktrace.Sampler
	seen map[string]attribute.Set
}

func (r recorder) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	r.seen[p.Name] = attribute.NewSet(p.Attributes...)
	return r.Sampler.ShouldSample(p)
}

// The conventions require the attributes of a sampling decision when a span starts.
func TestSamplersSeeOperationProviderAndModel(t *testing.T) {
	s := newSetup(inProcess(func(_ context.Context, _ *model.Request, yield func(model.Part, error) bool) {
		if yield(model.Part{Kind: model.KindText, Text: "yes"}, nil) {
			yield(model.Part{Kind: model.KindStop, StopReason: model.StopEndTurn}, nil)
		}
	}))
	sampler := recorder{sdktrace.NeverSample(), map[string]attribute.Set{}}
	s.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler))
	s.Name, s.Provider, s.Request.Model = "Ada", "anthropic", "m"
	e, err := engine.New(s.Config)
	require.NoError(t, err)
	in := s.input
	in.Session, err = s.store.Open(t.Context(), "agent", "")
	require.NoError(t, err)
	_, err = e.Run(t.Context(), in, engine.OutputFunc(func(wire.Payload) {}))
	require.NoError(t, err)
	require.NoError(t, in.Session.Close())
	for name, operation := range map[string]string{"invoke_agent Ada": "invoke_agent", "chat m": "chat"} {
		for key, want := range map[string]string{
			"gen_ai.operation.name": operation, "gen_ai.provider.name": "anthropic", "gen_ai.request.model": "m",
		} {
			set := sampler.seen[name]
			value, _ := set.Value(attribute.Key(key))
			require.Equal(t, want, value.AsString(), "%s of %s", key, name)
		}
	}
}
