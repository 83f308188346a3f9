package chat

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
)

// explaining is a database that notes the plans of queries.
type explaining struct {
	*sql.DB
	t     *testing.T
	d     *db.DB
	plans []string
}

func (e *explaining) explain(query string, args []any) {
	e.t.Helper()
	explain := "EXPLAIN QUERY PLAN "
	if e.d.Engine() == db.PostgreSQL {
		explain = "EXPLAIN "
	}
	rows, err := e.DB.QueryContext(e.t.Context(), explain+query, args...)
	require.NoError(e.t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	require.NoError(e.t, err)
	var plan strings.Builder
	for rows.Next() {
		cells := make([]any, len(columns))
		for i := range cells {
			cells[i] = new(any)
		}
		require.NoError(e.t, rows.Scan(cells...))
		fmt.Fprintln(&plan, *cells[len(cells)-1].(*any))
	}
	require.NoError(e.t, rows.Err())
	e.plans = append(e.plans, plan.String())
}

func (e *explaining) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	e.explain(query, args)
	return e.DB.QueryContext(ctx, query, args...)
}

func (e *explaining) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	e.explain(query, args)
	return e.DB.QueryRowContext(ctx, query, args...)
}

// Of ten thousand calls that wait, a list reads the index and one page, whatever waits for others
// and was answered, and the count reads only the index.
func TestManyWaitsHaveAnIndex(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		d := dbtest.Open(t, url)
		for _, query := range []string{
			`INSERT INTO chat_sessions (key, tenant_id, user_id, id, user_name, user_search, agent_name, title, source, created_at, updated_at)
				WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 8000)
				SELECT CAST(i AS TEXT), CASE WHEN i > 6000 THEN 'zeta' ELSE 'acme' END, CAST(i % 20 AS TEXT), CAST(i AS TEXT), 'u', 'u', 'a', 't', 'hub', 1, 1 FROM n`,
			`INSERT INTO chat_waits (session_key, id, tenant_id, approvers, user_id, user_name, agent_name, session_id, message_id, seq, kind, tool_name, reason,
					executed, digest, created_at, answer)
				SELECT key, 'w' || key, tenant_id, CASE WHEN CAST(key AS BIGINT) > 4000 THEN 'owner ' || user_id ELSE 'maintainer' END, user_id, 'u', 'a', id, 'm', 2,
					'approval', 'Bash', 'r', '` + strings.Repeat("x", 1000) + `', 'd', 1, CASE WHEN CAST(key AS BIGINT) <= 2000 THEN 'answered' ELSE '' END FROM chat_sessions`,
			`ANALYZE`,
		} {
			require.NoError(t, db.Exec(t.Context(), d.Write(), "fill", query))
		}
		q := &explaining{DB: d.Read(), t: t, d: d}
		for role, want := range map[rbac.Role]int{rbac.Member: 100, rbac.Maintainer: 1900 + 100, rbac.Admin: 1900 + 100} {
			caller := api.Caller{TenantID: "acme", UserID: "7", RoleNow: role}
			for _, number := range []int{1, 2} {
				found, total, err := waitsFor(t.Context(), q, caller, api.Page{Number: number, Size: 20})
				require.NoError(t, err)
				require.Len(t, found, 20)
				require.Equal(t, want, total)
			}
			_, err := findWait(t.Context(), q, caller, "w2008", "")
			require.Equal(t, role == rbac.Member, err != nil, "%s: %v", role, err)
		}
		require.Len(t, q.plans, 3*5)
		for _, plan := range q.plans {
			require.Contains(t, plan, "chat_waits_of_approvers", plan)
			require.NotRegexp(t, `(?i)Seq Scan|SCAN chat_waits`, plan)
		}
	}, apitest.Audit(), store.Migrations, Migrations)
}

// Of many files, those of a chat and the bytes of a user are found in an index, without their
// bytes.
func TestManyFilesHaveAnIndex(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		d := dbtest.Open(t, url)
		for _, query := range []string{
			`INSERT INTO chat_sessions (key, tenant_id, user_id, id, user_name, user_search, agent_name, title, source, created_at, updated_at)
				WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
				SELECT CAST(i AS TEXT), CASE WHEN i > 15000 THEN 'zeta' ELSE 'acme' END, CAST(i % 100 AS TEXT), CAST(i AS TEXT), 'u', 'u', 'a', 't', 'hub', 1, 1 FROM n`,
			`INSERT INTO chat_files (tenant_id, user_id, id, session_key, media_type, size, stored_at, data)
				SELECT tenant_id, user_id, 'f' || key, CASE WHEN CAST(key AS BIGINT) % 3 = 0 THEN NULL ELSE key END, 'text/plain', 1000, 1, CAST('x' AS ` +
				map[db.Engine]string{db.SQLite: "BLOB", db.PostgreSQL: "BYTEA"}[d.Engine()] + `) FROM chat_sessions`,
			`ANALYZE`,
		} {
			require.NoError(t, db.Exec(t.Context(), d.Write(), "fill", query))
		}
		q := &explaining{DB: d.Read(), t: t, d: d}
		in := session{TenantID: "acme", UserID: "7", Key: "107"}
		found, err := filesOf(t.Context(), q, in.TenantID, in.UserID, []string{"f107", "f207", "f8"})
		require.NoError(t, err)
		require.Len(t, found, 2)
		stored, err := fileBytesOf(t.Context(), q, in.TenantID, in.UserID)
		require.NoError(t, err)
		require.EqualValues(t, 150*(1000+fileOverhead), stored)
		found, err = filesIn(t.Context(), q, in, []string{"f107", "f207"})
		require.NoError(t, err)
		require.Len(t, found, 1)
		n, err := countFiles(t.Context(), q, in)
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		_, err = findFile(t.Context(), q, in, "f107")
		require.NoError(t, err)
		_, err = readFile(t.Context(), q, in, "f107")
		require.NoError(t, err)
		require.Len(t, q.plans, 6)
		for _, plan := range q.plans {
			require.Regexp(t, "chat_files_of_(user|session)", plan)
			require.NotRegexp(t, `(?i)Seq Scan|SCAN chat_files`, plan)
		}
	}, apitest.Audit(), store.Migrations, Migrations)
}
