package db_test

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/db/dbtest"
)

// member is a transaction that takes 1 from the account a, waits for its gate, which is nil for
// none, and then runs do.
type member struct {
	ctx  context.Context
	gate chan struct{}
	do   func(tx *sql.Tx) error
	err  error
	runs int
	done chan struct{} // closed after err and runs are set
}

func (m *member) start(t *testing.T, d *db.DB) {
	m.done = make(chan struct{})
	if m.ctx == nil {
		m.ctx = t.Context()
	}
	go func() {
		defer close(m.done)
		defer func() { _ = recover() }()
		m.err = d.Tx(m.ctx, func(tx *sql.Tx) error {
			m.runs++
			if err := add(t, tx, -1, "a"); err != nil {
				return err
			}
			if m.gate != nil && m.runs == 1 {
				<-m.gate
			}
			if m.do == nil {
				return nil
			}
			return m.do(tx)
		})
	}()
	synctest.Wait()
}

// grouped starts all members while the first one is in its transaction, in their order, and returns
// when they have ended. It returns the number of transactions of the engine.
func grouped(t *testing.T, check func(t *testing.T, d *db.DB), members ...*member) (commits int) {
	t.Helper()
	url := dbtest.SQLite(t)
	synctest.Test(t, func(t *testing.T) {
		d := dbtest.Open(t, url, accounts(), series("owners", `
CREATE TABLE owners (account TEXT NOT NULL REFERENCES accounts (id) DEFERRABLE INITIALLY DEFERRED);`))
		before := commitsOf(t, url)
		first := &member{gate: make(chan struct{})}
		for _, m := range append([]*member{first}, members...) {
			m.start(t, d)
		}
		close(first.gate)
		<-first.done
		for _, m := range members {
			<-m.done
		}
		commits = commitsOf(t, url) - before
		require.NoError(t, first.err)
		check(t, d)
	})
	return commits
}

// commitsOf counts the frames of the write-ahead log that end a transaction: those that have the
// size of the database in bytes 4 to 7 of their header of 24 bytes.
func commitsOf(t *testing.T, url string) (n int) {
	t.Helper()
	log, err := os.ReadFile(strings.TrimPrefix(url, "sqlite://") + "-wal")
	require.NoError(t, err)
	page := int(binary.BigEndian.Uint32(log[8:]))
	for frame := log[32:]; len(frame) >= 24+page; frame = frame[24+page:] {
		if binary.BigEndian.Uint32(frame[4:]) > 0 {
			n++
		}
	}
	return n
}

func TestConcurrentTransactionsShareACommit(t *testing.T) {
	t.Parallel()
	members := make([]*member, 20)
	for i := range members {
		members[i] = &member{}
	}
	commits := grouped(t, func(t *testing.T, d *db.DB) {
		for _, m := range members {
			require.NoError(t, m.err)
			require.Equal(t, 1, m.runs)
		}
		require.EqualValues(t, 79, balance(t, d, "a"))
	}, members...)
	require.Equal(t, 1, commits)
}

// A group does not grow any more after 5 ms, so that the first member returns.
func TestAGroupCommitsInTime(t *testing.T) {
	t.Parallel()
	slow := &member{do: func(*sql.Tx) error { <-time.After(5 * time.Millisecond); return nil }}
	commits := grouped(t, func(t *testing.T, d *db.DB) {
		require.EqualValues(t, 96, balance(t, d, "a"))
	}, slow, &member{}, &member{})
	require.Equal(t, 2, commits)
}

// A transaction that is part of a group returns after the COMMIT.
func TestGroupedTransactionsReturnAfterTheCommit(t *testing.T) {
	t.Parallel()
	url := dbtest.SQLite(t)
	synctest.Test(t, func(t *testing.T) {
		d := dbtest.Open(t, url, accounts())
		first, second := &member{gate: make(chan struct{})}, &member{gate: make(chan struct{})}
		first.start(t, d)
		second.start(t, d)
		close(first.gate)
		synctest.Wait()
		require.Equal(t, 1, second.runs)
		select {
		case <-first.done:
			require.Fail(t, "it has returned before the commit")
		default:
		}
		require.EqualValues(t, 100, balance(t, d, "a"))
		close(second.gate)
		<-first.done
		<-second.done
		require.EqualValues(t, 98, balance(t, d, "a"))
	})
}

// One that fails takes only its own changes with it. The engine ends the whole transaction after
// some errors, which OR ROLLBACK provokes: then the others run again.
func TestATransactionThatFailsInAGroup(t *testing.T) {
	t.Parallel()
	rollback := func(tx *sql.Tx) error {
		_, err := tx.ExecContext(context.Background(), "INSERT OR ROLLBACK INTO accounts (id, name, balance) VALUES ('a', 'Ann', 0)")
		return err
	}
	for name, row := range map[string]struct {
		do    func(tx *sql.Tx) error
		want  string
		again bool
	}{
		"with an error":         {do: func(*sql.Tx) error { return errSpoilt }, want: "spoilt"},
		"with a panic":          {do: func(*sql.Tx) error { panic("spoilt") }},
		"with its goroutine":    {do: func(*sql.Tx) error { runtime.Goexit(); return nil }},
		"with a constraint":     {do: insertAnn, want: "UNIQUE"},
		"at the commit":         {do: insertOwner, want: "FOREIGN KEY", again: true},
		"with all others":       {do: rollback, want: "UNIQUE", again: true},
		"and ignores the error": {do: func(tx *sql.Tx) error { _ = rollback(tx); return nil }, want: "SQL logic error", again: true},
	} {
		for _, at := range []int{0, 1, 2} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				members := []*member{{}, {}, {}}
				members[at].do = row.do
				grouped(t, func(t *testing.T, d *db.DB) {
					for i, m := range members {
						switch {
						case i != at:
							require.NoError(t, m.err)
						case row.want != "":
							require.ErrorContains(t, m.err, row.want)
							require.NotErrorIs(t, m.err, db.ErrUnavailable)
						}
						if i < at {
							require.Equal(t, row.again, m.runs == 2)
						}
					}
					require.EqualValues(t, 97, balance(t, d, "a"))
					require.NoError(t, d.Tx(t.Context(), func(tx *sql.Tx) error { return add(t, tx, 1, "a") }), "the connection is of use")
				}, members...)
			})
		}
	}
}

// The error of a transaction is not a result of changes that are never committed.
func TestATransactionThatFailsBecauseOfUncommittedChanges(t *testing.T) {
	t.Parallel()
	rejected, seen := &member{do: insertOwner}, &member{}
	seen.do = func(tx *sql.Tx) error {
		var owners int
		if err := tx.QueryRowContext(context.Background(), "SELECT COUNT(*) FROM owners").Scan(&owners); err != nil || owners == 0 {
			return err
		}
		return errSpoilt
	}
	grouped(t, func(t *testing.T, d *db.DB) {
		require.ErrorContains(t, rejected.err, "FOREIGN KEY")
		require.NoError(t, seen.err)
		require.Equal(t, 2, seen.runs)
		require.EqualValues(t, 98, balance(t, d, "a"))
	}, rejected, seen)
}

// One that another member undid runs again, also if it has waited for longer than Tx repeats.
func TestATransactionThatIsUndoneAfterALongWait(t *testing.T) {
	t.Parallel()
	slow := &member{do: func(*sql.Tx) error { <-time.After(6 * time.Second); return nil }}
	undone, failing := &member{}, &member{do: func(tx *sql.Tx) error {
		_, err := tx.ExecContext(context.Background(), "INSERT OR ROLLBACK INTO accounts (id, name, balance) VALUES ('a', 'Ann', 0)")
		return err
	}}
	grouped(t, func(t *testing.T, d *db.DB) {
		require.NoError(t, undone.err)
		require.Equal(t, 2, undone.runs)
		require.EqualValues(t, 97, balance(t, d, "a"))
	}, slow, undone, failing)
}

// insertOwner violates a constraint that the engine checks at COMMIT.
func insertOwner(tx *sql.Tx) error {
	_, err := tx.ExecContext(context.Background(), "INSERT INTO owners (account) VALUES ('x')")
	return err
}

func insertAnn(tx *sql.Tx) error {
	_, err := tx.ExecContext(context.Background(), "INSERT INTO accounts (id, name, balance) VALUES ('c', 'Ann', 0)")
	return err
}

func TestAContextThatEndsBeforeItsTurn(t *testing.T) {
	t.Parallel()
	url := dbtest.SQLite(t)
	synctest.Test(t, func(t *testing.T) {
		d := dbtest.Open(t, url, accounts())
		ctx, cancel := context.WithCancelCause(t.Context())
		first, second, third := &member{gate: make(chan struct{})}, &member{ctx: ctx}, &member{}
		first.start(t, d)
		second.start(t, d)
		third.start(t, d)
		cancel(errSpoilt)
		<-second.done
		require.ErrorIs(t, second.err, errSpoilt)
		require.Zero(t, second.runs)
		close(first.gate)
		<-first.done
		<-third.done
		require.NoError(t, errors.Join(first.err, third.err))
		require.EqualValues(t, 98, balance(t, d, "a"))
	})
}

// One context ends in each turn: that of the member itself, or that of the next one, whose turn may
// come at the same time.
func TestContextsThatEndInAGroup(t *testing.T) {
	t.Parallel()
	for _, ends := range []int{0, 1} {
		for range 20 {
			members := make([]*member, 6)
			for i := range members {
				members[i] = &member{}
			}
			for i := 0; i < len(members); i += 2 {
				ctx, cancel := context.WithCancelCause(context.Background())
				members[i+ends].ctx = ctx
				members[i].do = func(*sql.Tx) error { cancel(errSpoilt); return nil }
			}
			grouped(t, func(t *testing.T, d *db.DB) {
				failed := 0
				for i, m := range members {
					if m.err != nil {
						require.ErrorIs(t, m.err, errSpoilt)
						require.NotErrorIs(t, m.err, db.ErrUnavailable)
						require.Equal(t, ends, i%2)
						failed++
					}
				}
				require.Equal(t, 3, failed)
				require.EqualValues(t, 96, balance(t, d, "a"))
			}, members...)
		}
	}
}

// The interrupt of a statement that writes ends the whole transaction of SQLite.
func TestAnInterruptedWriteInAGroup(t *testing.T) {
	t.Parallel()
	tries := 1
	for ; interruptedWrite(t) != 2; tries++ { // a group that is open for long takes no further member
		require.Less(t, tries, 20, "the first transaction never runs again")
	}
}

// interruptedWrite begins a transaction whose context ends during its write, while another one
// waits to commit. It returns how often that one ran.
func interruptedWrite(t *testing.T) (runs int) {
	d := dbtest.Open(t, dbtest.SQLite(t), accounts())
	entered, gate, errs := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		errs <- d.Tx(t.Context(), func(tx *sql.Tx) error {
			if runs++; runs == 1 {
				close(entered)
				<-gate
			}
			return add(t, tx, -1, "a")
		})
	}()
	go func() {
		for db.Waiting(d) == 0 {
			runtime.Gosched()
		}
		close(gate)
	}()
	<-entered
	err := d.Tx(t.Context(), func(tx *sql.Tx) error {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err := tx.ExecContext(ctx, `INSERT INTO accounts (id, name, balance)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT 'n' || i, 'n' || i, 0 FROM n`)
		return err
	})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, <-errs)
	require.EqualValues(t, 99, balance(t, d, "a"))
	var rows int
	require.NoError(t, d.Read().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM accounts").Scan(&rows))
	require.Equal(t, 2, rows)
	return runs
}

// The transactions that wait when the database is closed fail.
func TestCloseWhileTransactionsWait(t *testing.T) {
	t.Parallel()
	url := dbtest.SQLite(t)
	synctest.Test(t, func(t *testing.T) {
		d := dbtest.Open(t, url, accounts())
		first := &member{gate: make(chan struct{}), do: func(*sql.Tx) error { return errSpoilt }}
		waiting := []*member{{}, {}, {}}
		first.start(t, d)
		for _, m := range waiting {
			m.start(t, d)
		}
		require.NoError(t, d.Close())
		close(first.gate)
		<-first.done
		require.ErrorIs(t, first.err, errSpoilt)
		for _, m := range waiting {
			<-m.done
			require.ErrorIs(t, m.err, db.ErrUnavailable)
		}
	})
}
