package chat_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

func endless(t *testing.T) *modeltest.Upstream {
	return modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("Half"), modeltest.Hang())))
}

func TestAnswersAtOnce(t *testing.T) { answersAtOnce(t, false) }

func TestAnswersAtOnceThatAreNotCounted(t *testing.T) { answersAtOnce(t, true) }

func answersAtOnce(t *testing.T, uncounted bool) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		few := func(c *config) { c.Relay.UserAnswers, c.Relay.AgentAnswers, c.uncounted = 3, 5, uncounted }
		a, b := open(t, url, few), open(t, url, few)
		a.deploy(endless(t))
		b.endpoint.Store(a.endpoint.Load())
		ask := func(s *server, user string) *stream {
			c := s.As("acme", user, "member")
			path := session(c)
			req := c.Request(http.MethodPost, path+"/messages", object{"message": "hello"})
			res, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			t.Cleanup(func() { res.Body.Close() })
			if res.StatusCode == http.StatusOK {
				return &stream{t: t, res: res}
			}
			text, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.Equal(t, http.StatusTooManyRequests, res.StatusCode, "%s", text)
			require.Equal(t, "5", res.Header.Get("Retry-After"))
			require.Empty(t, messages(c, path))
			return nil
		}
		var mu sync.Mutex
		var open []*stream
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				if st := ask([]*server{a, b}[i%2], "ada"); st != nil {
					mu.Lock()
					open = append(open, st)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		require.Len(t, open, 3, "of one user, in both hubs")
		for _, user := range []string{"eve", "max"} {
			st := ask(b, user)
			require.NotNil(t, st)
			open = append(open, st)
		}
		st := ask(a, "zoe")
		require.Nil(t, st, "of one agent")
		for _, st := range open {
			st.res.Body.Close()
		}
		require.Eventually(t, func() bool { st := ask(a, "zoe"); return st != nil }, patience, 20*time.Millisecond)
	}, series...)
}

// The bytes that are written for an answer are linear in its length.
func TestPartialAnswersAreStoredWhenTheyHaveGrown(t *testing.T) {
	t.Parallel()
	const parts, size = 400, 1 << 10
	s := open(t, sqlite(t), func(c *config) { c.Relay.SaveEvery = time.Millisecond })
	s.deploy(endless(t))
	ada := s.ada()
	for range 3 { // they do not grow
		send(t, ada, session(ada), object{"message": "hello"}).until("partial_message")
	}
	s.exec(`CREATE TABLE written (n INTEGER)`)
	s.exec(`CREATE TRIGGER writes AFTER UPDATE OF text ON chat_messages BEGIN INSERT INTO written VALUES (length(new.text)); END`)
	next := make(chan struct{})
	s.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range parts {
			fmt.Fprintf(w, "event: partial_message\ndata: {\"type\":\"partial_message\",\"partial\":{\"type\":\"text\",\"text\":\"%s\"}}\n\n", strings.Repeat("x", size))
			_ = http.NewResponseController(w).Flush()
			<-next
		}
		_, _ = io.WriteString(w, "event: result\ndata: {\"type\":\"result\",\"subtype\":\"success\"}\n\nevent: done\ndata: {}\n\n")
	}))
	path := session(ada)
	answer := send(t, ada, path, object{"message": "hello"})
	for i := range parts {
		answer.until("partial_message")
		ada.Get(sessions).Want(http.StatusOK) // many ticks pass in all
		if n := i + 1; n&(n-1) == 0 {
			require.Eventually(t, func() bool {
				return s.number(`SELECT COALESCE(MAX(n), 0) FROM written`) >= n*size/2
			}, time.Minute, 20*time.Millisecond)
		}
		next <- struct{}{}
	}
	answer.rest()
	require.Len(t, messages(ada, path)[1]["text"], parts*size)
	require.Greater(t, s.number(`SELECT COUNT(*) FROM written`), 5)
	require.Less(t, s.number(`SELECT SUM(n) FROM written`), 7*parts*size)
}

// Runtimes that fill the memory of the hub end their own answers.
func TestMemoryOfAnswers(t *testing.T) {
	const answers = 60
	s := open(t, sqlite(t), func(c *config) {
		c.Relay.AgentAnswers, c.Relay.UserAnswers = 1000, 1000
		c.Relay.IdleTimeout = time.Hour // the race detector is slow
	})
	event := "event: assistant\ndata: " + strings.Repeat("x", 4<<20-100)
	s.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, event)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	before := heap()
	ada := s.ada()
	var all []*stream
	for range answers {
		all = append(all, send(t, ada, session(ada), object{"message": "hello"}))
	}
	ended := make(chan string, answers)
	for _, st := range all {
		go func() {
			for {
				ev, err := st.events.Next()
				if err != nil {
					return
				}
				if ev.Type == "error" {
					ended <- string(ev.Data)
				}
			}
		}()
	}
	require.Contains(t, <-ended, "too much memory")
	require.Less(t, heap()-before, int64(300<<20), "all answers together would use 480 MiB")

	hostile := *s.endpoint.Load()
	s.deploy(nil)
	for _, c := range []*apitest.Client{ada, s.As("zeta", "eve", "member")} {
		require.Equal(t, "completed", last(say(t, c, session(c), "hello")), "small answers are relayed")
	}
	s.endpoint.Store(&hostile)
	for _, st := range all {
		st.cancel()
	}
}

// By default, a user has at most 20 answers in progress, and an agent 200, of all hubs.
func TestDefaultLimitsOfAnswers(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		busy := func(user string, from, to int) {
			s.exec(`WITH RECURSIVE n(i) AS (SELECT $1 UNION ALL SELECT i + 1 FROM n WHERE i < $2)
				INSERT INTO chat_sessions (key, tenant_id, user_id, id, user_name, user_search, agent_name, title, source, created_at, updated_at)
				SELECT 'busy-' || i, 'acme', $3, 'busy-' || i, '', '', 'helper', '', 'hub', 0, 0 FROM n`, from, to, user)
			s.exec(`INSERT INTO chat_runs (run_id, tenant_id, session_key, user_id, agent_name, hub_id)
				SELECT key, tenant_id, key, user_id, agent_name, 'another hub' FROM chat_sessions
				WHERE id LIKE 'busy-%' AND key NOT IN (SELECT session_key FROM chat_runs)`)
		}
		admitted := func() { require.Equal(t, "completed", last(say(t, ada, path, "hello"))) }
		refused := func(want string) {
			fault := ada.Post(path+"/messages", object{"message": "hello"}).Error(http.StatusTooManyRequests, wire.RateLimited)
			require.Equal(t, want, fault["message"])
		}
		s.joins("another hub")
		busy("id-ada", 1, 19)
		admitted()
		busy("id-ada", 20, 20)
		refused("Too many of your answers are in progress: wait for the end of one of them.")
		s.exec(`DELETE FROM chat_runs WHERE run_id = 'busy-20'`)
		s.exec(`DELETE FROM chat_sessions WHERE key = 'busy-20'`)
		busy("id-zed", 20, 199)
		admitted()
		busy("id-zed", 200, 200)
		refused("Too many answers of the agent are in progress: send the message again later.")
	})
}
