package auditlogtest

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
)

func times(t *testing.T, s auditlog.Store) {
	name := tenant()
	for range 5 {
		mustAppend(t, s, logins(name, 1)...)
	}
	found := all(t, s, name, auditlog.Filter{}, nil)
	created := make([]time.Time, len(found))
	for i, e := range found {
		created[i] = e.CreatedAt
	}
	// Entries may have the same time, so the expected ids are computed.
	between := func(from, to time.Time) (want []uint64) {
		for i, c := range created {
			if !c.Before(from) && !c.After(to) {
				want = append(want, uint64(i+1))
			}
		}
		return want
	}
	early, late := created[0].Add(-time.Hour), created[4].Add(time.Hour)
	zone := time.FixedZone("", 8*60*60+1800)
	for _, from := range append([]time.Time{early, late}, created...) {
		for _, to := range append([]time.Time{early, late}, created...) {
			for _, shift := range []time.Duration{0, 1, -1, 999, -999, time.Microsecond, -time.Microsecond} {
				from, to := from.Add(shift), to.Add(shift).In(zone)
				requireFound(t, s, name, auditlog.Filter{From: from, To: to}, between(from, to)...)
			}
		}
	}
	requireFound(t, s, name, auditlog.Filter{From: created[2]}, between(created[2], late)...)
	requireFound(t, s, name, auditlog.Filter{To: created[2]}, between(early, created[2])...)
	requireFound(t, s, name, auditlog.Filter{From: created[1], To: created[3], Category: "auth"}, between(created[1], created[3])...)
	requireFound(t, s, name, auditlog.Filter{From: created[1], To: created[3], User: "alice"}, between(created[1], created[3])...)
	requireFound(t, s, name, auditlog.Filter{From: created[1], Category: "user"})

	endless, ancient := time.Unix(math.MaxInt64/2, 0), time.Unix(math.MinInt64/2, 0)
	requireFound(t, s, name, auditlog.Filter{From: ancient, To: endless}, 1, 2, 3, 4, 5)
	requireFound(t, s, name, auditlog.Filter{From: endless})
	requireFound(t, s, name, auditlog.Filter{To: ancient})
	requireFound(t, s, name, auditlog.Filter{From: endless, To: ancient})
	requireFound(t, s, name, auditlog.Filter{To: time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)}, 1, 2, 3, 4, 5)
	requireFound(t, s, name, auditlog.Filter{To: time.Time{}.Add(1)})

	p := query(t, s, auditlog.Query{TenantID: name, Filter: auditlog.Filter{To: created[2]}, Snapshot: new(uint64(1)), Limit: 10})
	require.Equal(t, uint64(1), p.Total, "the view bounds a time range too")
}
