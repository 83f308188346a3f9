package chat_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// front puts a proxy in front of the runtime, which records the sessions that are deleted.
func (s *server) front() (deleted func() []string) {
	s.t.Helper()
	e := *s.endpoint.Load()
	target, err := url.Parse(e.URL)
	require.NoError(s.t, err)
	var mu sync.Mutex
	var ids []string
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	proxy.ModifyResponse = func(res *http.Response) error {
		if id, ok := strings.CutPrefix(res.Request.URL.Path, "/v1/sessions/"); ok && res.StatusCode == http.StatusNoContent {
			mu.Lock()
			defer mu.Unlock()
			ids = append(ids, id)
		}
		return nil
	}
	s.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 1<<20) // it returns its end again after the server has closed it
		proxy.ServeHTTP(w, r)
	}))
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return ids
	}
}

// transcripts returns the number of transcripts that are to be deleted.
func (s *server) transcripts() (n int) {
	s.t.Helper()
	require.NoError(s.t, s.db.Read().QueryRowContext(s.t.Context(), `SELECT COUNT(*) FROM chat_transcripts`).Scan(&n))
	return n
}

// The transcript of a deleted chat is deleted in the runtime, also if that is unreachable at first.
func TestTranscriptsOfDeletedChats(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		deleted := s.front()
		up := *s.endpoint.Load()
		ada, root := s.ada(), s.As("acme", "max", "admin")
		begun := func() (path, transcript string) {
			path = session(ada)
			answer := send(t, ada, path, object{"message": "hello"})
			transcript = answer.until("system").data["session_id"].(string)
			answer.rest()
			return path, transcript
		}
		for name, remove := range map[string]func(path string){
			"by its owner": func(path string) { ada.Delete(path).Want(http.StatusNoContent) },
			"by an admin":  func(path string) { root.Delete(strings.Replace(path, sessions, admin, 1)).Want(http.StatusNoContent) },
		} {
			path, transcript := begun()
			remove(path)
			require.Eventually(t, func() bool { return len(deleted()) > 0 && deleted()[len(deleted())-1] == transcript }, patience, 20*time.Millisecond, name)
		}
		path, transcript := begun()
		s.endpoint.Store(&deployment.Endpoint{URL: "http://127.0.0.1:1", AgentID: "helper"})
		ada.Delete(path).Want(http.StatusNoContent)
		require.Equal(t, 1, s.transcripts())
		s.endpoint.Store(&up)
		require.Eventually(t, func() bool {
			s.exec(`UPDATE chat_transcripts SET due_at = 0`)
			return s.transcripts() == 0
		}, patience, 10*time.Millisecond)
		require.Contains(t, deleted(), transcript)

		path, _ = begun()
		before := len(deleted())
		s.endpoint.Store(nil)
		ada.Delete(path).Want(http.StatusNoContent)
		require.Eventually(t, func() bool { return s.transcripts() == 0 }, patience, 20*time.Millisecond, "it is deleted with the deployment")
		require.Len(t, deleted(), before)
		for i := range 20 { // more than are called at once
			s.exec(`INSERT INTO chat_transcripts (tenant_id, agent_name, runtime_session, due_at, keep_until) VALUES ('acme', $1, 'id', 1, $2)`,
				fmt.Sprint("gone", i), time.Now().Add(time.Hour).UnixMicro())
		}
		require.Eventually(t, func() bool { return s.transcripts() == 0 }, patience, 20*time.Millisecond, "the agent was deleted too")

		ada.Delete(session(ada)).Want(http.StatusNoContent)
		s.exec(`INSERT INTO chat_transcripts (tenant_id, agent_name, runtime_session, due_at, keep_until) VALUES ('acme', 'helper', 'old', 1, 2)`)
		require.Eventually(t, func() bool { return s.transcripts() == 0 }, patience, 20*time.Millisecond, "the runtime has deleted it by itself")
	})
}

// A chat that is deleted during its first answer has a transcript too.
func TestTranscriptOfAChatThatIsDeletedDuringItsAnswer(t *testing.T) {
	half := modeltest.Stream(modeltest.Text("Half"), modeltest.Hang())
	up := func(t *testing.T) *modeltest.Upstream {
		t.Helper()
		return modeltest.Start(t, modeltest.Anthropic, half, modeltest.Stream(modeltest.Text("More.")), half)
	}
	with(t, up, func(t *testing.T, s *server) {
		deleted := s.front()
		ada := s.ada()
		for _, answers := range []int{0, 1} {
			path := session(ada)
			for range answers {
				say(t, ada, path, "hello")
			}
			answer := send(t, ada, path, object{"message": "hello"})
			transcript := answer.until("system").data["session_id"].(string)
			answer.until("partial_message") // the model was called
			ada.Delete(path).Want(http.StatusNoContent)
			answer.rest()
			require.Eventually(t, func() bool { return len(deleted()) > answers && deleted()[answers] == transcript }, patience, 20*time.Millisecond)
		}
	})
}

// A chat is deleted as a concurrent transaction leaves it: with the transcript of an answer that
// ends, and the run of one that begins.
func TestAChatThatIsDeletedWhileItChanges(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		s.joins("another hub")
		deleted := s.front()
		path := session(s.ada())
		status := make(chan int, 1)
		require.NoError(t, s.db.Tx(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(t.Context(), `UPDATE chat_sessions SET runtime_session = 'transcript'`)
			require.NoError(t, err)
			_, err = tx.ExecContext(t.Context(), `INSERT INTO chat_runs (run_id, tenant_id, session_key, agent_name, hub_id)
				SELECT '1', tenant_id, key, agent_name, 'another hub' FROM chat_sessions`)
			require.NoError(t, err)
			req := s.ada().Request(http.MethodDelete, path, nil)
			go func() {
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					close(status)
					return
				}
				_ = res.Body.Close()
				status <- res.StatusCode
			}()
			if s.db.Engine() == db.PostgreSQL {
				s.awaitLock()
			}
			return nil
		}))
		require.Equal(t, http.StatusNoContent, <-status)
		require.Equal(t, 1, s.number(`SELECT COUNT(*) FROM chat_runs WHERE cancel`))
		require.Eventually(t, func() bool { return slices.Contains(deleted(), "transcript") }, patience, 10*time.Millisecond)
	})
}

// A runtime that is still ending a run does not delete its transcript, which is deleted soon after.
func TestATranscriptInUseIsDeletedSoon(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		say(t, ada, path, "hello")
		var calls atomic.Int32
		s.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1) > 1 {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusConflict)
			_, _ = fmt.Fprintf(w, `{"error":%q}`, runvalue.SessionBusy)
		}))
		ada.Delete(path).Want(http.StatusNoContent)
		require.Eventually(t, func() bool { return s.transcripts() == 0 }, patience, 10*time.Millisecond)
		require.EqualValues(t, 2, calls.Load())
	})
}

// Each replica of a runtime has the part of a conversation that it ran. A transcript states that
// it is one of several parts, and a deletion reaches all of them.
func TestReplicasWithPartsOfAConversation(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	s.deploy(nil)
	ada := s.ada()
	path := session(ada)
	say(t, ada, path, "hello")
	var busy atomic.Bool
	var deleted sync.Map // by replica
	replica := func(name string, total int) string {
		r := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch {
			case r.Method == http.MethodDelete && name == "two" && busy.Load():
				w.WriteHeader(http.StatusServiceUnavailable)
			case r.Method == http.MethodDelete:
				deleted.Store(name, true)
				w.WriteHeader(http.StatusNoContent)
			case total == 0:
				w.WriteHeader(http.StatusNotFound)
			default:
				_, _ = fmt.Fprintf(w, `{"sessionId":"s","agentId":"helper","createdAt":"2026-01-02T03:04:05Z","total":%d,"entries":[
					{"seq":1,"type":"message","role":"user","content":[{"type":"text","text":"of %s"}]}]}`, total, name)
			}
		}))
		t.Cleanup(r.Close)
		return r.URL
	}
	one, two, none := replica("one", 1), replica("two", 7), replica("none", 0)
	s.replicas.Store(&[]string{none, two})
	whole := ada.Get(path + "/transcript").Want(http.StatusOK)
	require.Equal(t, 7.0, whole["total"])
	require.NotContains(t, whole, "partial")
	for _, replicas := range [][]string{{two, one, none}, {one, two, none}} {
		s.replicas.Store(&replicas)
		part := ada.Get(path + "/transcript").Want(http.StatusOK)
		require.Equal(t, 7.0, part["total"])
		require.Equal(t, true, part["partial"])
	}
	former := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) }))
	t.Cleanup(former.Close)
	s.replicas.Store(&[]string{none, former.URL})
	ada.Get(path+"/transcript").Error(http.StatusNotFound, wire.NotFound)

	s.replicas.Store(&[]string{one, two, none})
	busy.Store(true)
	ada.Delete(path).Want(http.StatusNoContent)
	require.Eventually(t, func() bool { _, found := deleted.Load("one"); return found }, patience, 10*time.Millisecond)
	require.Equal(t, 1, s.transcripts(), "one replica does not respond")
	busy.Store(false)
	require.Eventually(t, func() bool {
		s.exec(`UPDATE chat_transcripts SET due_at = 0`)
		return s.transcripts() == 0
	}, patience, 10*time.Millisecond)
	for _, name := range []string{"one", "two", "none"} {
		_, found := deleted.Load(name)
		require.True(t, found, name)
	}
}
