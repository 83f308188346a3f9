package db_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

// on runs a test on one connection to SQLite, which keeps its statements.
func on(t *testing.T, test func(t *testing.T, conn *sql.Conn)) {
	t.Parallel()
	d := dbtest.Open(t, dbtest.SQLite(t), accounts())
	conn, err := d.Write().Conn(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	test(t, conn)
}

func kept(t *testing.T, conn *sql.Conn) (n int) {
	t.Helper()
	require.NoError(t, conn.Raw(func(c any) error { n = db.Statements(c); return nil }))
	return n
}

func TestAQueryRunsTwiceAtTheSameTime(t *testing.T) {
	on(t, func(t *testing.T, conn *sql.Conn) {
		const query = "SELECT id FROM accounts WHERE balance > $1 ORDER BY id"
		for range 3 {
			var seen []string
			outer, err := conn.QueryContext(t.Context(), query, 0)
			require.NoError(t, err)
			for outer.Next() {
				var a, b string
				require.NoError(t, outer.Scan(&a))
				inner, err := conn.QueryContext(t.Context(), query, 1)
				require.NoError(t, err)
				for inner.Next() {
					require.NoError(t, inner.Scan(&b))
					seen = append(seen, a+b)
				}
				require.NoError(t, inner.Close())
			}
			require.NoError(t, outer.Close())
			require.Equal(t, []string{"aa", "ab", "ba", "bb"}, seen)
		}
	})
}

// A statement of a former schema is prepared again.
func TestAStatementAfterTheSchemaChanged(t *testing.T) {
	on(t, func(t *testing.T, conn *sql.Conn) {
		columns := func() (names []string) {
			rows, err := conn.QueryContext(t.Context(), "SELECT * FROM accounts WHERE id = $1", "a")
			require.NoError(t, err)
			defer rows.Close()
			names, err = rows.Columns()
			require.NoError(t, err)
			return names
		}
		require.Len(t, columns(), 3)
		_, err := conn.ExecContext(t.Context(), "ALTER TABLE accounts ADD COLUMN color TEXT")
		require.NoError(t, err)
		require.Len(t, columns(), 4)
		_, err = conn.ExecContext(t.Context(), "ALTER TABLE accounts DROP COLUMN color; DROP TABLE accounts")
		require.NoError(t, err)
		_, err = conn.QueryContext(t.Context(), "SELECT * FROM accounts WHERE id = $1", "a")
		require.ErrorContains(t, err, "no such table")
	})
}

// Values of one run, and its error, do not affect the next one.
func TestAStatementAfterAnError(t *testing.T) {
	on(t, func(t *testing.T, conn *sql.Conn) {
		const insert = "INSERT INTO accounts (id, name, balance) VALUES ($1, $2, $3)"
		for i := range 3 {
			_, err := conn.ExecContext(t.Context(), insert, "a", "Ann", 1)
			require.True(t, db.UniqueViolation(err))
			_, err = conn.ExecContext(t.Context(), insert, fmt.Sprint("n", i), fmt.Sprint("n", i))
			require.ErrorContains(t, err, "missing")
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			_, err = conn.ExecContext(ended, insert, "x", "x", 1)
			require.ErrorIs(t, err, context.Canceled)
			_, err = conn.ExecContext(t.Context(), insert, fmt.Sprint("n", i), fmt.Sprint("n", i), i)
			require.NoError(t, err)
		}
		var sum, rows int
		require.NoError(t, conn.QueryRowContext(t.Context(), "SELECT SUM(balance), COUNT(*) FROM accounts").Scan(&sum, &rows))
		require.Equal(t, []int{203, 5}, []int{sum, rows})
	})
}

func TestStatementsAreBounded(t *testing.T) {
	on(t, func(t *testing.T, conn *sql.Conn) {
		for i := range 1000 {
			var n int
			require.NoError(t, conn.QueryRowContext(t.Context(), fmt.Sprintf("SELECT balance + %d FROM accounts WHERE id = $1", i), "a").Scan(&n))
			require.Equal(t, 100+i, n)
		}
		require.Equal(t, 64, kept(t, conn))
	})
}

func TestALongStatementIsNotKept(t *testing.T) {
	on(t, func(t *testing.T, conn *sql.Conn) {
		before := kept(t, conn)
		for length, more := range map[int]int{4 << 10: 1, 4<<10 + 1: 0} {
			_, err := conn.ExecContext(t.Context(), fmt.Sprintf("%-*s", length, "SELECT 1"))
			require.NoError(t, err)
			require.Equal(t, before+more, kept(t, conn))
			before += more
		}
	})
}

// SQLite looks the rows of a table of placeholders up in the one that is joined with it, and does
// not read all of that.
func TestTableOfPlaceholders(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		d := dbtest.Open(t, url, accounts())
		require.NoError(t, db.Exec(t.Context(), d.Write(), "create", `CREATE TABLE parts (a TEXT NOT NULL, n BIGINT NOT NULL, b TEXT, c TEXT, PRIMARY KEY (a, n))`))
		require.NoError(t, db.Exec(t.Context(), d.Write(), "fill", `INSERT INTO parts VALUES ('a', 1, 'b', 'c')`))
		for some := range db.Chunks([]any{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "a"}) {
			query := `UPDATE parts SET c = given.column4 FROM ` + db.Table(1, len(some), "TEXT", "BIGINT", "TEXT", "TEXT") + ` AS given
				WHERE a = given.column1 AND n = given.column2 AND b = given.column3 AND c = 'c' RETURNING a`
			var args []any
			for _, id := range some {
				args = append(args, id, 1, "b", "d")
			}
			if d.Engine() == db.SQLite {
				require.Contains(t, plan(t, d, query, args...), "SEARCH parts USING INDEX", len(some))
			}
			changed, err := db.Values[string](t.Context(), d.Write(), "change", query, args...)
			require.NoError(t, err)
			require.Equal(t, len(some) == 1, len(changed) == 1)
		}
	})
}

func plan(t *testing.T, d *db.DB, query string, args ...any) string {
	t.Helper()
	steps, err := db.Collect(t.Context(), d.Write(), "explain", func(row db.Scanner) (step string, err error) {
		var n int
		return step, row.Scan(&n, &n, &n, &step)
	}, `EXPLAIN QUERY PLAN `+query, args...)
	require.NoError(t, err)
	return strings.Join(steps, "\n")
}
