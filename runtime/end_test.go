package runtime_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/run"
	"github.com/seed93082962/agenthost/runtime/session"
)

// watched is a store that calls a function while it closes a session.
type watched struct {
	session.Store
	closing func() error
}

type watchedSession struct {
	session.Session
	closing func() error
}

func (w watched) Open(ctx context.Context, agentID, id string) (session.Session, error) {
	s, err := w.Store.Open(ctx, agentID, id)
	return watchedSession{s, w.closing}, err
}

func (s watchedSession) Close() error {
	err := s.closing()
	if closeErr := s.Session.Close(); err == nil {
		err = closeErr
	}
	return err
}

// The response, every replica and the conversation have the same end of a run, also if it is
// cancelled, or its disk is full, while the conversation is closed.
func TestTheEndOfARunIsDecidedOnce(t *testing.T) {
	const id = "4a6f1b2c-3d4e-4f50-a6b7-c8d9e0f1a2b3"
	done := modeltest.Stream(modeltest.Text("Done."))
	broken := modeltest.Status(http.StatusInternalServerError)
	for name, row := range map[string]struct {
		shared bool
		reply  modeltest.Reply
		full   bool
		status int
		end    string // of the run
		state  string // in the conversation
	}{
		"completed":               {false, done, false, http.StatusOK, "completed", "success"},
		"completed with replicas": {true, done, false, http.StatusOK, "completed", "success"},
		"failed":                  {false, broken, false, http.StatusBadGateway, "failed", "error"},
		"full":                    {false, done, true, http.StatusBadGateway, "failed", "success"},
		"full with replicas":      {true, done, true, http.StatusBadGateway, "failed", "success"},
	} {
		t.Run(name, func(t *testing.T) {
			up := modeltest.Start(t, modeltest.Anthropic, row.reply)
			bus := run.Bus(nil)
			if row.shared {
				bus = run.NewMemoryBus()
			}
			connect := func(c *runtime.Config) { c.Bus = bus }
			var during []response
			var one *bench
			two := serve(t, up, connect)
			one = serve(t, up, func(c *runtime.Config) {
				connect(c)
				c.Sessions = watched{session.NewMemory(session.MemoryConfig{}), func() error {
					during = append(during, one.cancel(t, id), two.cancel(t, id))
					if row.full {
						return errFilled
					}
					return nil
				}}
			})
			res, body := one.blocking(t, `{"message":"hello","runId":"`+id+`"}`)
			require.Equal(t, row.status, res.status, res.body)
			require.EqualValues(t, row.end, body.State)
			for i, res := range append(during, one.cancel(t, id)) {
				if i == 1 && !row.shared {
					require.Equal(t, http.StatusNotFound, res.status)
					continue
				}
				require.Equal(t, http.StatusConflict, res.status, res.body)
			}
			after := one
			if row.shared {
				after = two
			}
			require.JSONEq(t, `{"runId":"`+id+`","state":"`+row.end+`"}`, after.cancel(t, id).body)
			all := transcriptOf(t, one, body.SessionID)
			require.Contains(t, string(all[len(all)-1].Event), `"subtype":"`+row.state+`"`)
		})
	}
}

// At every replica, a cancelled run is cancelling while its conversation is closed.
func TestACancelledRunEndsAfterItsConversation(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("One"), modeltest.Hang()))
	bus := run.NewMemoryBus()
	var during []response
	var one *bench
	var id string
	two := serve(t, up, func(c *runtime.Config) { c.Bus = bus })
	one = serve(t, up, func(c *runtime.Config) {
		c.Bus = bus
		c.Sessions = watched{session.NewMemory(session.MemoryConfig{}), func() error {
			during = append(during, one.cancel(t, id), two.cancel(t, id))
			return errFilled
		}}
	})
	s := one.open(t.Context(), t, `{"message":"hello"}`)
	id = s.until("system").data["runId"].(string)
	s.until("partial_message")
	require.Equal(t, http.StatusAccepted, two.cancel(t, id).status)
	require.Equal(t, []string{"cancelled", "done"}, names(s.rest()))
	require.Len(t, during, 2)
	for i, res := range append(during, one.cancel(t, id), two.cancel(t, id)) {
		state := "cancelled"
		if i < len(during) {
			state = "cancelling"
		}
		require.Equal(t, http.StatusAccepted, res.status)
		require.JSONEq(t, `{"runId":"`+id+`","state":"`+state+`","reason":"client_request"}`, res.body)
	}
}
