package chat_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// A hub that renews its leases too late, because it is busy, does not end its own answers. Another
// hub may end them.
func TestALateHubKeepsItsAnswers(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	gate := make(chan struct{})
	s.deploy(modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("One"), modeltest.Gate(gate), modeltest.Text(" two"))))
	ada := s.ada()
	path, orphan := session(ada), session(ada)
	s.exec(`CREATE TRIGGER late AFTER UPDATE OF alive_until ON chat_runs BEGIN UPDATE chat_runs SET alive_until = 1 WHERE run_id = NEW.run_id; END`)
	busy := send(t, ada, path, object{"message": "hello"})
	busy.until("partial_message")
	until := func(n int) {
		require.Eventually(t, func() bool {
			var late int
			require.NoError(t, s.db.Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM chat_runs WHERE alive_until = 1`).Scan(&late))
			return late == n
		}, patience, 5*time.Millisecond)
	}
	until(1)
	s.orphan(orphan, "killed", 1)
	until(1) // the sweep has ended the orphan, whose lease had passed later
	close(gate)
	require.Equal(t, "completed", last(busy.rest()))
	answer := messages(ada, path)[1]
	require.Equal(t, "One two", answer["text"])
	require.NotContains(t, answer["usage"], "estimated")
}
