package auditstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/leaf/auditstore"
)

func TestCutoff(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for _, row := range []struct {
		name      string
		retention time.Duration
		clock     time.Time
		want      time.Time
	}{
		{"one clock", time.Hour, now, now.Add(-time.Hour)},
		{"no retention", 0, now, now},
		{"another zone", 0, now.In(time.FixedZone("", 3600)), now},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got, err := auditstore.Cutoff(row.retention, row.clock)
			require.NoError(t, err)
			require.Equal(t, row.want, got)
		})
	}
	_, err := auditstore.Cutoff(-1, now)
	require.Error(t, err)
}
