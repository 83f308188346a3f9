package chat_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// A partial answer that could not be stored is stored later, although it does not grow.
func TestAPartialAnswerThatCouldNotBeStored(t *testing.T) {
	t.Parallel()
	var log logtest.Buffer
	s := open(t, sqlite(t), func(c *config) { c.logger = slog.New(slog.NewTextHandler(&log, nil)) })
	s.exec(`CREATE TABLE refused (n INTEGER)`)
	s.exec(`INSERT INTO refused VALUES (1)`)
	s.exec(`CREATE TRIGGER refuse BEFORE UPDATE OF text ON chat_messages WHEN EXISTS (SELECT 1 FROM refused) BEGIN SELECT RAISE(ABORT, 'refused'); END`)
	s.deploy(endless(t))
	ada := s.ada()
	path := session(ada)
	answer := send(t, ada, path, object{"message": "hello"})
	answer.until("partial_message")
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "storing partial answers failed") }, patience, 10*time.Millisecond)
	require.Empty(t, messages(ada, path)[1]["text"])
	s.exec(`DELETE FROM refused`)
	require.Eventually(t, func() bool { return messages(ada, path)[1]["text"] == "Half" }, patience, 20*time.Millisecond)
	answer.cancel()
	eventually(t, ada, path)
}

// A transaction stores about 8 MiB of the answers in progress.
func TestPartialAnswersAreStoredInBatches(t *testing.T) {
	t.Parallel()
	s := open(t, postgres(t), quiet)
	s.exec(`CREATE TABLE refused AS SELECT 1`)
	s.exec(`CREATE TABLE writes (tx BIGINT)`)
	s.exec(`CREATE SEQUENCE tries`)
	s.exec(`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM nextval('tries');
		IF EXISTS (SELECT 1 FROM refused) THEN RAISE EXCEPTION 'refused' USING ERRCODE = 'check_violation'; END IF;
		INSERT INTO writes VALUES (txid_current()); RETURN NEW; END $$`)
	s.exec(`CREATE TRIGGER note BEFORE UPDATE OF text ON chat_messages FOR EACH ROW WHEN (NEW.status = 'partial') EXECUTE FUNCTION note()`)
	text := fmt.Sprintf(partial, strings.Repeat("x", 3<<20))
	s.serve(hostile(func(write func(string) bool, gone <-chan struct{}) {
		write(text)
		<-gone
	}))
	const answers = 4
	var all []*stream
	for range answers {
		answer := send(t, s.ada(), session(s.ada()), object{"message": "hello"})
		answer.until("partial_message")
		all = append(all, answer)
	}
	tries := func() int { return s.number(`SELECT last_value FROM tries`) }
	before := tries()
	require.Eventually(t, func() bool { return tries() > before+4 }, patience, 10*time.Millisecond) // all of them are due at once
	s.exec(`DELETE FROM refused`)
	require.Eventually(t, func() bool { return s.number(`SELECT COUNT(*) FROM writes`) >= answers }, patience, 10*time.Millisecond)
	require.Equal(t, 3, s.number(`SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM writes GROUP BY tx) AS of`))
	for _, answer := range all {
		answer.cancel()
	}
}

// Each part of an answer in progress is stored, and not only its text.
func TestPartsOfAPartialAnswerAreStored(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	for name, row := range map[string]struct {
		events string
		kinds  string
	}{
		"a text": {events("partial_message", object{"type": "partial_message", "partial": object{"type": "text", "text": "a"}}), "text"},
		"a text after another": {events("assistant", object{"message": object{"content": []any{json.RawMessage(`{"type":"text","text":"a"}`)}}}) +
			events("partial_message", object{"type": "partial_message", "partial": object{"type": "text", "text": "b"}}), "text text"},
		"a message":          {events("assistant", object{"message": object{"content": []any{object{"type": "tool_use", "id": "t"}}}}), "tool_use"},
		"a warning":          {events("system", object{"subtype": "warning", "message": "m"}), "warning"},
		"a result":           {events("tool_result", object{"result": object{"tool_use_id": "t"}}), "tool_result"},
		"that of a subagent": {events("tool_result", object{"parent_tool_use_id": "p", "result": object{"tool_use_id": "t"}}), "tool_result"},
	} {
		gate := make(chan struct{})
		s.serve(hostile(func(write func(string) bool, _ <-chan struct{}) {
			write(row.events)
			<-gate
			write(success)
		}))
		release := sync.OnceFunc(func() { close(gate) })
		t.Cleanup(release) // before the runtime ends
		ada := s.ada()
		path := session(ada)
		answer := send(t, ada, path, object{"message": "hello"})
		require.Eventually(t, func() bool {
			var kinds []string
			for _, block := range messages(ada, path)[1]["content"].([]any) {
				kinds = append(kinds, block.(object)["type"].(string))
			}
			return strings.Join(kinds, " ") == row.kinds
		}, patience, 10*time.Millisecond, name)
		require.Equal(t, "partial", messages(ada, path)[1]["status"])
		release()
		require.Equal(t, "completed", last(answer.rest()))
	}
}

// A run that a runtime has accepted is stored as started before it has any text: its message is
// not sent again.
func TestAStartedRunIsStored(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t), func(c *config) { c.Relay.SaveEvery = 0 }) // the default
	gate := make(chan struct{})
	s.serve(hostile(func(write func(string) bool, _ <-chan struct{}) {
		write(events("system", object{"subtype": "init", "session_id": "s"}))
		<-gate
		write(success)
	}))
	defer close(gate)
	answer := send(t, s.ada(), session(s.ada()), object{"message": "hello"})
	require.Eventually(t, func() bool {
		return s.number(`SELECT COUNT(*) FROM chat_messages WHERE role = 'assistant' AND status = 'partial' AND started`) == 1
	}, patience, 10*time.Millisecond)
	answer.cancel()
}

// Answers that end together while the database rejects writes are all stored when it accepts them,
// with the budgets that they have used up.
func TestAnswersThatEndInAnOutage(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	s := open(t, postgres(t), quiet)
	s.deploy(modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("Half"), modeltest.Gate(gate), modeltest.Text(".")))))
	ada := s.ada()
	s.limit(usage.OfUser, "id-ada", wire.BudgetRequest{Soft: new(1.0)})
	var answers []*stream
	for range 3 {
		answer := send(t, ada, session(ada), object{"message": "hello"})
		answer.until("partial_message")
		answers = append(answers, answer)
	}
	s.exec(`CREATE SEQUENCE refusals`)
	s.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM nextval('refusals'); RAISE EXCEPTION 'refused' USING ERRCODE = 'disk_full'; END $$`)
	s.exec(`CREATE TRIGGER refuse BEFORE UPDATE ON chat_messages FOR EACH ROW WHEN (NEW.status = 'completed') EXECUTE FUNCTION refuse()`)
	for range answers {
		gate <- struct{}{}
	}
	require.Eventually(t, func() bool { return s.number(`SELECT last_value FROM refusals`) >= 6 }, patience, 10*time.Millisecond)
	s.exec(`DROP TRIGGER refuse ON chat_messages`)
	for _, answer := range answers {
		events := answer.rest()
		require.Equal(t, "completed", last(events))
		require.Len(t, events[len(events)-2].data["budgets"], 1)
	}
}

// Answers that end at the same time share statements. One whose chat is deleted, and one whose run
// another hub has ended, change nothing for the others.
func TestAnswersThatEndTogether(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		const n = 45 // in parts of 32, 8, 4 and 1
		gate := make(chan struct{})
		s := open(t, url, quiet, func(c *config) {
			c.Relay.UserAnswers, c.Relay.SaveEvery = n, time.Hour // no tick detects that another hub has ended a run
		})
		var ends sync.WaitGroup
		ends.Add(n)
		s.serve(hostile(func(write func(string) bool, _ <-chan struct{}) {
			write(fmt.Sprintf(partial, "Half."))
			<-gate
			write(success)
			ends.Done()
		}))
		ada := s.ada()
		var paths []string
		var answers []*stream
		for range n {
			path := session(ada)
			answer := send(t, ada, path, object{"message": "hello"})
			answer.until("partial_message")
			paths, answers = append(paths, path), append(answers, answer)
		}
		id := func(i int) string { return paths[i][len(sessions)+1:] }
		require.NoError(t, s.db.Tx(t.Context(), func(tx *sql.Tx) error { // the ends wait for it
			_, err := tx.ExecContext(t.Context(), `UPDATE chat_sessions SET title = 'locked'`)
			require.NoError(t, err)
			_, err = tx.ExecContext(t.Context(), `DELETE FROM chat_sessions WHERE id = $1`, id(3))
			require.NoError(t, err)
			_, err = tx.ExecContext(t.Context(), `DELETE FROM chat_runs WHERE session_key = $1`, id(40))
			require.NoError(t, err)
			_, err = tx.ExecContext(t.Context(), `UPDATE chat_messages SET text = '' WHERE session_key = $1 AND role = 'assistant'`, id(40))
			require.NoError(t, err)
			close(gate)
			ends.Wait()
			return nil
		}))
		for i, answer := range answers {
			status := last(answer.rest())
			if i == 3 {
				ada.Get(paths[i]+"/messages").Error(http.StatusNotFound, wire.NotFound)
				continue
			}
			require.Equal(t, "completed", status)
			stored := messages(ada, paths[i])[1]
			require.Equal(t, "completed Half.", fmt.Sprint(stored["status"], " ", stored["text"]))
		}
		require.Zero(t, s.number(`SELECT COUNT(*) FROM chat_runs`))
		require.Equal(t, n, s.number(`SELECT SUM(runs) FROM usage_days WHERE slice = 'agent'`), "each run counts, also that of a deleted chat")
		require.Equal(t, (n-1)*(2*512+len("hello")+len("Half.")), s.number(`SELECT SUM(size) FROM chat_sessions`))
	}, series...)
}
