package sqlerr_test

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/seed93082962/agenthost/internal/db/pgtest"
	"github.com/seed93082962/agenthost/internal/leaf/sqlerr"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// kinds returns the names of all classifications that hold for err.
func kinds(err error) (names []string) {
	for _, kind := range []struct {
		name  string
		holds func(error) bool
	}{
		{"retryable", sqlerr.Retryable}, {"lock timeout", sqlerr.LockTimeout}, {"interrupted", sqlerr.Interrupted}, {"unique", sqlerr.UniqueViolation},
		{"unavailable", sqlerr.Unavailable}, {"disconnected", sqlerr.Disconnected}, {"rolled back", sqlerr.RolledBack},
	} {
		if kind.holds(err) {
			names = append(names, kind.name)
		}
	}
	return names
}

// The errors come from the engines themselves.
func TestErrorsOfTheEngines(t *testing.T) {
	for driver, dsn := range map[string]string{"pgx": pgtest.URL(t), "sqlite": filepath.Join(t.TempDir(), "a.db")} {
		d, err := sql.Open(driver, dsn)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		_, err = d.Exec(`CREATE TABLE t (a BIGINT PRIMARY KEY CHECK (a > 0), b BIGINT UNIQUE, c TEXT NOT NULL)`)
		require.NoError(t, err)
		_, err = d.Exec(`INSERT INTO t VALUES (1, 1, '')`)
		require.NoError(t, err)
		for name, row := range map[string]struct {
			statement string
			want      []string
		}{
			"primary key": {`INSERT INTO t VALUES (1, 2, '')`, []string{"unique", "rolled back"}},
			"unique key":  {`INSERT INTO t VALUES (2, 1, '')`, []string{"unique", "rolled back"}},
			"check":       {`INSERT INTO t VALUES (-1, 2, '')`, []string{"rolled back"}},
			"not null":    {`INSERT INTO t VALUES (2, 2, NULL)`, []string{"rolled back"}},
		} {
			t.Run(driver+" "+name, func(t *testing.T) {
				_, err := d.Exec(row.statement)
				require.Error(t, err)
				require.Equal(t, row.want, kinds(err), "%v", err)
				require.Equal(t, row.want, kinds(fmt.Errorf("insert: %w", err)), "wrapped")
			})
		}
	}
}

// The classes of errors that an engine returns only in a failure.
func TestClasses(t *testing.T) {
	for _, row := range []struct {
		name string
		err  error
		want []string
	}{
		{"serialization failure", state("40001"), []string{"retryable", "unavailable", "rolled back"}},
		{"deadlock", state("40P01"), []string{"retryable", "unavailable", "rolled back"}},
		{"completion unknown", state("40003"), []string{"unavailable"}},
		{"lock timeout", state("55P03"), []string{"lock timeout", "unavailable", "rolled back"}},
		{"object in use", state("55006"), []string{"rolled back"}},
		{"too many connections", state("53300"), []string{"unavailable", "rolled back"}},
		{"statement cancelled", state("57014"), []string{"unavailable"}},
		{"shutdown", state("57P01"), []string{"unavailable", "disconnected"}},
		{"standby", state("25006"), []string{"unavailable", "rolled back"}},
		{"broken connection", state("08006"), []string{"unavailable", "disconnected"}},
		{"input/output error", state("58030"), []string{"unavailable"}},
		{"internal error", state("XX000"), nil},
		{"unknown table", state("42P01"), []string{"rolled back"}},
		{"malformed state", state("4"), []string{"rolled back"}},
		{"SQLite busy", code(5 | 2<<8), []string{"retryable", "unavailable", "rolled back"}},
		{"SQLite locked", code(6), []string{"retryable", "unavailable", "rolled back"}},
		{"SQLite input/output error", code(10 | 4<<8), []string{"unavailable"}},
		{"SQLite full", code(13), []string{"unavailable", "rolled back"}},
		{"SQLite corrupt", code(11), nil},
		{"SQLite interrupted", code(9), []string{"interrupted", "rolled back"}},
		{"SQLite cannot open", code(14), []string{"unavailable", "rolled back"}},
		{"another error", errors.New("any"), nil},
		{"no error", nil, nil},
	} {
		t.Run(row.name, func(t *testing.T) { require.Equal(t, row.want, kinds(row.err)) })
	}
}

func state(s string) error { return &pgconn.PgError{Code: s} }

type code int

func (c code) Code() int     { return int(c) }
func (c code) Error() string { return "SQLite" }
