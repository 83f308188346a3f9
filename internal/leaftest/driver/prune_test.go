package driver_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog/driver"
)

func TestCutoff(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for _, row := range []struct {
		name      string
		retention time.Duration
		clock     time.Time
		others    []time.Time
		want      time.Time
	}{
		{"one clock", time.Hour, now, nil, now.Add(-time.Hour)},
		{"a clock that is ahead", time.Hour, now.AddDate(100, 0, 0), []time.Time{now}, now.Add(-time.Hour)},
		{"a database that is ahead", time.Hour, now, []time.Time{now.AddDate(100, 0, 0)}, now.Add(-time.Hour)},
		{"no retention", 0, now, nil, now},
		{"another zone", 0, now.In(time.FixedZone("", 3600)), nil, now},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got, err := driver.Cutoff(row.retention, row.clock, row.others...)
			require.NoError(t, err)
			require.Equal(t, row.want, got)
		})
	}
	_, err := driver.Cutoff(-1, now)
	require.Error(t, err)
}
