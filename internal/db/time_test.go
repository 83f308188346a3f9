package db_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db"
)

func TestTimes(t *testing.T) {
	zone := time.FixedZone("east", 7*3600)
	rows := []struct {
		name     string
		in, want time.Time
	}{
		{"microseconds", time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)},
		{"nanoseconds are cut off", time.Date(2026, 1, 2, 3, 4, 5, 6999, time.UTC), time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)},
		{"before 1970, downwards too", time.Date(1969, 12, 31, 23, 59, 59, 999_999_999, time.UTC), time.Date(1969, 12, 31, 23, 59, 59, 999_999_000, time.UTC)},
		{"another zone", time.Date(2026, 1, 2, 10, 0, 0, 0, zone), time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)},
		{"zero", time.Time{}, time.Time{}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.want, db.Time(db.Micros(row.in)))
		})
	}
}
