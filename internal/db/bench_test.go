package db_test

import (
	"context"
	"database/sql"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/db/pgtest"
)

func sqlite(t testing.TB) string { return dbtest.SQLite(t) }

// BenchmarkTx runs transactions of one UPDATE, and the same ones on the bare *sql.DB for
// comparison. Both engines have each one on the disk when it ends. SQLite with synchronous=NORMAL
// leaves that to the next checkpoint.
func BenchmarkTx(b *testing.B) {
	for engine, address := range map[db.Engine]func(testing.TB) string{db.PostgreSQL: pgtest.Durable, db.SQLite: sqlite} {
		d := dbtest.Open(b, address(b), accounts())
		update := func(tx *sql.Tx) error {
			_, err := tx.ExecContext(b.Context(), "UPDATE accounts SET balance = balance + $1 WHERE id = $2", 1, "a")
			return err
		}
		b.Run(string(engine)+"/Tx", func(b *testing.B) {
			for b.Loop() {
				require.NoError(b, d.Tx(b.Context(), update))
			}
		})
		b.Run(string(engine)+"/Tx/64 goroutines", func(b *testing.B) {
			b.SetParallelism(64 / runtime.GOMAXPROCS(0))
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					require.NoError(b, d.Tx(b.Context(), update))
				}
			})
		})
		b.Run(string(engine)+"/bare", func(b *testing.B) {
			for b.Loop() {
				require.NoError(b, bare(b.Context(), d.Write(), update))
			}
		})
		if engine == db.SQLite {
			b.Run("sqlite/Tx/synchronous=NORMAL", func(b *testing.B) {
				setSynchronous(b, d, "NORMAL")
				defer setSynchronous(b, d, "FULL")
				for b.Loop() {
					require.NoError(b, d.Tx(b.Context(), update))
				}
			})
		}
		b.Run(string(engine)+"/read", func(b *testing.B) {
			var n int64
			for b.Loop() {
				require.NoError(b, d.Read().QueryRowContext(b.Context(), "SELECT balance FROM accounts WHERE id = $1", "a").Scan(&n))
			}
		})
	}
}

// setSynchronous changes the setting of the one connection that writes.
func setSynchronous(b *testing.B, d *db.DB, value string) {
	b.Helper()
	_, err := d.Write().ExecContext(b.Context(), "PRAGMA synchronous="+value)
	require.NoError(b, err)
}

func bare(ctx context.Context, write *sql.DB, do func(*sql.Tx) error) error {
	tx, err := write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// BenchmarkStart opens a migrated database, as most starts do.
func BenchmarkStart(b *testing.B) {
	for engine, address := range map[db.Engine]func(testing.TB) string{db.PostgreSQL: pgtest.URL, db.SQLite: sqlite} {
		url := address(b)
		dbtest.Open(b, url, steps("shop")...)
		b.Run(string(engine), func(b *testing.B) {
			for b.Loop() {
				require.NoError(b, openAndMigrate(b.Context(), url))
			}
		})
	}
}
