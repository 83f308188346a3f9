package sqlaudit_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/internal/db"
)

// plain is how often each page is also asked for by what one would write on the same tables and
// indexes without positions.
var plain = flag.Int("plain", 3, "measurements of OFFSET and COUNT(*) beside each page")

// BenchmarkQuery alternates between the first page of 20, a deep page and only the total: other
// load on the machine affects all of them. Figures are medians.
func BenchmarkQuery(b *testing.B) {
	eachEngine(b, func(b *testing.B, d *db.DB) {
		seed(b, d, *entries)
		s := store(b, d)
		n := uint64(*entries)
		// The clock went a millisecond for each hundred entries: from two tenths to seven.
		at := func(tenths int) time.Time {
			return benchStart.Add(time.Duration(*entries/1000*tenths) * time.Millisecond)
		}
		from, to := at(2), at(7)
		for _, q := range []struct {
			name   string
			filter auditlog.Filter
			deep   uint64 // offset; 0 for none
		}{
			{"all", auditlog.Filter{}, min(50_000*20, n-20)},
			{"category", auditlog.Filter{Category: "user"}, n / 5},
			{"action", auditlog.Filter{Action: "user.action_3"}, n / 40},
			{"time", auditlog.Filter{From: from, To: to}, n * 4 / 10},
			{"category and time", auditlog.Filter{Category: "user", From: from, To: to}, n / 12},
			{"action and time", auditlog.Filter{Action: "user.action_3", From: from, To: to}, n / 100},
			{"no user", auditlog.Filter{User: "nobody"}, 0},
			{"one user", auditlog.Filter{User: "user007"}, n / 1000},
			{"100 users", auditlog.Filter{User: "user5"}, n / 20},
			{"271 users", auditlog.Filter{User: "7"}, n / 5},
			{"all users", auditlog.Filter{User: "user"}, min(50_000*20, n-20)},
			{"100 users and category", auditlog.Filter{User: "user5", Category: "user"}, n / 100},
			{"100 users and action", auditlog.Filter{User: "user5", Action: "user.action_3"}, n / 1000},
			{"100 users and time", auditlog.Filter{User: "user5", From: from, To: to}, n / 50},
		} {
			b.Run(strings.ReplaceAll(q.name, " ", "_"), func(b *testing.B) {
				ask := auditlog.Query{TenantID: benchTenant, Filter: q.filter, Limit: 20}
				pages := benchPages{deep: q.deep}
				pages.run(b, d, s, ask)
			})
		}
	})
}

// benchPages is what pages took.
type benchPages struct {
	deep  uint64
	times map[string][]time.Duration
}

func (p *benchPages) run(b *testing.B, d *db.DB, s *sqlaudit.Store, q auditlog.Query) {
	p.times = map[string][]time.Duration{}
	for i := uint64(0); b.Loop(); i++ {
		p.add("first", func() { benchQuery(b, s, q) })
		if p.deep > 0 {
			deep := q
			deep.Offset = p.deep - i%32 // at all distances from a milestone
			p.add("deep", func() { benchQuery(b, s, deep) })
		}
		p.add("total", func() { benchQuery(b, s, auditlog.Query{TenantID: q.TenantID, Filter: q.Filter}) })
	}
	hand := benchPlain(b, d, q)
	for range *plain {
		p.add("plain-first", func() { hand(0, 20) })
		if p.deep > 0 {
			p.add("plain-deep", func() { hand(p.deep, 20) })
		}
		p.add("plain-total", func() { hand(0, 0) })
	}
	b.ReportMetric(0, "ns/op")
	for name, all := range p.times {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, name+"-ms")
	}
	if p.deep > 0 {
		b.ReportMetric(float64(p.times["deep"][len(p.times["deep"])/2])/float64(p.times["first"][len(p.times["first"])/2]), "deep/first")
	}
}

func (p *benchPages) add(name string, call func()) {
	start := time.Now()
	call()
	p.times[name] = append(p.times[name], time.Since(start))
}

func benchQuery(b *testing.B, s *sqlaudit.Store, q auditlog.Query) {
	p, err := s.Query(b.Context(), q)
	if want := min(uint64(q.Limit), p.Total); err != nil || q.User != "nobody" && (p.Total == 0 || uint64(len(p.Items)) != want) {
		b.Fatal(err, p.Total, len(p.Items))
	}
}

// benchPlain is COUNT(*), and OFFSET where items are asked for, with the names already known.
func benchPlain(b *testing.B, d *db.DB, q auditlog.Query) func(offset uint64, limit int) {
	var tenant, category, action int64
	require.NoError(b, d.Read().QueryRow("SELECT tenant FROM audit_heads WHERE name = $1", q.TenantID).Scan(&tenant))
	where, args := "e.tenant = $1", []any{tenant}
	add := func(condition string, arg any) {
		args = append(args, arg)
		where += fmt.Sprintf(" AND "+condition, len(args))
	}
	const key = "SELECT key FROM audit_keys WHERE tenant = $1 AND kind = $2 AND name = $3"
	if q.Category != "" {
		require.NoError(b, d.Read().QueryRow(key, tenant, 1, q.Category).Scan(&category))
		add("e.category = $%d", category)
	}
	if q.Action != "" {
		require.NoError(b, d.Read().QueryRow(key, tenant, 2, q.Action).Scan(&action))
		add("e.action = $%d", action)
	}
	if !q.From.IsZero() {
		add("e.created_at >= $%d", q.From.UnixMicro())
		add("e.created_at <= $%d", q.To.UnixMicro())
	}
	if q.User != "" {
		add(`e.user_key IN (SELECT u.key FROM audit_keys u WHERE u.tenant = $1 AND u.kind = 4
			AND (u.fold_name LIKE $%[1]d ESCAPE '\' OR u.fold_id LIKE $%[1]d ESCAPE '\'))`, "%"+q.User+"%")
	}
	return func(offset uint64, limit int) {
		var total int64
		require.NoError(b, d.Read().QueryRow("SELECT COUNT(*) FROM audit_entries e WHERE "+where, args...).Scan(&total))
		if limit == 0 {
			return
		}
		rows, err := d.Read().Query(fmt.Sprintf(`SELECT e.id, e.created_at, e.category, e.action, e.user_key, e.target_type,
			e.target_id, e.target_name, e.status, e.detail, e.remote_ip, e.user_agent, e.hash FROM audit_entries e
			WHERE %s ORDER BY e.id DESC LIMIT %d OFFSET %d`,
			where, limit, offset), args...)
		require.NoError(b, err)
		for rows.Next() {
			var n [5]int64
			var texts [7]string
			var hash []byte
			require.NoError(b, rows.Scan(&n[0], &n[1], &n[2], &n[3], &n[4],
				&texts[0], &texts[1], &texts[2], &texts[3], &texts[4], &texts[5], &texts[6], &hash))
		}
		require.NoError(b, rows.Err())
		require.NoError(b, rows.Close()) //nolint:sqlclosecheck // its rows are read to the end
	}
}
