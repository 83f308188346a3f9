package db_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

func TestMain(m *testing.M) {
	if address := os.Getenv("AGENTHOST_TEST_MIGRATE"); address != "" {
		migrateInChild(address)
	}
	if dir := os.Getenv("AGENTHOST_TEST_FULL"); dir != "" {
		fillInChild(dir)
	}
	dbtest.Main(m)
}

// series returns a series of statements that both engines accept.
func series(name string, statements ...string) db.Series {
	files := fstest.MapFS{}
	for _, engine := range []db.Engine{db.PostgreSQL, db.SQLite} {
		for i, s := range statements {
			files[fmt.Sprintf("%s/%04d_test.sql", engine, i+1)] = &fstest.MapFile{Data: []byte(s)}
		}
	}
	return db.Series{Name: name, Files: files}
}

func accounts() db.Series {
	return series("accounts", `
CREATE TABLE accounts (id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, balance BIGINT NOT NULL);
INSERT INTO accounts (id, name, balance) VALUES ('a', 'Ann', 100), ('b', 'Bob', 100);`)
}

func balance(t *testing.T, d *db.DB, id string) (b int64) {
	t.Helper()
	require.NoError(t, d.Read().QueryRowContext(t.Context(), "SELECT balance FROM accounts WHERE id = $1", id).Scan(&b))
	return b
}

func add(t *testing.T, tx *sql.Tx, amount int, id string) error {
	t.Helper()
	_, err := tx.ExecContext(t.Context(), "UPDATE accounts SET balance = balance + $1 WHERE id = $2", amount, id)
	return err
}

// run executes a statement outside of the transaction under test.
func run(t *testing.T, d *db.DB, statement string) {
	t.Helper()
	_, err := d.Write().ExecContext(t.Context(), statement)
	require.NoError(t, err)
}

func contextThatEnded() (context.Context, context.CancelFunc) {
	return context.WithDeadline(context.Background(), time.Unix(0, 0))
}

// with adds options to the address of a PostgreSQL database.
func with(t *testing.T, address, options string) string {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	u.RawQuery = strings.Trim(u.RawQuery+"&"+options, "&")
	return u.String()
}
