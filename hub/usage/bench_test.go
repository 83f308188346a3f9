package usage_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/db/dbtest"
	"github.com/seed93082962/agenthost/hub/usage"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// BenchmarkReport reads reports of 1,000,000 runs in 90 days, of 50 agents, 1,000 users and 4
// models.
func BenchmarkReport(b *testing.B) {
	const days = 90
	eachEngine(b, func(b *testing.B, s *server) {
		s.set("2026-06-10T12:00:00Z")
		s.fillSums(b, days)
		if s.store.DB.Engine() == "postgres" {
			_, err := s.store.DB.Write().ExecContext(b.Context(), `VACUUM ANALYZE usage_days, usage_weeks`)
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

// fillSums writes the sums of 1,000,000 runs up to today, as Record does.
func (s *server) fillSums(b *testing.B, days int) {
	today := s.now.Load() / (24 * 60 * 60 * 1e6)
	for _, statement := range []string{
		`INSERT INTO usage_days
			WITH RECURSIVE days AS (SELECT $1 - $2 + 1 AS day UNION ALL SELECT day + 1 FROM days WHERE day < $1),
				users AS (SELECT 0 AS u UNION ALL SELECT u + 1 FROM users WHERE u < 999), agents AS (SELECT 0 AS a UNION ALL SELECT a + 1 FROM agents WHERE a < 2)
			SELECT 'acme', 'all', day, 'agent' || CAST((u + a) % 50 AS TEXT), 'user' || CAST(u AS TEXT), 'model' || CAST(u % 4 AS TEXT), 'user' || CAST(u AS TEXT) || '!',
				4, 400, 0, 0, 40, 0, 0 FROM days, users, agents`,
		`INSERT INTO usage_days SELECT tenant_id, 'agent', day, agent_name, '', model, '', ` + added + ` FROM usage_days WHERE slice = 'all' GROUP BY tenant_id, day, agent_name, model`,
		`INSERT INTO usage_days SELECT tenant_id, 'user', day, '', user_id, '', MAX(user_name), ` + added + ` FROM usage_days WHERE slice = 'all' GROUP BY tenant_id, day, user_id`,
		`INSERT INTO usage_weeks SELECT tenant_id, slice, day - day % 7, agent_name, user_id, model, MAX(user_name), ` + added + ` FROM usage_days
			GROUP BY tenant_id, slice, day - day % 7, agent_name, user_id, model`,
	} {
		args := []any{today, days}
		if !strings.Contains(statement, "$") {
			args = nil
		}
		require.NoError(b, db.Exec(b.Context(), s.store.DB.Write(), "fill", strings.ReplaceAll(statement, "$1", "CAST($1 AS BIGINT)"), args...))
	}
}

const added = `SUM(runs), SUM(input_tokens), SUM(cache_read_tokens), SUM(cache_write_tokens), SUM(output_tokens), SUM(reasoning_tokens), SUM(cost)`

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
						require.NoError(b, s.service.Admit(b.Context(), tx, run, "chat_runs acme ada", running))
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
