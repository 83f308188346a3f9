package store_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

const (
	patience  = time.Minute // on a busy machine
	leaseTime = 2 * time.Second
)

// hub returns a hub that has not joined.
func hub(t *testing.T, url string) *store.Store {
	t.Helper()
	return apitest.NewStore(t, dbtest.Open(t, url), store.Config{LeaseTime: leaseTime})
}

// joined returns a hub that is in the table until the test ends.
func joined(t *testing.T, url string) *store.Store {
	t.Helper()
	s := hub(t, url)
	require.NoError(t, s.Join(t.Context()))
	t.Cleanup(s.Leave)
	return s
}

func own(t *testing.T, s *store.Store) error {
	t.Helper()
	return s.DB.Tx(t.Context(), func(tx *sql.Tx) error { return s.Own(t.Context(), tx) })
}

// await returns when the number of hubs in the table is n, and each of all is among them.
func await(t *testing.T, n int, all ...*store.Store) {
	t.Helper()
	require.Eventually(t, func() bool {
		hubs, err := db.Values[string](t.Context(), all[0].Read(), "read", `SELECT id FROM hubs`)
		require.NoError(t, err)
		for _, s := range all {
			if err := own(t, s); err != nil {
				require.ErrorIs(t, err, store.ErrRemoved)
				return false
			}
		}
		return len(hubs) == n
	}, patience, 20*time.Millisecond)
}

func insertHub(t *testing.T, s *store.Store, id string) {
	t.Helper()
	require.NoError(t, db.Exec(t.Context(), s.DB.Write(), "insert", `INSERT INTO hubs (id, beat) VALUES ($1, 7)`, id))
}

// A hub that is silent is removed, and those that are alive are not. Rows of hubs in the table are
// not free.
func TestASilentHubIsRemoved(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		a := joined(t, url)
		b := joined(t, url)
		await(t, 2, a, b)
		insertHub(t, a, "killed")
		free := func(id string) bool {
			free, err := db.Value[bool](t.Context(), a.Read(), "read", `SELECT `+store.Free+` FROM (SELECT $1 AS hub_id) AS row_of`, id)
			require.NoError(t, err)
			return free
		}
		require.False(t, free("killed"))
		require.True(t, free("unknown"))
		await(t, 2, a, b)
		require.True(t, free("killed"))
		require.False(t, free(a.HubID))
		b.Leave()
		require.True(t, free(b.HubID))
		require.ErrorIs(t, own(t, b), store.ErrRemoved)
		require.NoError(t, own(t, a))
	}, store.Migrations, apitest.Audit())
}

// A hub that was removed changes nothing until it has joined again.
func TestARemovedHubJoinsAgain(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		s := joined(t, url)
		require.NoError(t, own(t, s))
		require.NoError(t, db.Exec(t.Context(), s.DB.Write(), "remove", `DELETE FROM hubs`))
		err := own(t, s)
		require.ErrorIs(t, err, store.ErrRemoved)
		require.True(t, db.Unavailable(err), "the caller tries again")
		await(t, 1, s)
		require.NoError(t, own(t, s))
	}, store.Migrations, apitest.Audit())
}

// The hub that starts on a SQLite file removes the former one immediately.
func TestTheNextHubOfAFile(t *testing.T) {
	t.Parallel()
	url := dbtest.SQLite(t, store.Migrations, apitest.Audit())
	former := hub(t, url)
	insertHub(t, former, former.HubID)
	require.NoError(t, own(t, former))
	next := joined(t, url)
	require.ErrorIs(t, own(t, former), store.ErrRemoved)
	require.NoError(t, own(t, next))
}

// No change of a hub is committed after the hub was removed, and a hub that makes one does not
// delay the beats of others.
func TestAChangeEndsBeforeTheRemoval(t *testing.T) {
	t.Parallel()
	url := dbtest.PostgreSQL(t, store.Migrations, apitest.Audit())
	frozen := hub(t, url)
	insertHub(t, frozen, frozen.HubID)
	other := joined(t, url)
	began := time.Now()
	require.NoError(t, frozen.DB.Tx(t.Context(), func(tx *sql.Tx) error {
		if err := frozen.Own(t.Context(), tx); err != nil {
			return err
		}
		for time.Since(began) < 2*leaseTime { // it sends statements, but no beat
			require.NoError(t, db.Exec(t.Context(), tx, "wait", `SELECT pg_sleep(0.05)`))
			n, err := db.Value[int](t.Context(), other.Read(), "count", `SELECT COUNT(*) FROM hubs`)
			require.NoError(t, err)
			require.Equal(t, 2, n)
		}
		return nil
	}))
	require.NoError(t, own(t, other))
	await(t, 1, other)
	require.ErrorIs(t, own(t, frozen), store.ErrRemoved)

	// PostgreSQL ends the change of a hub that is suspended in it.
	insertHub(t, frozen, frozen.HubID)
	err := frozen.DB.Tx(t.Context(), func(tx *sql.Tx) error {
		if err := frozen.Own(t.Context(), tx); err != nil {
			return err
		}
		await(t, 1, other)
		return nil
	})
	require.Error(t, err)
	require.ErrorIs(t, own(t, frozen), store.ErrRemoved)
}

// Hubs that could not reach the database for longer than the lease time do not remove each other.
func TestNoHubIsRemovedAfterAnOutage(t *testing.T) {
	t.Parallel()
	url := dbtest.PostgreSQL(t, store.Migrations, apitest.Audit())
	a := joined(t, url)
	joined(t, url)
	require.Eventually(t, func() bool { // both have seen each other
		n, err := db.Value[int](t.Context(), a.Read(), "count", `SELECT COUNT(*) FROM hubs WHERE beat > 1`)
		require.NoError(t, err)
		return n == 2
	}, patience, 20*time.Millisecond)
	require.NoError(t, db.Exec(t.Context(), a.DB.Write(), "watch", `CREATE TABLE removed (id TEXT);
		CREATE FUNCTION removed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO removed VALUES (OLD.id); RETURN OLD; END $$;
		CREATE TRIGGER removed AFTER DELETE ON hubs FOR EACH ROW EXECUTE FUNCTION removed()`))
	require.NoError(t, a.DB.Tx(t.Context(), func(tx *sql.Tx) error {
		if err := db.Exec(t.Context(), tx, "lock", `LOCK TABLE hubs IN ACCESS EXCLUSIVE MODE`); err != nil {
			return err
		}
		return db.Exec(t.Context(), tx, "wait", `SELECT pg_sleep($1)`, 2*leaseTime.Seconds())
	}))
	beat := func(aggregate string) int64 {
		n, err := db.Value[int64](t.Context(), a.Read(), "read beat", `SELECT `+aggregate+`(beat) FROM hubs`)
		require.NoError(t, err)
		return n
	}
	latest := beat("MAX")
	require.Eventually(t, func() bool { return beat("MIN") > latest }, patience, 20*time.Millisecond)
	n, err := db.Value[int](t.Context(), a.Read(), "count", `SELECT COUNT(*) FROM removed`)
	require.NoError(t, err)
	require.Zero(t, n)
}

// spawn starts a process with a hub on the database, and returns it with the id of its hub.
func spawn(t *testing.T, url string) (*os.Process, string) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "-test.run=^TestHubProcess$")
	cmd.Env = append(os.Environ(), "HUB_PROCESS_URL="+url)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	id, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return cmd.Process, id[:len(id)-1]
}

// TestHubProcess is the process of spawn.
func TestHubProcess(t *testing.T) {
	url := os.Getenv("HUB_PROCESS_URL")
	if url == "" {
		return
	}
	s := joined(t, url)
	_, err := os.Stdout.WriteString(s.HubID + "\n")
	require.NoError(t, err)
	select {} // until it is killed
}

// A process that is killed is removed. One that is suspended is removed too, and joins again when
// it continues. An observer that is suspended with it does not remove it.
func TestProcesses(t *testing.T) {
	t.Parallel()
	url := dbtest.PostgreSQL(t, store.Migrations, apitest.Audit())
	watcher := hub(t, url) // only reads
	in := func(id string) bool {
		found, err := db.Value[bool](t.Context(), watcher.Read(), "read", `SELECT EXISTS (SELECT 1 FROM hubs WHERE id = $1)`, id)
		require.NoError(t, err)
		return found
	}
	until := func(id string, want bool) {
		t.Helper()
		require.Eventually(t, func() bool { return in(id) == want }, patience, 20*time.Millisecond)
	}
	a, first := spawn(t, url)
	b, second := spawn(t, url)
	require.True(t, in(first) && in(second))

	require.NoError(t, a.Signal(syscall.SIGSTOP))
	until(first, false)
	require.NoError(t, a.Signal(syscall.SIGCONT))
	until(first, true)

	for _, p := range []*os.Process{a, b} {
		require.NoError(t, p.Signal(syscall.SIGSTOP))
	}
	require.NoError(t, db.Exec(t.Context(), watcher.DB.Write(), "wait", `SELECT pg_sleep($1)`, 2*leaseTime.Seconds()))
	for _, p := range []*os.Process{a, b} {
		require.NoError(t, p.Signal(syscall.SIGCONT))
	}
	beats := func() int64 {
		n, err := db.Value[int64](t.Context(), watcher.Read(), "read", `SELECT SUM(beat) FROM hubs`)
		require.NoError(t, err)
		return n
	}
	for before := beats(); beats() < before+8; {
		require.True(t, in(first) && in(second))
	}
	require.NoError(t, a.Kill())
	until(first, false)
	require.True(t, in(second))
	require.True(t, errors.Is(own(t, watcher), store.ErrRemoved))
}
