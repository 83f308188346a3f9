package meter_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/seed93082962/agenthost/internal/meter"
)

func TestSeries(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	m := meter.New(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), "test")
	counter := m.Counter("calls", "Calls.")
	require.NoError(t, m.Err())
	series := meter.NewSeries("agent", "result")
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			counter.Add(t.Context(), 1, series.Of("a", "ok"))
			counter.Add(t.Context(), 1, series.Of("b", "ok"))
			counter.Add(t.Context(), 1, series.Of("a", "error"))
		})
	}
	calls.Wait()
	var found metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &found))
	sums := map[attribute.Set]int64{}
	for _, point := range found.ScopeMetrics[0].Metrics[0].Data.(metricdata.Sum[int64]).DataPoints {
		sums[point.Attributes] = point.Value
	}
	of := func(agent, result string) attribute.Set {
		return attribute.NewSet(attribute.String("agent", agent), attribute.String("result", result))
	}
	require.Equal(t, map[attribute.Set]int64{of("a", "ok"): 8, of("b", "ok"): 8, of("a", "error"): 8}, sums)
	require.Zero(t, testing.AllocsPerRun(100, func() { series.Of("a", "ok") }), "an option is made once")
}
