package sqlaudit_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/db/pgtest"
)

// The log that is read by benchmarks has entries by benchUsers users in seven categories of seven
// actions each; a tenth as many belong to another tenant.
const (
	benchTenant = "bench"
	benchUsers  = 1_000
)

var entries = flag.Int("entries", 1_000_000, "entries in the log that benchmarks read")

// eachEngine runs a benchmark on both engines, whose settings are those that ship.
func eachEngine(b *testing.B, run func(b *testing.B, d *db.DB)) {
	for _, e := range []struct {
		engine db.Engine
		url    func(testing.TB) string
	}{{db.PostgreSQL, pgtest.Durable}, {db.SQLite, func(t testing.TB) string { return dbtest.SQLite(t) }}} {
		b.Run(string(e.engine), func(b *testing.B) { run(b, database(b, e.url(b))) })
	}
}

type benchActions [7][7]auditlog.Action[roleChange]

func declare() (all benchActions) {
	for i, c := range []string{"auth", "user", "invite", "provider", "agent", "token", "aigc"} {
		for j := range all[i] {
			all[i][j] = auditlog.Define[roleChange](fmt.Sprintf("%s.action_%d", c, j))
		}
	}
	return all
}

func (a benchActions) record(r *rand.Rand, tenant string) auditlog.Record {
	// Some categories and users are busier than others.
	c, u := min(r.IntN(7), r.IntN(7)), min(r.IntN(benchUsers), r.IntN(benchUsers))
	return a[c][r.IntN(7)].Record(event(tenant, u), roleChange{auditlog.Change[string]{From: "member", To: "admin"}})
}

// seed fills the log with the store itself. Its clock advances by ten milliseconds for each
// thousand entries.
func seed(b *testing.B, d *db.DB, n int) {
	b.Helper()
	now := benchStart
	s, err := sqlaudit.New(sqlaudit.Config{Write: d.Write(), Engine: string(d.Engine()), Now: func() time.Time { return now }})
	require.NoError(b, err)
	r, actions := rand.New(rand.NewPCG(1, 2)), declare()
	start := time.Now()
	for done := 0; done < n; {
		size := min(1_000, n-done)
		records := make([]auditlog.Record, 0, 1_100)
		for range size {
			records = append(records, actions.record(r, benchTenant))
		}
		for range size / 10 {
			records = append(records, actions.record(r, "other"))
		}
		require.NoError(b, s.Append(b.Context(), records...))
		now, done = now.Add(10*time.Millisecond), done+size
	}
	b.Logf("%d entries in %.0f s", n, time.Since(start).Seconds())
	vacuum := "ANALYZE"
	if d.Engine() == db.PostgreSQL {
		vacuum = "VACUUM ANALYZE" // as autovacuum does by itself, some minutes later
	}
	_, err = d.Write().Exec(vacuum)
	require.NoError(b, err)
}

var benchStart = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func BenchmarkAppend(b *testing.B) {
	eachEngine(b, func(b *testing.B, d *db.DB) {
		s, actions := store(b, d), declare()
		var all []auditlog.Record // so that the names are known
		for c := range actions {
			for u := range benchUsers {
				all = append(all, actions[c][u%7].Record(event(benchTenant, u), roleChange{}))
			}
		}
		require.NoError(b, s.Append(b.Context(), all...))
		for _, n := range []int{1, 64, 512} {
			b.Run(fmt.Sprintf("goroutines=%d", n), func(b *testing.B) {
				concurrently(b, n, func(r *rand.Rand) error { return s.Append(b.Context(), actions.record(r, benchTenant)) })
			})
		}
		for _, n := range []int{1, 64} {
			b.Run(fmt.Sprintf("tx/goroutines=%d", n), func(b *testing.B) {
				concurrently(b, n, func(r *rand.Rand) error {
					tx, err := d.Write().BeginTx(b.Context(), nil)
					if err != nil {
						return err
					}
					if err := s.AppendTx(b.Context(), tx, actions.record(r, benchTenant)); err != nil {
						_ = tx.Rollback()
						return err
					}
					return tx.Commit()
				})
			})
		}
		benchByHand(b, d)
	})
}

// concurrently shares b.N calls among goroutines.
func concurrently(b *testing.B, goroutines int, call func(*rand.Rand) error) {
	var all sync.WaitGroup
	tickets := make(chan struct{}, b.N)
	for range b.N {
		tickets <- struct{}{}
	}
	close(tickets)
	b.ResetTimer()
	for i := range goroutines {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 3))
			for range tickets {
				if err := call(r); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}
