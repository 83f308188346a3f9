package main_test

import (
	"slices"
	"testing"
)

// sample holds the values of one metric in several rounds.
type sample []float64

// quantile returns the smallest value that at least the share q of all values do not exceed.
func (s sample) quantile(q float64) float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[max(0, min(len(sorted)-1, int(q*float64(len(sorted))+0.999999)-1))]
}

func (s sample) median() float64 { return s.quantile(0.5) }

// spread returns the range of the rounds in percent of their median.
func (s sample) spread() float64 {
	return 100 * (slices.Max(s) - slices.Min(s)) / s.median()
}

// metric is a value to report.
type metric struct {
	unit  string
	value float64
}

// report reports values as a benchmark. The rounds of all subjects were measured alternately
// before, so that other load affects them equally; the time and count of the go command are
// meaningless here.
func report(b *testing.B, name string, metrics ...metric) {
	b.Helper()
	b.Run(name, func(b *testing.B) {
		for _, m := range metrics {
			b.ReportMetric(m.value, m.unit)
		}
		b.ReportMetric(0, "ns/op")
	})
}
