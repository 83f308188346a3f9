package usage_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

// The tokens of runs outside of chats are those of their agents and models. A runtime that reports
// more models than an agent has adds them to one series.
func TestTokensAreMetrics(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, dbtest.SQLite(t, series...))
	reader := sdk.NewManualReader()
	st := apitest.NewStore(t, d, store.Config{MeterProvider: sdk.NewMeterProvider(sdk.WithReader(reader))})
	apitest.Join(t, st)
	service, err := usage.New(usage.Config{Store: st})
	require.NoError(t, err)
	run := func(agent, report string) {
		d := service.NewDirect("acme", agent)
		require.NoError(t, d.Begin(t.Context()))
		d.End(t.Context(), true, report)
	}
	run("helper", `{"model":"m","usage":{"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":3,"reasoning_tokens":2},
		"others":{"small":{"input_tokens":4,"output_tokens":1}}}`)
	run("helper", "")
	run("helper", "no JSON")
	for i := range 20 {
		run("another", fmt.Sprintf(`{"model":"m%d","usage":{"output_tokens":1}}`, i))
	}
	got := map[string]int64{}
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != "agenthost.hub.tokens" {
				continue
			}
			for _, point := range m.Data.(metricdata.Sum[int64]).DataPoints {
				label := func(name string) string { v, _ := point.Attributes.Value(attribute.Key(name)); return v.AsString() }
				got[label("tenant")+" "+label("agent")+" "+label("model")+" "+label("type")] = point.Value
			}
		}
	}
	want := map[string]int64{
		"acme helper m input": 6, "acme helper m output": 4, "acme helper m cache_read": 3, "acme helper small input": 4, "acme helper small output": 1,
		"acme another other output": 12,
	}
	for i := range 8 {
		want[fmt.Sprintf("acme another m%d output", i)] = 1
	}
	require.Equal(t, want, got)
}
