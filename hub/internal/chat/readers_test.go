package chat_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
)

// Readers that do not read delay neither the answer nor other readers.
func TestManyReaders(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		s := open(t, url, patient)
		gate := make(chan struct{})
		text := strings.Repeat("x", 10_000)
		s.serve(hostile(func(write func(string) bool, _ <-chan struct{}) {
			write(fmt.Sprintf(partial, ""))
			<-gate
			for range 300 {
				write(fmt.Sprintf(partial, text))
			}
			write(success)
		}))
		path := session(s.ada())
		answer := begins(t, s.ada(), path)
		for range 10 {
			follows(t, s.ada(), answer, "") // it never reads
		}
		var readers sync.WaitGroup
		all := make([][]event, 12)
		for i := range all {
			reader := follows(t, s.ada(), answer, "")
			readers.Go(func() { all[i] = reader.rest() })
		}
		close(gate)
		readers.Wait()
		for _, events := range all {
			require.Equal(t, all[0], events)
			require.Equal(t, "completed", last(events))
			require.Len(t, textOf(events), 300*len(text))
		}
	}, series...)
}

// Many readers are too late for the events of a long answer. None reads before all have a gap, and
// they share its text.
func TestManyReadersThatAreTooLate(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		gate := make(chan struct{})
		text := strings.Repeat("x", 20_000)
		s.serve(hostile(func(write func(string) bool, _ <-chan struct{}) {
			for range 50 {
				write(events("assistant", said(text)))
			}
			for range 9 {
				write(events("tool_result", object{"result": object{"tool_use_id": "t", "tool_name": "n", "output": strings.Repeat("y", 1<<20)}}))
			}
			write(fmt.Sprintf(partial, "last"))
			<-gate
			write(success)
		}))
		path := session(s.ada())
		first := send(t, s.ada(), path, continuing)
		answer := answerOf(path, first.until("hub"))
		first.until("partial_message")
		var late []*stream
		for range 30 {
			reader := follows(t, s.ada(), answer, "")
			reader.until("hub")
			late = append(late, reader)
		}
		whole := strings.Repeat(text+"\n\n", 50) + "last"
		for _, reader := range late {
			require.Equal(t, "hub.gap", reader.until("hub").data["type"])
		}
		close(gate)
		for _, reader := range late {
			rest := reader.rest()
			require.Equal(t, whole, textOf(rest))
			require.Equal(t, "completed", last(rest))
		}
	})
}

// panicking is a list of calls of which one panics.
type panicking struct {
	calls atomic.Int32
	at    int32
}

func (p *panicking) call() {
	if p.calls.Add(1) == p.at {
		panic("spoilt")
	}
}

// A panic of the owner of an answer that continues ends this answer only: as failed, or if it is
// stored before, readers get what is stored.
func TestAnAnswerThatPanics(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]string{"in progress": "failed", "after the end": "failed"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check, model := &panicking{}, &panicking{}
			if name == "in progress" {
				check.at = 2 // after the transaction of the begin
			} else {
				model.at = 1
			}
			s := open(t, sqlite(t), quiet, func(c *config) {
				c.Relay.ModelOf = func(context.Context, string, string) (string, string, error) {
					model.call()
					return "", "", nil
				}
				c.Admit = func(ctx context.Context, _ api.Caller, _ rbac.Group) (context.Context, func()) {
					return db.WithCheck(ctx, func(context.Context, *sql.Tx) error {
						check.call()
						return nil
					}), func() {}
				}
			})
			gate := make(chan struct{})
			s.serve(hostile(func(write func(string) bool, _ <-chan struct{}) {
				write(fmt.Sprintf(partial, "Half"))
				<-gate
			}))
			path := session(s.ada())
			reader := send(t, s.ada(), path, continuing)
			all := []event{reader.until("hub"), reader.until("partial_message")}
			close(gate) // the connection to the runtime is lost
			all = append(all, reader.rest()...)
			require.Equal(t, []string{"error", "hub", "done"}, names(all[len(all)-3:]))
			require.Equal(t, status, last(all))
			require.Equal(t, "Half", textOf(all))
			stored := messages(s.ada(), path)[1]
			require.Equal(t, status, stored["status"])
			if name == "in progress" {
				require.Equal(t, "internal_error", stored["error"].(object)["code"])
			}
			s.deploy(nil)
			require.Equal(t, "completed", last(say(t, s.ada(), session(s.ada()), "hello")))
		})
	}
}

// The streams of a chat that is deleted end, and it has no events afterwards.
func TestReadersOfADeletedChat(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		a, b := open(t, url), open(t, url)
		a.deploy(hanging(t))
		b.endpoint.Store(a.endpoint.Load())
		path := session(a.ada())
		answer := begins(t, a.ada(), path)
		readers := []*stream{follows(t, a.ada(), answer, ""), follows(t, b.ada(), answer, "")}
		readers[0].until("partial_message")
		a.ada().Delete(path).Want(http.StatusNoContent)
		for _, reader := range readers {
			require.Equal(t, "client_request", reader.until("cancelled").data["reason"])
			require.Equal(t, []string{"done"}, names(reader.rest()))
		}
		for _, s := range []*server{a, b} {
			s.ada().Get(answer+"/events").Error(http.StatusNotFound, wire.NotFound)
			s.ada().Post(answer+"/cancel", nil).Error(http.StatusNotFound, wire.NotFound)
		}
	}, series...)
}

// An answer that continues counts for the limits of its user and of its agent, and its tokens are
// counted.
func TestAnswersThatContinueAreLimited(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t), func(c *config) { c.Relay.UserAnswers, c.Relay.AgentAnswers = 2, 3 })
	s.deploy(endless(t))
	bob, zoe := s.As("acme", "bob", rbac.Member), s.As("acme", "zoe", rbac.Member)
	third := begins(t, bob, session(bob))
	answers := []string{begins(t, s.ada(), session(s.ada())), begins(t, s.ada(), session(s.ada()))}
	for _, c := range []*apitest.Client{s.ada(), zoe} {
		c.Post(session(c)+"/messages", object{"message": "hello", "background": true}).Error(http.StatusTooManyRequests, wire.RateLimited)
	}
	bob.Post(third+"/cancel", nil).Want(http.StatusAccepted)
	require.Equal(t, "cancelled", last(follows(t, bob, third, "").rest()))
	for _, answer := range answers {
		follows(t, s.ada(), answer, "").until("partial_message")
		s.ada().Post(answer+"/cancel", nil).Want(http.StatusAccepted)
		require.Equal(t, "cancelled", last(follows(t, s.ada(), answer, "").rest()))
	}
	require.EqualValues(t, 3, s.counted("agent")[0]["runs"])
	s.ada().Get(answers[0] + "/events")
	begins(t, s.ada(), session(s.ada()))
}

// An answer that continues is bounded in time, also without a client.
func TestAnAnswerThatContinuesTooLong(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t), func(c *config) { c.Relay.RunTimeout = time.Second })
	s.deploy(endless(t))
	path := session(s.ada())
	answer := begins(t, s.ada(), path)
	require.Eventually(t, func() bool { return messages(s.ada(), path)[1]["status"] == "failed" }, patience, 20*time.Millisecond)
	events := follows(t, s.ada(), answer, "").rest()
	require.Equal(t, []string{"error", "hub", "done"}, names(events[len(events)-3:]))
	require.Equal(t, "The answer is too long or takes too long.", messages(s.ada(), path)[1]["error"].(object)["message"])
}

// A user reads at most 100 answers at once.
func TestReadersAtOnce(t *testing.T) {
	with(t, endless, func(t *testing.T, s *server) {
		answer := begins(t, s.ada(), session(s.ada()))
		var all []*stream
		for range 100 {
			all = append(all, follows(t, s.ada(), answer, ""))
		}
		s.ada().Get(answer+"/events").Error(http.StatusTooManyRequests, wire.RateLimited)
		all[0].cancel()
		require.Eventually(t, func() bool {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			res, err := http.DefaultClient.Do(s.ada().Request(http.MethodGet, answer+"/events", nil).WithContext(ctx))
			if err != nil {
				return false
			}
			_ = res.Body.Close()
			return res.StatusCode == http.StatusOK
		}, patience, 20*time.Millisecond)
	})
}

// A hub that shuts down waits for answers that continue, and cancels what is left.
func TestDrainOfAnswersThatContinue(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	url := sqlite(t)
	s, other := open(t, url), open(t, url)
	s.deploy(gated(gate)(t))
	other.endpoint.Store(s.endpoint.Load())
	answer := begins(t, s.ada(), session(s.ada()))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.service.Drain(ended), context.Canceled)
	reader, elsewhere := follows(t, s.ada(), answer, ""), follows(t, other.ada(), answer, "")
	elsewhere.until("hub")
	require.NoError(t, other.service.Drain(t.Context()), "it has no answers")
	elsewhere.rest()
	drained := make(chan error, 1)
	go func() { drained <- s.service.Drain(t.Context()) }()
	gate <- struct{}{}
	require.NoError(t, <-drained)
	require.Equal(t, "completed", last(reader.rest()))

	s.deploy(hanging(t))
	reader = follows(t, s.ada(), begins(t, s.ada(), session(s.ada())), "")
	reader.until("partial_message")
	s.service.Shutdown(t.Context())
	require.Equal(t, "shutdown", reader.until("cancelled").data["reason"])
	require.Equal(t, []string{"hub", "done"}, names(reader.rest()))
}

// A run that the runtime rejects has no answer to follow but its failure.
func TestAnAnswerThatContinuesIsRejected(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		s.serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }))
		path := session(s.ada())
		s.ada().Post(path+"/messages", continuing).Error(http.StatusBadGateway, "upstream_failed")
		answer := path + "/messages/" + messages(s.ada(), path)[1]["id"].(string)
		events := follows(t, s.ada(), answer, "").rest()
		require.Equal(t, []string{"hub", "error", "hub", "done"}, names(events))
		require.Equal(t, "hub", events[0].data["type"])
		require.Equal(t, "failed", last(events))
		for _, body := range []object{
			{"message": "m", "onDisconnect": "stop"}, {"message": "m", "onDisconnect": "cancel", "background": true}, {"message": "m", "background": "yes"},
		} {
			require.Contains(t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, s.ada().Post(path+"/messages", body).Status)
		}
	})
}
