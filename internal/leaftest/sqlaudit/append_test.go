package sqlaudit_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

// holding runs do while a transaction has the log of "t" locked, so that what is appended in do has
// to wait, and then commits or rolls back.
func holding(t *testing.T, d *db.DB, s *sqlaudit.Store, commit bool, do func()) {
	t.Helper()
	tx, err := d.Write().BeginTx(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, s.AppendTx(t.Context(), tx, login("t", 0)))
	do()
	if commit {
		require.NoError(t, tx.Commit())
	} else {
		require.NoError(t, tx.Rollback())
	}
}

func TestAppendTxRollbackLeavesNoGap(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, url string) {
		d := database(t, url)
		s := store(t, d)
		require.NoError(t, s.Append(t.Context(), login("t", 1), promote("t", 1)))
		holding(t, d, s, false, func() {})
		tx, err := d.Write().BeginTx(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, s.AppendTx(t.Context(), tx, login("t", 0), login("new", 1), promote("t", 99)))
		require.NoError(t, s.AppendTx(t.Context(), tx, login("t", 99)))
		require.NoError(t, tx.Rollback())

		require.NoError(t, s.Append(t.Context(), promote("t", 99), login("t", 0)))
		holding(t, d, s, true, func() {})
		v := verified(t, s, "t")
		require.EqualValues(t, 5, v.Checked)
		p, err := s.Query(t.Context(), auditlog.Query{TenantID: "t", Filter: auditlog.Filter{Category: "auth"}, Limit: 10})
		require.NoError(t, err)
		require.EqualValues(t, 3, p.Total)
		head, err := s.Head(t.Context(), "new")
		require.NoError(t, err)
		require.Zero(t, head)
	})
}

// A chain of a transaction that was rolled back is not used again, even if all entries have the
// same time.
func TestAppendTxAgainAfterRollback(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, url string) {
		d := database(t, url)
		s, err := sqlaudit.New(sqlaudit.Config{
			Write: d.Write(), Read: d.Read(), Engine: string(d.Engine()), Now: func() time.Time { return benchStart },
		})
		require.NoError(t, err)
		for i := range 20 {
			for _, commit := range []bool{false, i%3 > 0, true} {
				tx, err := d.Write().BeginTx(t.Context(), nil)
				require.NoError(t, err)
				require.NoError(t, s.AppendTx(t.Context(), tx, login("t", i), promote("t", i/2)))
				require.NoError(t, s.AppendTx(t.Context(), tx, promote("t", i)))
				if commit {
					require.NoError(t, tx.Commit())
				} else {
					require.NoError(t, tx.Rollback())
				}
			}
			if i%5 == 0 {
				require.NoError(t, s.Append(t.Context(), login("t", i+1)))
			}
		}
		require.EqualValues(t, (20+13)*3+4, verified(t, s, "t").Checked)
	})
}

func TestRejectedRecordFailsOnlyItsCall(t *testing.T) {
	t.Parallel()
	poison := map[db.Engine]string{
		db.PostgreSQL: "ALTER TABLE audit_entries ADD CHECK (target_type <> 'poison')",
		db.SQLite: `CREATE TRIGGER poison BEFORE INSERT ON audit_entries WHEN NEW.target_type = 'poison'
			BEGIN SELECT RAISE(ABORT, 'poison'); END`,
	}
	each(t, func(t *testing.T, url string) {
		d := database(t, url)
		s := store(t, d)
		_, err := d.Write().Exec(poison[d.Engine()])
		require.NoError(t, err)
		bad := event("t", 7)
		bad.TargetType = "poison"
		var calls sync.WaitGroup
		var errs [32]error
		holding(t, d, s, true, func() {
			for i := range errs {
				calls.Go(func() {
					record := login("t", i)
					if i == 7 {
						record = auditlog.Define[auditlog.None]("auth.login").Record(bad, auditlog.None{})
					}
					errs[i] = s.Append(context.Background(), record)
				})
			}
		})
		calls.Wait()
		for i, err := range errs {
			require.Equal(t, i == 7, err != nil, "%d: %v", i, err)
		}
		require.EqualValues(t, 32, verified(t, s, "t").Checked)
	})
}

func TestCancelledCallAffectsNoOther(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, url string) {
		d := database(t, url)
		s := store(t, d)
		gone := errors.New("gone")
		var stay sync.WaitGroup
		holding(t, d, s, true, func() {
			for i := range 8 {
				stay.Go(func() { require.NoError(t, s.Append(context.Background(), login("t", i))) })
			}
			var leave sync.WaitGroup
			for i := range 8 {
				leave.Go(func() {
					ctx, cancel := context.WithCancelCause(context.Background())
					go cancel(gone)
					require.ErrorIs(t, s.Append(ctx, login("t", 100+i)), gone)
				})
			}
			leave.Wait()
		})
		stay.Wait()
		require.GreaterOrEqual(t, verified(t, s, "t").Checked, uint64(9))
	})
}

// Some of these fail if a transaction is not repeated.
func TestManyStoresUnderSerializable(t *testing.T) {
	t.Parallel()
	url := dbURL(t)
	d := database(t, url)
	_, err := d.Write().Exec(`DO $$ BEGIN EXECUTE
		format('ALTER DATABASE %I SET default_transaction_isolation = serializable', current_database()); END $$`)
	require.NoError(t, err)
	var all sync.WaitGroup
	for range 3 {
		other := dbtest.Open(t, url)
		s := store(t, other)
		for i := range 4 {
			all.Go(func() {
				for range 25 {
					require.NoError(t, s.Append(context.Background(), login("t", i), promote("u", i)))
				}
			})
		}
	}
	all.Wait()
	s := store(t, d)
	require.EqualValues(t, 300, verified(t, s, "t").Checked)
	require.EqualValues(t, 300, verified(t, s, "u").Checked)
}

func TestLostConnectionIsAnError(t *testing.T) {
	t.Parallel()
	d := database(t, dbURL(t))
	s := store(t, d)
	failed := make(chan error)
	holding(t, d, s, true, func() {
		go func() { failed <- s.Append(context.Background(), login("t", 1)) }()
		for n := 0; n == 0; { // until it waits for the lock
			require.NoError(t, d.Read().QueryRow(`SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n))
		}
		require.Error(t, <-failed)
	})
	require.NoError(t, s.Append(t.Context(), login("t", 2)))
	require.EqualValues(t, 2, verified(t, s, "t").Checked)
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	for engine, open := range map[string]func() (*sql.DB, error){
		"postgres": func() (*sql.DB, error) { return sql.Open("pgx", dbURL(t)) },
		"sqlite": func() (*sql.DB, error) {
			return sql.Open("sqlite", "file:"+t.TempDir()+"/audit.db?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)")
		},
	} {
		t.Run(engine, func(t *testing.T) {
			d, err := open()
			require.NoError(t, err)
			defer func() { require.NoError(t, d.Close()) }()
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() { require.NoError(t, sqlaudit.Migrate(context.Background(), d, engine)) })
			}
			all.Wait()
			s, err := sqlaudit.New(sqlaudit.Config{Write: d, Engine: engine})
			require.NoError(t, err)
			require.NoError(t, s.Append(t.Context(), login("t", 1), promote("t", 2)))
			verified(t, s, "t")

			_, err = d.Exec("INSERT INTO agenthost_migrations VALUES ('audit', 1000, '1000_later.sql', '', 0)")
			require.NoError(t, err)
			require.ErrorContains(t, sqlaudit.Migrate(t.Context(), d, engine), "it has migration 1000")
		})
	}
	require.Error(t, sqlaudit.Migrate(t.Context(), nil, "oracle"))
	_, err := sqlaudit.New(sqlaudit.Config{Engine: "sqlite"})
	require.Error(t, err)
	_, err = sqlaudit.New(sqlaudit.Config{Write: new(sql.DB), Engine: "oracle"})
	require.ErrorContains(t, err, "oracle")
}

// Concurrent calls wait for each other also if the transactions of the database begin deferred, and
// the table of another series exists.
func TestMigrateWithDeferredTransactions(t *testing.T) {
	t.Parallel()
	for range 5 {
		d, err := sql.Open("sqlite", "file:"+t.TempDir()+"/audit.db?_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)")
		require.NoError(t, err)
		_, err = d.Exec("CREATE TABLE agenthost_migrations (series TEXT, version BIGINT, name TEXT, checksum TEXT, applied_at BIGINT, PRIMARY KEY (series, version))")
		require.NoError(t, err)
		results := make(chan error, 4)
		for range cap(results) {
			go func() { results <- sqlaudit.Migrate(context.Background(), d, "sqlite") }()
		}
		for range cap(results) {
			require.NoError(t, <-results)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, sqlaudit.Migrate(ended, d, "sqlite"))
		s, err := sqlaudit.New(sqlaudit.Config{Write: d, Engine: "sqlite"})
		require.NoError(t, err)
		require.NoError(t, s.Append(t.Context(), login("t", 1)), "no transaction is open")
		require.NoError(t, d.Close())
	}
}

// A log of many entries in one call, and names in every size of statement.
func TestLargeAppend(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, url string) {
		s := store(t, database(t, url))
		records := make([]auditlog.Record, 2_000)
		for i := range records {
			records[i] = login("t", i%777)
		}
		require.NoError(t, s.Append(t.Context(), records...))
		require.EqualValues(t, 2_000, verified(t, s, "t").Checked)
		p, err := s.Query(t.Context(), auditlog.Query{TenantID: "t", Filter: auditlog.Filter{User: "user77"}, Offset: 10, Limit: 20})
		require.NoError(t, err)
		require.EqualValues(t, 7*2, p.Total) // 770 to 776
		require.Len(t, p.Items, 4)
		require.Equal(t, "User770", p.Items[3].UserName, fmt.Sprint(p.Items))
	})
}
