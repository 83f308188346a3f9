package sqlaudit_test

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/internal/db"
)

// scans is the text of a plan that reads all entries. A plan of SQLite names tables by their alias.
var scans = map[db.Engine]*regexp.Regexp{
	db.PostgreSQL: regexp.MustCompile(`Seq Scan on audit_`),
	db.SQLite:     regexp.MustCompile(`SCAN (e|m|b|a|u|audit_\w+)\b`),
}

func TestNoQueryScansTheLog(t *testing.T) {
	t.Parallel()
	for engine, url := range map[db.Engine]string{db.PostgreSQL: dbURL(t), db.SQLite: "sqlite://" + t.TempDir() + "/a.db"} {
		t.Run(string(engine), func(t *testing.T) {
			d := database(t, url)
			now := benchStart
			writer, err := sqlaudit.New(sqlaudit.Config{Write: d.Write(), Engine: string(engine), Now: func() time.Time {
				now = now.Add(time.Millisecond)
				return now
			}})
			require.NoError(t, err)
			r, actions := rand.New(rand.NewPCG(1, 2)), declare()
			for range 8 {
				var records []auditlog.Record
				for range 200 {
					records = append(records, actions.record(r, "t"), actions.record(r, "other"))
				}
				require.NoError(t, writer.Append(t.Context(), records...))
			}
			// Many other tenants, or a scan would be right.
			for _, step := range []string{
				`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
					INSERT INTO audit_heads (name) SELECT CAST(i AS TEXT) FROM n`,
				`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
					INSERT INTO audit_keys (tenant, kind, digest, name)
					SELECT h.tenant, 4, CAST(i AS TEXT), 'x' FROM n JOIN audit_heads h ON h.name = CAST(1 + i % 1000 AS TEXT)`,
				"ANALYZE",
			} {
				_, err = d.Write().Exec(step)
				require.NoError(t, err)
			}

			s, rec := recorded(t, d, url, nil)
			times := auditlog.Filter{From: benchStart.Add(20 * time.Millisecond), To: benchStart.Add(70 * time.Millisecond)}
			for _, f := range []auditlog.Filter{
				{}, {Category: "user"}, {Action: "user.action_3"}, times,
				{Category: "user", From: times.From, To: times.To}, {Action: "user.action_3", To: times.To},
				{User: "user007"}, {User: "user00"}, {User: "7"}, {User: "nobody"}, {User: "user"},
				{User: "user1", Category: "user"}, {User: "user1", Action: "user.action_3"}, {User: "user1", From: times.From},
			} {
				first, err := s.Query(t.Context(), auditlog.Query{TenantID: "t", Filter: f, Limit: 20})
				require.NoError(t, err)
				for _, offset := range []uint64{0, first.Total / 2} {
					_, err := s.Query(t.Context(), auditlog.Query{TenantID: "t", Filter: f, Limit: 20, Offset: offset})
					require.NoError(t, err)
				}
				for _, err := range s.Entries(t.Context(), "t", f, nil) {
					require.NoError(t, err)
					break
				}
				for _, q := range rec.take() {
					plan := explain(t, d, q)
					require.NotRegexp(t, scans[engine], plan, "%+v\n%s\n%v", f, q.query, q.args)
					if testing.Verbose() {
						t.Logf("%+v\n%s\n%v\n%s", f, q.query, q.args, plan)
					}
				}
			}
		})
	}
}

// explain returns the plan. On PostgreSQL it is the generic plan, which a prepared statement uses
// after some executions.
func explain(t *testing.T, d *db.DB, q asked) string {
	t.Helper()
	ctx := t.Context()
	c, err := d.Read().Conn(ctx)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	var plan strings.Builder
	read := func(rows *sql.Rows, err error) {
		require.NoError(t, err)
		columns, err := rows.Columns()
		require.NoError(t, err)
		for rows.Next() {
			cells := make([]any, len(columns))
			for i := range cells {
				cells[i] = new(any)
			}
			require.NoError(t, rows.Scan(cells...))
			fmt.Fprintln(&plan, *cells[len(cells)-1].(*any))
		}
		require.NoError(t, rows.Err())
	}
	if d.Engine() == db.SQLite {
		read(c.QueryContext(ctx, "EXPLAIN QUERY PLAN "+q.query, q.args...))
		return plan.String()
	}
	for _, step := range []string{"SET plan_cache_mode = force_generic_plan", "PREPARE plan AS " + q.query} {
		_, err := c.ExecContext(ctx, step)
		require.NoError(t, err)
	}
	literals := make([]string, len(q.args))
	for i, a := range q.args {
		literals[i] = "'" + fmt.Sprint(a) + "'"
	}
	execute := "EXPLAIN EXECUTE plan"
	if len(literals) > 0 {
		execute += "(" + strings.Join(literals, ", ") + ")"
	}
	read(c.QueryContext(ctx, execute))
	_, err = c.ExecContext(ctx, "DEALLOCATE plan")
	require.NoError(t, err)
	return plan.String()
}
