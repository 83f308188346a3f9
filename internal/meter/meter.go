// Package meter makes the instruments of a package with the OpenTelemetry metric API, and bounds
// the values of their attributes.
//
//	m := meter.New(cfg.MeterProvider, "github.com/seed93082962/agenthost/hub/internal/api")
//	s.requests = m.Seconds("agenthost.hub.request.duration", "Time of requests.", meter.Fast)
//	if err := m.Err(); err != nil { ... }
//
// Attributes that are known in advance are made once with [Of], and those with values of a bounded
// list by [Series]: to record a value then allocates little.
package meter

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// Bounds of the buckets of durations, in seconds.
var (
	// Fast is for what takes milliseconds, such as a request or a transaction.
	Fast = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

	// Slow is for what a model does.
	Slow = []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800}
)

// Meter makes instruments, which are used only if [Meter.Err] returns nil.
type Meter struct {
	meter metric.Meter
	errs  []error
}

// New returns a Meter of a provider, or one without effect if the provider is nil. name is that of
// the package.
func New(p metric.MeterProvider, name string) *Meter { return &Meter{meter: Provider(p).Meter(name)} }

// Provider returns p, or a provider without effect if p is nil.
func Provider(p metric.MeterProvider) metric.MeterProvider {
	if p == nil {
		return noop.NewMeterProvider()
	}

	return p
}

// Err returns the errors of all instruments, which a provider without support for them returns.
func (m *Meter) Err() error {
	if err := errors.Join(m.errs...); err != nil {
		return fmt.Errorf("create instruments: %w", err)
	}

	return nil
}

// Counter returns a counter.
func (m *Meter) Counter(name, help string) metric.Int64Counter {
	c, err := m.meter.Int64Counter(name, metric.WithDescription(help))
	return checked(m, c, err)
}

// CounterOf returns a counter with a series for each value of an attribute, which begins at 0: the
// increase of a series that begins at 1 is not visible.
func (m *Meter) CounterOf(name, help, attribute string, values ...string) metric.Int64Counter {
	c := m.Counter(name, help)
	for _, value := range values {
		if c != nil {
			c.Add(context.Background(), 0, Of(attribute, value))
		}
	}

	return c
}

// Current returns a counter of what is in progress.
func (m *Meter) Current(name, help string) metric.Int64UpDownCounter {
	c, err := m.meter.Int64UpDownCounter(name, metric.WithDescription(help))
	return checked(m, c, err)
}

// Seconds returns a histogram of durations in seconds.
func (m *Meter) Seconds(name, help string, buckets []float64) metric.Float64Histogram {
	h, err := m.meter.Float64Histogram(name, metric.WithDescription(help), metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(buckets...))
	return checked(m, h, err)
}

// Gauge returns a gauge that an observer sets. unit is "", "s" or "By".
func (m *Meter) Gauge(name, help, unit string) metric.Float64ObservableGauge {
	g, err := m.meter.Float64ObservableGauge(name, metric.WithDescription(help), metric.WithUnit(unit))
	return checked(m, g, err)
}

// Sum returns a counter that an observer sets. unit is "", "s" or "By".
func (m *Meter) Sum(name, help, unit string) metric.Float64ObservableCounter {
	c, err := m.meter.Float64ObservableCounter(name, metric.WithDescription(help), metric.WithUnit(unit))
	return checked(m, c, err)
}

// Observe calls observe for each collection, which sets the given instruments. It must return
// immediately: it makes no query. The caller calls the returned function
// when observe can no longer be called.
func (m *Meter) Observe(observe func(metric.Observer), of ...metric.Observable) func() {
	registration, err := m.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		observe(o)
		return nil
	}, of...)
	if err != nil {
		m.errs = append(m.errs, err)
		return func() {}
	}

	return func() { _ = registration.Unregister() } // it is registered
}

func checked[T any](m *Meter, made T, err error) T {
	if err != nil {
		m.errs = append(m.errs, err)
	}

	return made
}

// Of returns the option of attributes that are names and values in turn.
func Of(pairs ...string) metric.MeasurementOption {
	all := make([]attribute.KeyValue, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		all = append(all, attribute.String(pairs[i], pairs[i+1]))
	}

	return metric.WithAttributeSet(attribute.NewSet(all...))
}

// maxNames is the number of attributes of a series.
const maxNames = 4

// Series makes the options of attributes whose values are in a bounded list. Each option is made
// once. It is safe for concurrent use.
type Series struct {
	names []string

	mu   sync.RWMutex // guards made
	made map[[maxNames]string]metric.MeasurementOption
}

// NewSeries returns the series of at most four attributes with these names.
func NewSeries(names ...string) *Series {
	return &Series{names: names, made: map[[maxNames]string]metric.MeasurementOption{}}
}

// Of returns the option of the values, which are in the order of the names.
func (s *Series) Of(values ...string) metric.MeasurementOption {
	var key [maxNames]string
	copy(key[:], values)
	s.mu.RLock()
	option, ok := s.made[key]
	s.mu.RUnlock()
	if ok {
		return option
	}

	var pairs []string
	for i, name := range s.names {
		pairs = append(pairs, name, key[i])
	}

	option = Of(pairs...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made[key] = option
	return option
}

// Other is the value of an attribute for all values beyond a bound.
const Other = "other"

// Names bounds the values of an attribute that others choose. It is safe for concurrent use.
type Names struct {
	most int

	mu    sync.Mutex // guards known
	known map[string]struct{}
}

// NewNames returns the bound of most values.
func NewNames(most int) *Names { return &Names{most: most, known: map[string]struct{}{}} }

// Admit reports whether the name is one of the first values.
func (n *Names) Admit(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.known[name]; ok {
		return true
	}

	if len(n.known) >= n.most {
		return false
	}

	n.known[name] = struct{}{}
	return true
}
