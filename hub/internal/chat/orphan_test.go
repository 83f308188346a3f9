package chat_test

import (
	"context"
	"database/sql"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/logtest"
)

// orphanWithText stores an answer in progress that no hub relays, and that has a text.
func (s *server) orphanWithText(path string) {
	s.t.Helper()
	s.orphan(path, "killed")
	s.exec(`UPDATE chat_messages SET text = 'Half an answer', content = '[]' WHERE status = 'partial' AND run_id = $1`, path[len(sessions)+1:])
}

// The text of an answer whose hub was killed counts for the size of the session, whatever ends the
// run.
func TestTheSizeOfAnAnswerWhoseHubWasKilled(t *testing.T) {
	t.Parallel()
	cancel := func(s *server, path string) { s.ada().Post(path+"/cancel", nil).Want(http.StatusAccepted) }
	for name, row := range map[string]struct {
		every time.Duration // SaveEvery; the sweep does not run in an hour
		end   func(s *server, path string)
	}{
		"a cancel":  {time.Hour, cancel},
		"a message": {time.Hour, func(s *server, path string) { require.Equal(s.t, "completed", last(say(s.t, s.ada(), path, "more"))) }},
		"the sweep": {10 * time.Millisecond, func(s *server, _ string) {
			require.Eventually(s.t, func() bool { return s.number(`SELECT COUNT(*) FROM chat_runs`) == 0 }, patience, 10*time.Millisecond)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, sqlite(t), func(c *config) { c.Relay.SaveEvery = row.every })
			s.deploy(nil)
			path := session(s.ada())
			s.orphanWithText(path)
			row.end(s, path)
			require.Zero(t, s.number(`SELECT COUNT(*) FROM chat_runs`))
			require.Equal(t, "Half an answer", messages(s.ada(), path)[1]["text"])
			s.sizes(s.stored()...)
		})
	}
}

// A run that this hub no longer relays ends immediately when it is cancelled.
func TestAnOrphanOfTheHubItself(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t), func(c *config) { c.Relay.SaveEvery = time.Hour })
	s.deploy(endless(t))
	busy := send(t, s.ada(), session(s.ada()), object{"message": "hello"})
	busy.until("partial_message")
	path := session(s.ada())
	s.orphan(path, s.store.HubID)
	s.ada().Post(path+"/cancel", nil).Want(http.StatusAccepted)
	require.Equal(t, "cancelled", messages(s.ada(), path)[1]["status"])
	busy.cancel()
}

// A run that another hub ends at the same time ends once. The session is locked before the run, as
// by all other transactions.
func TestARunThatAnotherHubEnds(t *testing.T) {
	t.Parallel()
	s := open(t, postgres(t), func(c *config) { c.Relay.SaveEvery = 10 * time.Millisecond })
	s.deploy(nil)
	paths := []string{session(s.ada()), session(s.ada())}
	slices.Sort(paths) // the order in which the sweep ends the runs
	s.joins("killed")
	for _, path := range paths {
		s.orphanWithText(path)
	}
	first := paths[0][len(sessions)+1:]
	require.NoError(t, s.db.Tx(t.Context(), func(tx *sql.Tx) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		err := db.Exec(ctx, tx, "lock", `UPDATE chat_sessions SET updated_at = updated_at WHERE id = $1`, first)
		if err != nil {
			return err
		}
		s.removes("killed")
		s.awaitLock()
		if err := db.Exec(ctx, tx, "lock run", `SELECT 1 FROM chat_runs WHERE run_id = $1 FOR UPDATE NOWAIT`, first); err != nil {
			return err
		}
		if err := db.Exec(ctx, tx, "end run", `DELETE FROM chat_runs WHERE run_id = $1`, first); err != nil {
			return err
		}
		return db.Exec(ctx, tx, "count", `UPDATE chat_sessions SET size = size + 16 WHERE id = $1`, first)
	}))
	require.Eventually(t, func() bool { return s.number(`SELECT COUNT(*) FROM chat_runs`) == 0 }, patience, 10*time.Millisecond)
	s.sizes(s.stored()...)
}

// A hub that was removed has some time to join again: the first sweep that sees a run of it does
// not end the run.
func TestTheFirstSweepEndsNoRun(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t), func(c *config) { c.Relay.SaveEvery = time.Hour })
	s.deploy(nil)
	deleted, path := session(s.ada()), session(s.ada())
	say(t, s.ada(), deleted, "hello")
	s.orphan(path, "killed")
	s.ada().Delete(deleted).Want(http.StatusNoContent) // for its transcript, a sweep begins
	require.Eventually(t, func() bool { return s.transcripts() == 0 }, patience, 10*time.Millisecond)
	require.Equal(t, 1, s.number(`SELECT COUNT(*) FROM chat_runs`))
}

// A hub that could not end the runs of another one tries again.
func TestOrphansThatCouldNotBeEnded(t *testing.T) {
	t.Parallel()
	var log logtest.Buffer
	s := open(t, sqlite(t), func(c *config) { c.logger = slog.New(slog.NewTextHandler(&log, nil)) })
	s.exec(`CREATE TRIGGER refuse BEFORE DELETE ON chat_runs BEGIN SELECT RAISE(ABORT, 'refused'); END`)
	s.orphan(session(s.ada()), "killed")
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "ending the answers of other hubs failed") }, patience, 10*time.Millisecond)
	s.exec(`DROP TRIGGER refuse`)
	require.Eventually(t, func() bool { return s.number(`SELECT COUNT(*) FROM chat_runs`) == 0 }, patience, 20*time.Millisecond)
}
