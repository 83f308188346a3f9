package usage_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db/dbtest"
	"github.com/seed93082962/agenthost/hub/usage"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// BenchmarkReport reads reports of 1,000,000 runs in 90 days, of 50 agents, 1,000 users and 4
// models.
func BenchmarkReport(b *testing.B) {
	const runs, days, batch = 1_000_000, 90, 2000
	eachEngine(b, func(b *testing.B, s *server) {
		s.set("2026-03-10T12:00:00Z")
		start := s.now.Load()
		for n := 0; n < runs; n += batch {
			s.now.Store(start + int64(n/(runs/days))*24*60*60*1e6)
			var some []usage.Run
			for i := n; i < n+batch; i++ {
				user := i * 7919 % 1000
				some = append(some, of(fmt.Sprint("run", i), fmt.Sprint("agent", (user+i%3)%50), fmt.Sprint("user", user), fmt.Sprint("model", i%4), wire.Usage{InputTokens: 100, OutputTokens: 10}))
			}
			require.NoError(b, s.store.DB.Tx(b.Context(), func(tx *sql.Tx) (err error) {
				_, err = s.service.Record(b.Context(), tx, some...)
				return err
			}))
		}
		if s.store.DB.Engine() == "postgres" {
			_, err := s.store.DB.Write().ExecContext(b.Context(), `VACUUM ANALYZE usage_days`)
			require.NoError(b, err)
		}
		caller := api.Caller{TenantID: "acme", UserID: "ada", RoleNow: rbac.Admin}
		in := usage.Query{To: s.store.Now()}
		in.From = in.To.AddDate(0, 0, -days)
		for name, change := range map[string]func(in *usage.Query){
			"day":              func(in *usage.Query) { in.By = []string{usage.ByDay} },
			"agent,model":      func(in *usage.Query) { in.By = []string{usage.ByAgent, usage.ByModel} },
			"user":             func(in *usage.Query) { in.By = []string{usage.ByUser} },
			"user of an agent": func(in *usage.Query) { in.By, in.Agent = []string{usage.ByUser}, "agent7" },
			"agents of a user": func(in *usage.Query) { in.By, in.User = []string{usage.ByAgent}, "user7" },
			"agent,user,1 month": func(in *usage.Query) {
				in.By, in.From = []string{usage.ByAgent, usage.ByUser}, in.To.AddDate(0, 0, -30)
			},
		} {
			b.Run(name, func(b *testing.B) {
				one := in
				change(&one)
				for b.Loop() {
					report, err := s.service.Report(b.Context(), caller, one)
					require.NoError(b, err)
					require.NotZero(b, report.Totals.Runs)
				}
			})
		}
	})
}

// BenchmarkAdmit checks the budgets of a run in a transaction that has begun.
func BenchmarkAdmit(b *testing.B) {
	eachEngine(b, func(b *testing.B, s *server) {
		caller := api.Caller{TenantID: "acme", UserID: "max", UserName: "max", RoleNow: rbac.Admin}
		run := of("1", "helper", "ada", "m", wire.Usage{OutputTokens: 10})
		for day := range 31 {
			s.set(fmt.Sprintf("2026-03-%02dT12:00:00Z", day+1))
			run.ID = fmt.Sprint(day)
			require.NoError(b, s.store.DB.Tx(b.Context(), func(tx *sql.Tx) (err error) {
				_, err = s.service.Record(b.Context(), tx, run)
				return err
			}))
		}
		running := func(context.Context) (int, int, error) { return 3, 3, nil }
		for n, name := range []string{"no budget", "one budget", "two budgets"} {
			kind, of := usage.OfAgent, "helper"
			if n == 2 {
				kind, of = usage.OfUser, "ada"
			}
			if n > 0 {
				_, err := s.service.SetBudget(b.Context(), caller, kind, of, usage.Limits{Period: usage.PerMonth, Unit: usage.InTokens, Hard: new(1e9)})
				require.NoError(b, err)
			}
			b.Run(name, func(b *testing.B) {
				require.NoError(b, s.store.DB.Tx(b.Context(), func(tx *sql.Tx) error {
					for b.Loop() {
						require.NoError(b, s.service.Admit(b.Context(), tx, run, running))
					}
					return nil
				}))
			})
		}
	})
}

func eachEngine(b *testing.B, run func(b *testing.B, s *server)) {
	b.Helper()
	for name, url := range map[string]func(testing.TB) string{
		"postgres": func(t testing.TB) string { return dbtest.PostgreSQL(t, series...) },
		"sqlite":   func(t testing.TB) string { return dbtest.SQLite(t, series...) },
	} {
		b.Run(name, func(b *testing.B) { run(b, open(b, url(b), prices)) })
	}
}
