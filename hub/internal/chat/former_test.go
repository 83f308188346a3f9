package chat_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// The sessions of a hub that was killed are free when the next one has started on its SQLite file.
func TestRunsOfAFormerHubEndAtTheStart(t *testing.T) {
	t.Parallel()
	url := sqlite(t)
	first := open(t, url, quiet) // the next one removes it
	first.deploy(nil)
	path, another := session(first.ada()), session(first.ada())
	first.joins("killed")
	first.orphan(path, "killed")
	first.orphan(another, "killed")
	first.ada().Post(path+"/messages", object{"message": "too early"}).Error(http.StatusConflict, wire.Conflict)

	next := open(t, url, func(c *config) { c.alone = true })
	next.deploy(nil)
	require.Equal(t, "completed", last(say(t, next.ada(), path, "more")))
	require.Equal(t, "partial", messages(next.ada(), path)[1]["status"])
	require.Equal(t, "completed", last(say(t, next.ada(), another, "more")))
}

// A hub that was removed, because it was suspended or could not reach the database, joins again and
// continues its answers, unless another one has ended them.
func TestTheAnswersOfARemovedHubContinue(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(testing.TB) string{"postgres": postgres, "sqlite": sqlite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := database(t)
			short := func(c *config) { c.lease = 2 * time.Second }
			a := open(t, url, quiet, short)
			b := open(t, url, short, func(c *config) { c.Relay.SaveEvery = time.Second }) // it waits for 10 s
			gate := make(chan struct{})
			a.deploy(modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("One"), modeltest.Gate(gate), modeltest.Text(" two"))))
			b.endpoint.Store(a.endpoint.Load())
			ada := a.ada()
			path := session(ada)
			busy := send(t, ada, path, object{"message": "hello"})
			busy.until("partial_message")
			for range 3 {
				a.removes(a.store.HubID)
				require.Eventually(t, func() bool {
					return a.number(`SELECT COUNT(*) FROM hubs`) == 2
				}, patience, 5*time.Millisecond)
				b.ada().Post(path+"/messages", object{"message": "more"}).Error(http.StatusConflict, wire.Conflict)
			}
			a.removes(a.store.HubID)
			close(gate) // the end is stored when the hub has joined
			require.Equal(t, "completed", last(busy.rest()))
			answer := messages(ada, path)[1]
			require.Equal(t, "One two", answer["text"])
			require.NotContains(t, answer["usage"], "estimated")
		})
	}
}
