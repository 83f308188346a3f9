package auditlog_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
)

func TestFilterMicros(t *testing.T) {
	t.Parallel()
	at := time.UnixMicro(1000)
	for _, row := range []struct {
		name     string
		from, to time.Time
		lo, hi   int64
	}{
		{"open", time.Time{}, time.Time{}, math.MinInt64, math.MaxInt64},
		{"whole microseconds", at, at, 1000, 1000},
		{"a nanosecond later", at.Add(1), at.Add(1), 1001, 1000},
		{"a nanosecond earlier", at.Add(-1), at.Add(-1), 1000, 999},
		{"before 1970", time.Unix(-1, 1), time.Unix(-1, 1), -999999, -1000000},
		{"just after the zero time", time.Time{}.Add(1), time.Time{}.Add(1), -62135596800000000 + 1, -62135596800000000},
		{"far outside", time.Unix(math.MinInt64, 5), time.Unix(math.MaxInt64/2, 5), math.MinInt64 + 1, math.MaxInt64},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			lo, hi := auditlog.Filter{From: row.from, To: row.to}.Micros()
			require.Equal(t, row.lo, lo)
			require.Equal(t, row.hi, hi)
		})
	}
}

func TestFilterVoid(t *testing.T) {
	t.Parallel()
	now := time.UnixMicro(1000)
	for _, row := range []struct {
		name   string
		filter auditlog.Filter
		want   bool
	}{
		{"nothing asked", auditlog.Filter{}, false},
		{"what can be", auditlog.Filter{Category: "user", Action: "user.create", User: "王%_\\", From: now, To: now}, false},
		{"a range that ends first", auditlog.Filter{From: now, To: now.Add(-1)}, true},
		{"a range between two microseconds", auditlog.Filter{From: now.Add(1), To: now.Add(2)}, true},
		{"an action of another category", auditlog.Filter{Category: "user", Action: "users.create"}, true},
		{"NUL", auditlog.Filter{User: "a\x00"}, true},
		{"no UTF-8", auditlog.Filter{Category: "\xc3"}, true},
		{"the longest user there is", auditlog.Filter{User: strings.Repeat("👩", 256)}, false},
		{"a longer one", auditlog.Filter{User: strings.Repeat("a", 1025)}, true},
		{"a longer action", auditlog.Filter{Action: strings.Repeat("a", 1025)}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, row.want, row.filter.Void())
		})
	}
}
