package db_test

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/db/pgtest"
)

var errSpoilt = errors.New("spoilt")

func TestTxCommits(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		d := dbtest.Open(t, url, accounts())
		require.NoError(t, d.Tx(t.Context(), func(tx *sql.Tx) error { return add(t, tx, -5, "a") }))
		require.EqualValues(t, 95, balance(t, d, "a"))
	})
}

func TestTxRollsBack(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name string
		end  func(t *testing.T, d *db.DB, do func(tx *sql.Tx) error)
	}{
		{"on an error", func(t *testing.T, d *db.DB, do func(*sql.Tx) error) {
			err := d.Tx(t.Context(), func(tx *sql.Tx) error { return errors.Join(do(tx), errSpoilt) })
			require.ErrorIs(t, err, errSpoilt)
			require.NotErrorIs(t, err, db.ErrUnavailable)
		}},
		{"on a panic", func(t *testing.T, d *db.DB, do func(*sql.Tx) error) {
			require.PanicsWithValue(t, "spoilt", func() {
				_ = d.Tx(t.Context(), func(tx *sql.Tx) error {
					require.NoError(t, do(tx))
					panic("spoilt")
				})
			})
		}},
		{"on the end of the goroutine", func(t *testing.T, d *db.DB, do func(*sql.Tx) error) {
			var gone sync.WaitGroup
			gone.Go(func() {
				_ = d.Tx(t.Context(), func(tx *sql.Tx) error {
					_ = do(tx)
					runtime.Goexit()
					return nil
				})
			})
			gone.Wait()
		}},
		{"when the context ends before COMMIT", func(t *testing.T, d *db.DB, do func(*sql.Tx) error) {
			ctx, cancel := context.WithCancelCause(t.Context())
			err := d.Tx(ctx, func(tx *sql.Tx) error {
				defer cancel(errSpoilt)
				return do(tx)
			})
			require.ErrorIs(t, err, errSpoilt)
			require.NotErrorIs(t, err, db.ErrUnavailable)
		}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, url string) {
				d := dbtest.Open(t, url, accounts())
				row.end(t, d, func(tx *sql.Tx) error { return add(t, tx, -5, "a") })
				require.EqualValues(t, 100, balance(t, d, "a"))
				require.NoError(t, d.Tx(t.Context(), func(tx *sql.Tx) error { return add(t, tx, 1, "a") }), "the connection is of use")
			})
		})
	}
}

func TestTxThatCommitsItself(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		d := dbtest.Open(t, url, accounts())
		err := d.Tx(t.Context(), func(tx *sql.Tx) error { return tx.Commit() })
		require.ErrorIs(t, err, sql.ErrTxDone)
		require.NotErrorIs(t, err, db.ErrUnavailable)
	})
}

// A function that ignores an error of a statement gets an error from COMMIT on PostgreSQL, and
// nothing is committed.
func TestTxIgnoresAnErrorOfAStatement(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, pgtest.URL(t), accounts())
	err := d.Tx(t.Context(), func(tx *sql.Tx) error {
		require.NoError(t, add(t, tx, -5, "a"))
		_, err := tx.ExecContext(t.Context(), "SELECT nothing")
		require.Error(t, err)
		return nil
	})
	require.ErrorContains(t, err, "commit transaction: commit unexpectedly resulted in rollback")
	require.NotErrorIs(t, err, db.ErrUnavailable)
	require.EqualValues(t, 100, balance(t, d, "a"))
}

// Two handles are two replicas, and with SQLite two processes.
func TestTxLosesNoUpdate(t *testing.T) {
	t.Parallel()
	const writers, each = 8, 25
	dbtest.Each(t, func(t *testing.T, url string) {
		handles := []*db.DB{dbtest.Open(t, url, accounts()), dbtest.Open(t, url, accounts())}
		errs := make(chan error, writers*each)
		var all sync.WaitGroup
		for i := range writers {
			all.Go(func() {
				for range each {
					errs <- handles[i%2].Tx(t.Context(), func(tx *sql.Tx) error {
						return errors.Join(add(t, tx, -1, "a"), add(t, tx, 1, "b"))
					})
				}
			})
		}
		all.Wait()
		close(errs)
		for err := range errs {
			require.NoError(t, err)
		}
		require.EqualValues(t, 100-writers*each, balance(t, handles[0], "a"))
		require.EqualValues(t, 100+writers*each, balance(t, handles[1], "b"))
	})
}

func TestTxIsRepeatedAfterDeadlock(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, pgtest.URL(t), accounts())
	var runs [2]int
	var met, all sync.WaitGroup
	met.Add(2)
	for i, order := range [][2]string{{"a", "b"}, {"b", "a"}} {
		all.Go(func() {
			err := d.Tx(t.Context(), func(tx *sql.Tx) error {
				if err := add(t, tx, 1, order[0]); err != nil {
					return err
				}
				if runs[i]++; runs[i] == 1 {
					met.Done()
					met.Wait() // each has its first row
				}
				return add(t, tx, 1, order[1])
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	// The victim may take its first row again before the other one is woken, which is a deadlock
	// again.
	require.GreaterOrEqual(t, runs[0]+runs[1], 3, "one of them is the victim")
	require.EqualValues(t, 102, balance(t, d, "a"))
	require.EqualValues(t, 102, balance(t, d, "b"))
}

// Each transaction reads the row that the other one writes (write skew).
func TestTxIsRepeatedAfterSerializationFailure(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, with(t, pgtest.URL(t), "default_transaction_isolation=serializable"), accounts())
	var runs [2]int
	var met, all sync.WaitGroup
	met.Add(2)
	for i, id := range []string{"a", "b"} {
		all.Go(func() {
			err := d.Tx(t.Context(), func(tx *sql.Tx) error {
				var sum int
				if err := tx.QueryRowContext(t.Context(), "SELECT SUM(balance) FROM accounts").Scan(&sum); err != nil {
					return err
				}
				if runs[i]++; runs[i] == 1 {
					met.Done()
					met.Wait()
				}
				if sum < 200 {
					return nil
				}
				return add(t, tx, -100, id)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Equal(t, 3, runs[0]+runs[1])
	require.EqualValues(t, 100, balance(t, d, "a")+balance(t, d, "b"), "only one may take 100")
}

func TestTxFailsAfterTenRuns(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, pgtest.URL(t))
	runs := 0
	err := d.Tx(t.Context(), func(tx *sql.Tx) error {
		runs++
		_, err := tx.ExecContext(t.Context(), "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$")
		return err
	})
	require.ErrorIs(t, err, db.ErrUnavailable)
	require.Equal(t, 10, runs)
}

func TestTxIsNotRepeatedAfterTheContextEnded(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, pgtest.URL(t))
	ctx, cancel := context.WithCancelCause(t.Context())
	runs := 0
	err := d.Tx(ctx, func(tx *sql.Tx) error {
		runs++
		_, err := tx.ExecContext(t.Context(), "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$")
		cancel(errSpoilt)
		return err
	})
	require.ErrorIs(t, err, errSpoilt)
	require.Equal(t, 1, runs)
}

// The server reports the failure of COMMIT: the outcome is known, and the transaction is repeated.
func TestTxIsRepeatedIfCommitFailsToSerialize(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, pgtest.URL(t), series("deferred", `
CREATE SEQUENCE tries;
CREATE TABLE t (a BIGINT);
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN IF nextval('tries') < 3 THEN RAISE EXCEPTION USING ERRCODE = '40001'; END IF; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail();`))
	runs := 0
	require.NoError(t, d.Tx(t.Context(), func(tx *sql.Tx) error {
		runs++
		_, err := tx.ExecContext(t.Context(), "INSERT INTO t (a) VALUES (1)")
		return err
	}))
	require.Equal(t, 3, runs)
	var rows int
	require.NoError(t, d.Read().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM t").Scan(&rows))
	require.Equal(t, 1, rows)
}

func TestUniqueViolation(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		d := dbtest.Open(t, url, accounts())
		rows := []struct {
			name, statement string
			want            bool
		}{
			{"primary key", "INSERT INTO accounts (id, name, balance) VALUES ('a', 'Other', 0)", true},
			{"unique column", "INSERT INTO accounts (id, name, balance) VALUES ('c', 'Ann', 0)", true},
			{"not null", "INSERT INTO accounts (id, name, balance) VALUES ('c', NULL, 0)", false},
			{"syntax", "INSERT nothing", false},
		}
		for _, row := range rows {
			t.Run(row.name, func(t *testing.T) {
				err := d.Tx(t.Context(), func(tx *sql.Tx) error {
					_, err := tx.ExecContext(t.Context(), row.statement)
					return err
				})
				require.Error(t, err)
				require.Equal(t, row.want, db.UniqueViolation(err))
				require.False(t, db.Unavailable(err))
			})
		}
		require.False(t, db.UniqueViolation(nil))
	})
}
