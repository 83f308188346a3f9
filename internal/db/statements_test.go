package db_test

import (
	"context"
	"database/sql"
	"fmt"
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
