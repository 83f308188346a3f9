package chat_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

// Readers that do not read delay neither the answer nor other readers.
func TestManyReaders(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
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
		all := make([][]event, 40)
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
	})
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

// An answer that continues counts for the limit of its user, and its tokens are counted.
func TestAnswersThatContinueAreLimited(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t), func(c *config) { c.Relay.UserAnswers = 2 })
	s.deploy(endless(t))
	answers := []string{begins(t, s.ada(), session(s.ada())), begins(t, s.ada(), session(s.ada()))}
	s.ada().Post(session(s.ada())+"/messages", object{"message": "hello", "background": true}).Error(http.StatusTooManyRequests, wire.RateLimited)
	for _, answer := range answers {
		follows(t, s.ada(), answer, "").until("partial_message")
		s.ada().Post(answer+"/cancel", nil).Want(http.StatusAccepted)
		require.Equal(t, "cancelled", last(follows(t, s.ada(), answer, "").rest()))
	}
	require.EqualValues(t, 2, s.counted("agent")[0]["runs"])
	s.ada().Get(answers[0] + "/events")
	begins(t, s.ada(), session(s.ada()))
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
		require.Equal(t, []string{"error", "hub", "done"}, names(events))
		require.Equal(t, "failed", last(events))
		for _, body := range []object{
			{"message": "m", "onDisconnect": "stop"}, {"message": "m", "onDisconnect": "cancel", "background": true}, {"message": "m", "background": "yes"},
		} {
			require.Contains(t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, s.ada().Post(path+"/messages", body).Status)
		}
	})
}
