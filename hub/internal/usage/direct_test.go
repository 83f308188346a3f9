package usage_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
)

const patience = time.Minute // on a busy machine

// tokens is the report of a run that used 15 tokens.
const tokens = `{"model":"m","usage":{"input_tokens":10,"output_tokens":5}}`

// limit gives the agent helper a hard limit of n reserves of 15 tokens.
func (s *server) limit(n int) {
	s.t.Helper()
	_, err := s.service.SetBudget(s.t.Context(), s.As("acme", "max", rbac.Admin).Caller, usage.OfAgent, "helper",
		wire.BudgetRequest{Period: usage.PerMonth, Unit: usage.InTokens, Hard: new(float64(15 * n)), Reserve: new(15.0)})
	require.NoError(s.t, err)
}

// start begins a run of the agent helper, or returns nil if it is rejected.
func (s *server) start() *usage.Direct {
	s.t.Helper()
	d := s.service.NewDirect("acme", "helper")
	if err := d.Begin(s.t.Context()); err != nil {
		require.ErrorIs(s.t, err, wire.RateLimited)
		return nil
	}
	return d
}

// counted returns the runs and the tokens of all agents.
func (s *server) counted() (runs, sum int64) {
	s.t.Helper()
	require.NoError(s.t, s.store.Read().QueryRowContext(s.t.Context(), `SELECT COALESCE(SUM(runs), 0), COALESCE(SUM(input_tokens + output_tokens), 0)
		FROM usage_days WHERE slice = 'agent'`).Scan(&runs, &sum))
	return runs, sum
}

// estimates returns the number of estimates of all agents.
func (s *server) estimates() (n int64) {
	s.t.Helper()
	require.NoError(s.t, s.store.Read().QueryRowContext(s.t.Context(), `SELECT COALESCE(SUM(estimates), 0) FROM usage_weeks WHERE slice = 'agent'`).Scan(&n))
	return n
}

// reserves returns the number of stored reserves.
func (s *server) reserves() (n int) {
	s.t.Helper()
	require.NoError(s.t, s.store.Read().QueryRowContext(s.t.Context(), `SELECT COUNT(*) FROM usage_reserves`).Scan(&n))
	return n
}

// settle settles the runs of the hub until the test ends or stop is called.
func (s *server) settle() (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.service.Settle(ctx) })
	stop = func() { cancel(); running.Wait() }
	s.t.Cleanup(stop)
	return stop
}

// hubs serves two hubs on one database.
func hubs(t *testing.T, url string) (a, b *server) {
	t.Helper()
	return open(t, url, nil), open(t, url, nil)
}

// Callers that begin runs in two hubs until the budget is used up use exactly the budget, if each
// run uses its reserve: there is no moment in which neither the reserve nor the tokens count.
func TestConcurrentDirectRunsUseExactlyTheBudget(t *testing.T) {
	t.Parallel()
	const most = 40
	dbtest.Each(t, func(t *testing.T, url string) {
		a, b := hubs(t, url)
		a.limit(most)
		var ended atomic.Int64
		var all sync.WaitGroup
		for i := range 6 {
			s := []*server{a, b}[i%2]
			all.Go(func() {
				for ended.Load() < most {
					d := s.service.NewDirect("acme", "helper")
					if err := d.Begin(t.Context()); err != nil {
						if !errors.Is(err, wire.RateLimited) {
							t.Error(err)
							return
						}
						continue
					}
					d.End(t.Context(), true, tokens)
					ended.Add(1)
				}
			})
		}
		all.Wait()
		runs, sum := a.counted()
		require.Equal(t, []int64{most, most * 15}, []int64{runs, sum})
		require.Nil(t, a.start())
		require.Zero(t, a.reserves())
	}, series...)
}

// A begin that waits for another one applies the limit of the end of this wait.
func TestALimitThatIsLoweredWhileABeginWaits(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		a, b := hubs(t, url)
		a.limit(1)
		begun := make(chan error, 1)
		require.NoError(t, a.store.DB.Tx(t.Context(), func(tx *sql.Tx) error { // excludes others on SQLite
			require.NoError(t, a.service.Lock(t.Context(), tx, usage.CountedRun{TenantID: "acme", AgentName: "helper"}, "another user"))
			go func() {
				begun <- b.service.NewDirect("acme", "helper").Begin(t.Context())
			}()
			if a.store.DB.Engine() == db.PostgreSQL {
				a.awaitLock()
			}
			return db.Exec(t.Context(), tx, "lower limit", `UPDATE usage_budgets SET hard = 14`)
		}))
		select {
		case err := <-begun:
			require.ErrorIs(t, err, wire.RateLimited)
		case <-time.After(patience):
			require.Fail(t, "the begin waits")
		}
		require.Zero(t, a.reserves())
	}, series...)
}

// awaitLock returns when a statement waits for a lock of PostgreSQL.
func (s *server) awaitLock() {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		waits, err := db.Value[bool](s.t.Context(), s.store.Read(), "read",
			`SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`)
		require.NoError(s.t, err)
		return waits
	}, patience, 20*time.Millisecond)
}

// The runs of a hub that was killed count their reserves, marked as estimated, and there is no
// moment in which they do not. A hub that was only suspended replaces these counts at the ends of
// its runs.
func TestReservesOfAHubThatWasKilled(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		a, b := hubs(t, url)
		a.limit(3)
		first, second := a.start(), a.start()
		require.NotNil(t, b.start())
		require.Nil(t, b.start())
		a.store.Leave()
		require.Nil(t, b.start(), "the reserves count until the runs do")
		b.settle()
		require.Eventually(t, func() bool { return b.reserves() == 1 }, patience, 20*time.Millisecond)
		runs, sum := b.counted()
		require.Equal(t, []int64{2, 30, 2}, []int64{runs, sum, b.estimates()})
		require.Nil(t, b.start())

		first.End(t.Context(), true, `{"model":"m","usage":{"input_tokens":1,"output_tokens":1},"others":{"small":{"output_tokens":1}}}`)
		runs, sum = b.counted()
		require.Equal(t, []int64{2, 17, 1}, []int64{runs, sum, b.estimates()})
		second.End(t.Context(), false, "")
		first.End(t.Context(), true, "")
		runs, sum = b.counted()
		require.Equal(t, []int64{2, 17, 1}, []int64{runs, sum, b.estimates()}, "a report is not replaced")
	}, series...)
}

// The reserves of a hub that is in the table count as long as their runs are in progress, whatever
// the clocks are, and those of another one do not.
func TestReservesOfAHubThatIsAlive(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		a, b := hubs(t, url)
		a.limit(2)
		long := a.start()
		require.NotNil(t, b.start())
		b.store.Leave()
		a.settle()
		a.set("2026-03-12T12:00:00Z")
		require.Eventually(t, func() bool { return a.reserves() == 1 }, patience, 20*time.Millisecond)
		a.set("2026-03-08T12:00:00Z")
		require.ErrorIs(t, b.service.NewDirect("acme", "helper").Begin(t.Context()), db.ErrUnavailable)
		require.Equal(t, 1, a.reserves())
		long.End(t.Context(), false, "")
		require.NotNil(t, a.start())
		runs, _ := a.counted()
		require.EqualValues(t, 1, runs, "no runtime has accepted the long run")
	}, series...)
}

// A run without a reserve counts once, although its end cannot be stored at first.
func TestADirectRunWithoutALimitIsCountedLater(t *testing.T) {
	t.Parallel()
	s := open(t, dbtest.SQLite(t, series...), nil)
	d := s.start()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	d.End(gone, true, tokens)
	runs, _ := s.counted()
	require.Zero(t, runs)
	s.settle()
	require.Eventually(t, func() bool { runs, _ := s.counted(); return runs == 1 }, patience, 20*time.Millisecond)
	runs, sum := s.counted()
	require.Equal(t, []int64{1, 15}, []int64{runs, sum})
}

// The response of a run ends after the run is counted, also if the database is unavailable for a
// while.
func TestTheEndOfADirectRunWaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	s := open(t, dbtest.PostgreSQL(t, series...), nil)
	// The value of a sequence remains after a rollback.
	require.NoError(t, db.Exec(t.Context(), s.store.DB.Write(), "fail", `CREATE SEQUENCE attempts;
		CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('attempts'); RAISE EXCEPTION USING ERRCODE = '57P01'; END $$;
		CREATE TRIGGER fail BEFORE INSERT ON usage_runs EXECUTE FUNCTION fail()`))
	ended := make(chan struct{})
	d := s.start()
	go func() {
		defer close(ended)
		d.End(t.Context(), true, tokens)
	}()
	require.Eventually(t, func() bool {
		failed, err := db.Value[bool](t.Context(), s.store.Read(), "read", `SELECT is_called FROM attempts`)
		require.NoError(t, err)
		return failed
	}, patience, 20*time.Millisecond)
	require.NoError(t, db.Exec(t.Context(), s.store.DB.Write(), "succeed", `DROP TRIGGER fail ON usage_runs`))
	<-ended
	runs, sum := s.counted()
	require.Equal(t, []int64{1, 15}, []int64{runs, sum})
}

// A run counts once, and its reserve is released, although its end cannot be stored at first.
func TestTheEndOfADirectRunIsStoredLater(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		a, b := hubs(t, url)
		a.limit(1)
		d := a.start()
		require.NoError(t, b.store.DB.Tx(t.Context(), func(tx *sql.Tx) error { // excludes others on SQLite
			if b.store.DB.Engine() == db.PostgreSQL {
				require.NoError(t, db.Exec(t.Context(), tx, "lock", `LOCK TABLE usage_runs`))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			d.End(ctx, true, tokens)
			return nil
		}))
		require.Nil(t, b.start(), "the run has its reserve")
		stop := a.settle()
		require.Eventually(t, func() bool { return a.reserves() == 0 }, patience, 20*time.Millisecond)
		runs, sum := a.counted()
		require.Equal(t, []int64{1, 15}, []int64{runs, sum})
		require.Nil(t, b.start(), "the run has used the budget")
		stop()
	}, series...)
}

// A hub that stops stores the ends that it could not store before.
func TestTheEndOfADirectRunIsStoredAtTheEndOfTheHub(t *testing.T) {
	t.Parallel()
	s := open(t, dbtest.SQLite(t, series...), nil)
	s.limit(1)
	d := s.start()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	d.End(gone, true, tokens)
	require.Equal(t, 1, s.reserves())
	s.service.Settle(gone)
	require.Zero(t, s.reserves())
	runs, sum := s.counted()
	require.Equal(t, []int64{1, 15}, []int64{runs, sum})
}

// Counts that the database rejects do not hold a reserve forever.
func TestCountsThatAreRejected(t *testing.T) {
	t.Parallel()
	s := open(t, dbtest.SQLite(t, series...), nil)
	s.limit(1)
	d := s.start()
	require.NoError(t, db.Exec(t.Context(), s.store.DB.Write(), "reject",
		`CREATE TRIGGER reject BEFORE INSERT ON usage_runs BEGIN SELECT RAISE(ABORT, 'rejected'); END`))
	d.End(t.Context(), true, tokens)
	require.Nil(t, s.start())
	s.settle()
	require.Eventually(t, func() bool { return s.reserves() == 0 }, patience, 20*time.Millisecond)
	require.NotNil(t, s.start())
}

// Counts that the database rejects do not delay those that are stored with them.
func TestCountsThatAreRejectedWithOthers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		s := open(t, url, nil)
		s.limit(3)
		require.NoError(t, db.Exec(t.Context(), s.store.DB.Write(), "reject", `CREATE UNIQUE INDEX reject ON usage_runs (model)`))
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for _, report := range []string{tokens, tokens, `{"model":"other","usage":{"output_tokens":5}}`} {
			s.start().End(gone, true, report)
		}
		require.Equal(t, 3, s.reserves())
		s.settle()
		require.Eventually(t, func() bool { return s.reserves() == 0 }, patience, 20*time.Millisecond)
		runs, sum := s.counted()
		require.Equal(t, []int64{2, 20}, []int64{runs, sum})
	}, series...)
}

// While the database takes no ends of runs, their number is bounded. All of them are counted.
func TestEndsThatWaitForTheDatabaseAreBounded(t *testing.T) {
	t.Parallel()
	const most = 10_000
	s := open(t, dbtest.SQLite(t, series...), nil)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range most {
		s.start().End(gone, true, tokens)
	}
	require.ErrorIs(t, s.service.NewDirect("acme", "helper").Begin(t.Context()), wire.Unavailable)
	s.settle()
	require.Eventually(t, func() bool { runs, _ := s.counted(); return runs == most }, patience, 20*time.Millisecond)
	require.NotNil(t, s.start())
}
