package usage_test

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

// BenchmarkReport reads the first pages of reports of 1,000,000 runs in 90 days, of 50 agents,
// 1,000 users and 4 models.
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
			"agent,user,31 days": func(in *usage.Query) { // with the most days outside of whole weeks
				in.By, in.From, in.To = []string{usage.ByAgent, usage.ByUser}, in.To.AddDate(0, 0, -33), in.To.AddDate(0, 0, -3)
			},
		} {
			b.Run(name, func(b *testing.B) {
				one := in
				change(&one)
				for b.Loop() {
					report, err := s.service.Report(b.Context(), caller, one, api.Page{Number: 1, Size: 100})
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

// BenchmarkStart begins runs as hub/internal/chat does, in transactions that are rolled back:
// without the check of budgets, and with that of none, one and two. They take turns. The metrics
// are medians.
func BenchmarkStart(b *testing.B) {
	eachEngine(b, func(b *testing.B, s *server) {
		caller := api.Caller{TenantID: "acme", UserID: "max", UserName: "max", RoleNow: rbac.Admin}
		plain, one, two := of("", "plain", "ada", "m", runtimewire.Usage{OutputTokens: 10}), of("", "one", "ada", "m", runtimewire.Usage{}), of("", "one", "two", "m", runtimewire.Usage{})
		for day := range 31 {
			s.set(fmt.Sprintf("2026-03-%02dT12:00:00Z", day+1))
			for i, run := range []usage.CountedRun{plain, one, two} {
				run.ID = fmt.Sprint(day, i)
				s.record(run)
			}
		}
		for kind, name := range map[string]string{usage.OfAgent: "one", usage.OfUser: "two"} {
			_, err := s.service.SetBudget(b.Context(), caller, kind, name, wire.BudgetRequest{Period: usage.PerMonth, Unit: usage.InTokens, Hard: new(1e9)})
			require.NoError(b, err)
		}
		require.NoError(b, db.Exec(b.Context(), s.store.DB.Write(), "create runs", `CREATE TABLE runs (id TEXT PRIMARY KEY, agent TEXT NOT NULL)`))
		require.NoError(b, db.Exec(b.Context(), s.store.DB.Write(), "insert run", `INSERT INTO runs VALUES ('1', 'one')`))
		variants := []struct {
			name  string
			check bool
			run   usage.CountedRun
			took  []time.Duration
		}{{name: "without", run: plain}, {"none", true, plain, nil}, {"one", true, one, nil}, {"two", true, two, nil}}
		for b.Loop() {
			for i := range variants {
				v := &variants[i]
				err := s.store.DB.Tx(b.Context(), func(tx *sql.Tx) error {
					began := time.Now()
					s.begin(b, tx, v.run, v.check)
					v.took = append(v.took, time.Since(began))
					return errRollBack
				})
				require.ErrorIs(b, err, errRollBack)
			}
		}
		for _, v := range variants {
			slices.Sort(v.took)
			b.ReportMetric(float64(v.took[len(v.took)/2].Nanoseconds())/1e6, "ms/"+v.name)
		}
	})
}

// begin inserts a run that exists, with or without the check of budgets.
func (s *server) begin(b *testing.B, tx *sql.Tx, run usage.CountedRun, check bool) {
	b.Helper()
	const count, key = `(SELECT COUNT(*) FROM runs WHERE agent = $2)`, "chat_runs acme ada"
	query, args := `INSERT INTO runs SELECT $1, $2 WHERE `+count+` < 100`, []any{"1", run.AgentName}
	if check {
		require.NoError(b, s.service.Lock(b.Context(), tx, run, key))
		condition, more := s.service.Admitted(usage.Columns{Tenant: "'" + run.TenantID + "'", Agent: "$2", User: "'" + run.UserID + "'"}, false, count, count, len(args)+1)
		query, args = query+` AND `+condition, append(args, more...)
	} else if s.store.DB.Engine() == db.PostgreSQL {
		require.NoError(b, db.Exec(b.Context(), tx, "lock", `SELECT pg_advisory_xact_lock(hashtext($1))`, key))
	}
	require.NoError(b, db.Exec(b.Context(), tx, "insert run", query+` ON CONFLICT DO NOTHING`, args...))
}

var errRollBack = errors.New("roll back")

// BenchmarkDirect begins and ends runs outside of chats, of an agent without a budget and of one
// with a hard limit, with and without counted tokens. They take turns. The metrics are medians.
func BenchmarkDirect(b *testing.B) {
	eachEngine(b, func(b *testing.B, s *server) {
		s.set("2026-03-31T12:00:00Z")
		s.limit(1e9)
		took := map[string][]time.Duration{}
		step := func(name string, do func()) {
			began := time.Now()
			do()
			took[name] = append(took[name], time.Since(began))
		}
		for b.Loop() {
			for name, agent := range map[string]string{"none": "plain", "one": "helper"} {
				var d *usage.Direct
				step(name+"-begin", func() {
					d = s.service.NewDirect("acme", agent)
					require.NoError(b, d.Begin(b.Context()))
				})
				step(name+"-end", func() { d.End(b.Context(), true, tokens) })
			}
		}
		for name, all := range took {
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2].Nanoseconds())/1e6, "ms/"+name)
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
