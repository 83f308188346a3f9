package main_test

import (
	"slices"
	"testing"
)

// sample is one figure of several rounds.
type sample []float64

// quantile returns the smallest figure that at least the share q of all do not exceed.
func (s sample) quantile(q float64) float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[max(0, min(len(sorted)-1, int(q*float64(len(sorted))+0.999999)-1))]
}

func (s sample) median() float64 { return s.quantile(0.5) }

// spread is how far the rounds lie apart, in percent of their median.
func (s sample) spread() float64 {
	return 100 * (slices.Max(s) - slices.Min(s)) / s.median()
}

// metric is a figure as it is reported.
type metric struct {
	unit  string
	value float64
}

// report gives out figures as a benchmark of their own. The rounds of all subjects are measured
// in turns beforehand, so that whatever else the machine does meets them alike; what the go
// command would make of time and count says nothing here.
func report(b *testing.B, name string, metrics ...metric) {
	b.Helper()
	b.Run(name, func(b *testing.B) {
		for _, m := range metrics {
			b.ReportMetric(m.value, m.unit)
		}
		b.ReportMetric(0, "ns/op")
	})
}
