package chat_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// hanging is a model whose first response never ends. The others are complete.
func hanging(t *testing.T) *modeltest.Upstream {
	return modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("Half an "), modeltest.Text("answer"), modeltest.Hang()),
		modeltest.Repeat(modeltest.Stream(modeltest.Text("More."))))
}

func TestAClientThatDisconnectsCancelsTheRun(t *testing.T) {
	var up *modeltest.Upstream
	start := func(t *testing.T) *modeltest.Upstream { up = hanging(t); return up }
	with(t, start, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		answer := send(t, ada, path, object{"message": "hello"})
		answer.until("partial_message")
		answer.until("partial_message")
		answer.cancel()
		<-up.Await(t, 1).Closed() // the model is no longer called
		last := eventually(t, ada, path)
		require.Equal(t, "Half an answer", last["text"])
		require.Equal(t, []any{object{"type": "text", "text": "Half an answer"}}, last["content"])
		require.NotContains(t, last, "error")
		say(t, ada, path, "go on")
		require.Equal(t, "completed", messages(ada, path)[3]["status"])
	})
}

func TestTheOwnerCancelsAnAnswer(t *testing.T) {
	with(t, hanging, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		ada.Post(path+"/cancel", nil).Error(http.StatusConflict, wire.Conflict)
		answer := send(t, ada, path, object{"message": "hello"})
		id := answer.until("system").data["runId"]
		answer.until("partial_message")
		s.As("acme", "max", "admin").Post(path+"/cancel", nil).Error(http.StatusNotFound, wire.NotFound)
		require.Equal(t, object{"runId": id, "state": "cancelling"}, ada.Post(path+"/cancel", nil).Want(http.StatusAccepted))
		require.Equal(t, "client_request", answer.until("cancelled").data["reason"])
		rest := answer.rest()
		require.Equal(t, []string{"hub", "done"}, names(rest))
		require.Equal(t, "cancelled", rest[0].data["status"])
		require.Equal(t, "cancelled", messages(ada, path)[1]["status"])
		ada.Post(path+"/cancel", nil).Error(http.StatusConflict, wire.Conflict)
	})
}

// replicas runs a test with two hubs on one database and one runtime.
func replicas(t *testing.T, test func(t *testing.T, a, b *server)) {
	t.Helper()
	t.Parallel()
	url := postgres(t)
	a, b := open(t, url), open(t, url)
	a.deploy(hanging(t))
	b.endpoint.Store(a.endpoint.Load())
	test(t, a, b)
}

func TestAnotherReplicaCancelsAnAnswer(t *testing.T) {
	for name, reaches := range map[string]bool{"through the runtime": true, "without the runtime": false} {
		t.Run(name, func(t *testing.T) {
			replicas(t, func(t *testing.T, a, b *server) {
				path := session(a.ada())
				answer := send(t, a.ada(), path, object{"message": "hello"})
				answer.until("partial_message")
				b.ada().Post(path+"/messages", object{"message": "another"}).Error(http.StatusConflict, wire.Conflict)
				if !reaches {
					b.endpoint.Store(&deployment.Endpoint{URL: "http://127.0.0.1:1", AgentID: "helper"})
				}
				b.ada().Post(path+"/cancel", nil).Want(http.StatusAccepted)
				answer.until("cancelled")
				require.Equal(t, []string{"hub", "done"}, names(answer.rest()))
				require.Equal(t, "cancelled", messages(b.ada(), path)[1]["status"])
			})
		})
	}
}

// The text of an answer is stored while it arrives. A hub that stops renewing its leases loses its
// sessions, and an answer in progress elsewhere is not touched.
func TestAHubThatWasKilled(t *testing.T) {
	replicas(t, func(t *testing.T, a, b *server) {
		ada := a.ada()
		path := session(ada)
		answer := send(t, ada, path, object{"message": "hello"})
		answer.until("partial_message")
		require.Eventually(t, func() bool { return messages(b.ada(), path)[1]["text"] == "Half an answer" }, patience, 20*time.Millisecond)
		stored := messages(b.ada(), path)
		require.Equal(t, "hello", stored[0]["text"])
		require.Equal(t, "partial", stored[1]["status"])
		require.Equal(t, []any{object{"type": "text", "text": "Half an answer"}}, stored[1]["content"])

		c := open(t, sqlite(t)) // another start sweeps nothing
		require.NoError(t, c.service.Close())
		b.ada().Post(path+"/messages", object{"message": "more"}).Error(http.StatusConflict, wire.Conflict)
		_, err := a.db.Write().ExecContext(t.Context(), `UPDATE chat_runs SET hub_id = 'killed'`)
		require.NoError(t, err)
		say(t, b.ada(), path, "more")
		rest := answer.rest() // the first hub was only suspended
		require.NotContains(t, names(rest), "hub", "it stores nothing")
		require.Equal(t, "done", rest[len(rest)-1].name)
		all := messages(ada, path)
		require.Len(t, all, 4)
		require.Equal(t, true, all[1]["usage"].(object)["estimated"])
		delete(all[1], "usage")
		require.Equal(t, stored[1], all[1])
		require.Equal(t, "completed", all[3]["status"])
	})
}

func TestDeletingASessionCancelsItsAnswer(t *testing.T) {
	with(t, hanging, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		answer := send(t, ada, path, object{"message": "hello"})
		answer.until("partial_message")
		ada.Delete(path).Want(http.StatusNoContent)
		rest := names(answer.rest())
		require.Equal(t, "done", rest[len(rest)-1])
		require.NotContains(t, rest, "hub", "there is nothing to store")
	})
}

func TestCloseCancelsAnswers(t *testing.T) {
	with(t, hanging, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		answer := send(t, ada, path, object{"message": "hello"})
		answer.until("partial_message")
		require.NoError(t, s.service.Close())
		require.Equal(t, "shutdown", answer.until("cancelled").data["reason"])
		require.Equal(t, []string{"hub", "done"}, names(answer.rest()))
		require.Equal(t, "cancelled", messages(ada, path)[1]["status"])
		ada.Post(path+"/messages", object{"message": "more"}).Error(http.StatusServiceUnavailable, wire.Unavailable)
	})
}

// A program that reads no event ends the answer with Close.
func TestSendWithoutHTTP(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		ada := s.ada()
		created, err := s.service.CreateSession(t.Context(), ada.Caller, "helper", bodies.ChatSessionRequest{})
		require.NoError(t, err)
		answer, _, err := s.service.Send(t.Context(), ada.Caller, "helper", created.ID, wire.ChatMessageRequest{Message: "hello"})
		require.NoError(t, err)
		answer.Close()
		answer.Close()
		answer, _, err = s.service.Send(t.Context(), ada.Caller, "helper", created.ID, wire.ChatMessageRequest{Message: "hello"})
		require.NoError(t, err)
		rec := httptest.NewRecorder()
		require.NoError(t, answer.Serve(rec))
		require.Contains(t, rec.Body.String(), "event: done")
		answer.Close()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, err = s.service.Send(ctx, ada.Caller, "helper", created.ID, wire.ChatMessageRequest{Message: "hello"})
		require.ErrorIs(t, err, context.Canceled)
		all := messages(ada, sessions+"/"+created.ID)
		require.Len(t, all, 4)
		require.Equal(t, "cancelled", all[1]["status"])
		require.Equal(t, "completed", all[3]["status"])
	})
}

// What ends the access of a caller may also stop the runtime: the answer is then cancelled, and has
// not failed. Any other error of the check does not count.
func TestAnAccessThatEndsWithTheRuntime(t *testing.T) {
	for name, row := range map[string]struct {
		denied error
		status string
	}{
		"a code":           {wire.Unauthenticated, "cancelled"},
		"an error with it": {&wire.Error{Code: wire.Forbidden}, "cancelled"},
		"another error":    {errors.New("the check fails"), "failed"},
		"none":             {nil, "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			with(t, nil, func(t *testing.T, s *server) {
				var ended atomic.Bool
				s.serve(hostile(func(write func(string) bool, _ <-chan struct{}) {
					write(fmt.Sprintf(partial, "Half."))
					ended.Store(true)
				}))
				ctx := db.WithCheck(t.Context(), func(context.Context, *sql.Tx) error {
					if ended.Load() {
						return row.denied
					}
					return nil
				})
				ada := s.ada()
				path := session(ada)
				answer, _, err := s.service.Send(ctx, ada.Caller, "helper", path[len(sessions)+1:], wire.ChatMessageRequest{Message: "hello"})
				require.NoError(t, err)
				require.NoError(t, answer.Serve(httptest.NewRecorder()))
				require.Equal(t, row.status, messages(ada, path)[1]["status"])
			})
		})
	}
}

// A shutdown waits no longer than its context for answers that cannot be stored.
func TestAShutdownWithALimit(t *testing.T) {
	with(t, hanging, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		answer := send(t, ada, path, object{"message": "hello"})
		answer.until("partial_message")
		require.NoError(t, s.db.Tx(t.Context(), func(*sql.Tx) error { // no other transaction commits
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			s.service.Shutdown(ctx)
			return nil
		}))
		require.Equal(t, "shutdown", answer.until("cancelled").data["reason"])
		ada.Post(path+"/messages", object{"message": "more"}).Error(http.StatusServiceUnavailable, wire.Unavailable)
	})
}

// A request to cancel an answer reaches the runtime immediately, and not only when the hub that
// relays the answer renews its lease.
func TestCancelsAreImmediate(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *server, path, runID string){
		"by the owner": func(s *server, path, _ string) { s.ada().Post(path+"/cancel", nil).Want(http.StatusAccepted) },
		"by the owner, without the runtime": func(s *server, path, _ string) {
			s.endpoint.Store(&deployment.Endpoint{URL: "http://127.0.0.1:1", AgentID: "helper"})
			s.ada().Post(path+"/cancel", nil).Want(http.StatusAccepted)
		},
		"by an admin": func(s *server, _, runID string) {
			s.As("acme", "max", "admin").Post(runs+"/"+runID+"/cancel", nil).Want(http.StatusAccepted)
		},
		"by a deletion": func(s *server, path, _ string) { s.ada().Delete(path).Want(http.StatusNoContent) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, sqlite(t), func(c *config) { c.Relay.SaveEvery = time.Hour })
			up := hanging(t)
			s.deploy(up)
			path := session(s.ada())
			answer := send(t, s.ada(), path, object{"message": "hello"})
			runID := answer.until("system").data["runId"].(string)
			answer.until("partial_message")
			end(s, path, runID)
			select {
			case <-up.Await(t, 1).Closed():
			case <-time.After(patience):
				t.Error("the model is still called")
			}
		})
	}
}

// goneClient is a client that disconnects after the first events.
type goneClient struct {
	*httptest.ResponseRecorder
	written chan struct{}
}

func (c goneClient) Write(data []byte) (int, error) {
	select {
	case c.written <- struct{}{}:
		return c.ResponseRecorder.Write(data)
	default:
		return 0, errors.New("the client is gone")
	}
}

func (c goneClient) WriteString(text string) (int, error) { return c.Write([]byte(text)) }

// A client that cannot be written to has disconnected, also if its context has not ended.
func TestAWriteThatFailsCancelsTheRun(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		s.serve(hostile(func(write func(string) bool, _ <-chan struct{}) {
			for write(fmt.Sprintf(partial, "Half.")) {
			}
		}))
		ada := s.ada()
		path := session(ada)
		answer, _, err := s.service.Send(t.Context(), ada.Caller, "helper", path[len(sessions)+1:], wire.ChatMessageRequest{Message: "hello"})
		require.NoError(t, err)
		require.NoError(t, answer.Serve(goneClient{httptest.NewRecorder(), make(chan struct{}, 2)}))
		require.Equal(t, "cancelled", messages(ada, path)[1]["status"])
	})
}

// A message that is cancelled before the runtime has accepted it is a conflict.
func TestACancelBeforeTheRunIsAccepted(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t), quiet)
	reached := make(chan struct{})
	begin := sync.OnceFunc(func() { close(reached) })
	s.serve(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		begin()
		<-r.Context().Done()
	}))
	ada := s.ada()
	path := session(ada)
	response := make(chan *http.Response, 1)
	go func() {
		defer close(response)
		res, err := http.DefaultClient.Do(ada.Request(http.MethodPost, path+"/messages", object{"message": "hello"}))
		if err != nil {
			t.Error(err)
			return
		}
		response <- res
	}()
	<-reached
	ada.Post(path+"/cancel", nil).Want(http.StatusAccepted)
	res := <-response
	require.NotNil(t, res)
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusConflict, res.StatusCode)
	require.Contains(t, string(text), `"The answer was cancelled."`)
}
