package db_test

import (
	"context"
	"database/sql"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

// While one statement reads, others begin: there is hardly a moment without a reader.
func TestLogOfOverlappingReaders(t *testing.T) {
	t.Parallel()
	url := dbtest.SQLite(t)
	d := dbtest.Open(t, url, series("texts", "CREATE TABLE texts (id INTEGER NOT NULL PRIMARY KEY, body BLOB NOT NULL);"))
	write := func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "INSERT OR REPLACE INTO texts (id, body) VALUES (1, randomblob(1048576))")
		return err
	}
	require.NoError(t, d.Tx(t.Context(), write))
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for ctx.Err() == nil {
				_, err := db.Collect(t.Context(), d.Read(), "read", func(from db.Scanner) (n int, err error) {
					return n, from.Scan(&n)
				}, "SELECT sum(length(hex(body))) FROM texts")
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	largest := int64(0)
	for range 20 {
		require.NoError(t, d.Tx(t.Context(), write))
		info, err := os.Stat(strings.TrimPrefix(url, "sqlite://") + "-wal")
		require.NoError(t, err)
		largest = max(largest, info.Size())
	}
	cancel()
	readers.Wait()
	// 20 transactions write 42 MiB. On a busy machine, one attempt to truncate 8 MiB fails.
	require.LessOrEqual(t, largest, int64(20<<20), "bytes of the log")
}
