package instant_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/leaf/instant"
)

func TestFormat(t *testing.T) {
	for want, at := range map[string]time.Time{
		"2026-01-02T03:04:05.000000Z": time.Date(2026, 1, 2, 11, 4, 5, 0, time.FixedZone("", 8*3600)),
		"2026-01-02T03:04:05.123456Z": time.Date(2026, 1, 2, 3, 4, 5, 123_456_999, time.UTC),
		"9999-12-31T23:59:59.999999Z": time.UnixMicro(math.MaxInt64),
		"0001-01-01T00:00:00.000000Z": time.UnixMicro(math.MinInt64),
	} {
		require.Equal(t, want, instant.Format(at))
	}
	require.Equal(t, "9999-12-31T23:59:59.999999Z", instant.Format(time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600))), "in UTC it is the year 10000")
	require.Equal(t, "9999-12-31T23:59:59.999999Z", instant.Format(time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)))
	require.Equal(t, "0001-01-01T00:00:00.000000Z", instant.Format(time.Time{}.Add(-time.Nanosecond)))
}
