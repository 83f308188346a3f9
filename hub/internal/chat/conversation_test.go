package chat_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	transcripts "github.com/seed93082962/agenthost/runtime/session"
)

// posted has the bodies of the runs that a runtime receives.
type posted struct {
	mu     sync.Mutex // guards bodies
	bodies [][]byte
}

// take returns the bodies since the last call.
func (p *posted) take() (bodies [][]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	bodies, p.bodies = p.bodies, nil
	return bodies
}

// record puts a proxy in front of the runtime, which records the runs and may change them.
func (s *server) record(change func(object)) *posted {
	s.t.Helper()
	p := &posted{}
	target, err := url.Parse(s.endpoint.Load().URL)
	require.NoError(s.t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	s.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/runs") {
			body, err := io.ReadAll(r.Body)
			p.mu.Lock()
			p.bodies = append(p.bodies, body)
			p.mu.Unlock()
			var run object
			if err == nil && change != nil && json.Unmarshal(body, &run) == nil {
				change(run)
				body, _ = json.Marshal(run)
			}
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
		proxy.ServeHTTP(w, r)
	}))
	return p
}

func right(t *testing.T) *modeltest.Upstream {
	return modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("Right."))))
}

// conversation returns the texts of the last request of a runtime to its model.
func conversation(t *testing.T, up *modeltest.Upstream) (texts []string) {
	t.Helper()
	requests := up.Requests()
	var body struct {
		Messages []struct{ Content []struct{ Text string } }
	}
	require.NoError(t, json.Unmarshal(requests[len(requests)-1].Body, &body))
	for _, m := range body.Messages {
		for _, block := range m.Content {
			texts = append(texts, block.Text)
		}
	}
	return texts
}

// The bytes that a message sends do not grow with the conversation. It is sent once to a runtime
// that does not have it.
func TestTheConversationIsSentOnce(t *testing.T) {
	with(t, right, func(t *testing.T, s *server) {
		const n, size = 198, 2 << 10
		long := pushed("s1", day1)
		var all []object
		for i := range n {
			m := long["messages"].([]object)[i%2]
			all = append(all, object{"id": fmt.Sprint(i), "role": m["role"], "content": strings.Repeat("x", size), "created_at": m["created_at"]})
		}
		long["messages"] = all
		ada := s.ada()
		require.Equal(t, []string{"created"}, statuses(ada.Post(push, body(long))))
		path := sessions + "/s1"
		for _, state := range []string{"a new session", "a runtime that lost its state"} {
			if state != "a new session" {
				s.deploy(right(t))
			}
			runs := s.record(nil)
			message := strings.Repeat("y", size)
			require.Equal(t, "completed", last(say(t, ada, path, message)))
			first := runs.take()
			require.Greater(t, len(first[len(first)-1]), n*size, state)
			if state != "a new session" {
				require.Len(t, first, 2)
				require.Less(t, len(first[0]), size+512, "the runtime is asked for the session before")
			}
			for range 2 {
				require.Equal(t, "completed", last(say(t, ada, path, message)))
				next := runs.take()
				require.Len(t, next, 1)
				require.Less(t, len(next[0]), size+512, state)
			}
		}
	})
}

// A hub that is killed during an answer leaves no session of a runtime that lacks the message.
func TestARuntimeThatLostItsSession(t *testing.T) {
	with(t, right, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		say(t, ada, path, "one")
		old := s.endpoint.Load()
		s.deploy(endless(t))
		answer := send(t, ada, path, object{"message": "two"})
		answer.until("partial_message")
		require.Zero(t, s.number(`SELECT COUNT(*) FROM chat_sessions WHERE runtime_session <> ''`))
		answer.cancel()
		eventually(t, ada, path)
		s.endpoint.Store(old) // a replica that has the session without the second message
		runs := s.record(nil)
		say(t, ada, path, "three")
		require.Len(t, runs.take(), 2)
		up := right(t)
		s.deploy(up)
		say(t, ada, path, "four")
		require.Equal(t, []string{"one", "Right.", "two", "Half", "three", "Right.", "four"}, conversation(t, up))
	})
}

// A message whose run cannot begin because the database is unavailable fails for that reason.
func TestARuntimeThatLostItsSessionWithoutADatabase(t *testing.T) {
	t.Parallel()
	s := open(t, postgres(t), quiet)
	s.deploy(nil)
	ada := s.ada()
	path := session(ada)
	say(t, ada, path, "hello")
	s.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = 'disk_full'; END $$`)
	s.exec(`CREATE TRIGGER refuse BEFORE UPDATE ON chat_sessions FOR EACH ROW
		WHEN (OLD.runtime_session <> '' AND NEW.runtime_session = '') EXECUTE FUNCTION refuse()`)
	s.deploy(nil) // it does not have the session
	fault := ada.Post(path+"/messages", object{"message": "more"}).Error(http.StatusServiceUnavailable, wire.Unavailable)
	require.Equal(t, object{"code": "unavailable", "message": fault["message"]}, messages(ada, path)[3]["error"])
	s.exec(`DROP TRIGGER refuse ON chat_sessions`)
	require.Equal(t, "completed", last(say(t, ada, path, "more")))
}

// failing is a store of sessions that fails at one message.
type failing struct {
	transcripts.Store
	at func(model.Message) bool
}

type failingSession struct {
	transcripts.Session
	at func(model.Message) bool
}

func (f failing) Open(ctx context.Context, agentID, id string) (transcripts.Session, error) {
	s, err := f.Store.Open(ctx, agentID, id)
	return failingSession{s, f.at}, err
}

func (f failingSession) Append(ctx context.Context, m model.Message) error {
	if f.at(m) {
		return errors.New("the disk is full")
	}
	return f.Session.Append(ctx, m)
}

// A runtime that has stored only a part of the conversation that it received does not continue it.
func TestAConversationThatWasNotStored(t *testing.T) {
	with(t, right, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		say(t, ada, path, "one")
		say(t, ada, path, "two")
		up, full := right(t), true
		rt, err := runtime.New(t.Context(), runtime.Config{
			Agents: []agent.Agent{{ID: "helper", Model: "m", Provider: agent.Provider{
				Protocol: agent.ProtocolAnthropic, BaseURL: agent.Secret(up.URL), APIKey: "upstream-key",
			}}},
			CWD: t.TempDir(), APIKeys: []string{"runtime-key"},
			Sessions: failing{transcripts.NewMemory(transcripts.MemoryConfig{}), func(m model.Message) bool { return full && m.Content[0].Text == "two" }},
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, rt.Close()) })
		s.serve(rt)
		deleted := s.front()
		answer := send(t, ada, path, object{"message": "three"})
		unused := answer.until("system").data["session_id"].(string)
		require.Equal(t, "failed", last(answer.rest()))
		full = false
		require.Equal(t, "completed", last(say(t, ada, path, "four")))
		require.Equal(t, []string{"one", "Right.", "two", "Right.", "three\n\nfour"}, conversation(t, up), "the message without an answer is not lost")
		require.Eventually(t, func() bool { return len(deleted()) > 0 && s.transcripts() == 0 }, patience, 1e6)
		require.Equal(t, []string{unused}, deleted(), "only the transcript that is not used is deleted")
	})
}

// A runtime of a version that does not know requireSession begins a session without the
// conversation, which the next message does not continue.
func TestARuntimeThatDoesNotKnowRequiredSessions(t *testing.T) {
	with(t, right, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		say(t, ada, path, "one")
		up := right(t)
		s.deploy(up)
		s.record(func(run object) { delete(run, "requireSession") })
		say(t, ada, path, "two")
		require.Equal(t, []string{"two"}, conversation(t, up))
		say(t, ada, path, "three")
		require.Equal(t, []string{"one", "Right.", "two", "Right.", "three"}, conversation(t, up))
		say(t, ada, path, "four")
		require.Equal(t, []string{"one", "Right.", "two", "Right.", "three", "Right.", "four"}, conversation(t, up))
	})
}

// The history of a message that is sent again has the later messages of the session too.
func TestTheConversationOfARepeatedMessage(t *testing.T) {
	with(t, right, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		good := s.endpoint.Load()
		s.endpoint.Store(&deployment.Endpoint{URL: "http://127.0.0.1:1", AgentID: "helper"})
		message := object{"message": "hello", "clientMessageId": "1"}
		ada.Post(path+"/messages", message).Error(http.StatusBadGateway, code.UpstreamFailed)
		s.endpoint.Store(good)
		say(t, ada, path, "another in between")
		up := right(t)
		s.deploy(up)
		require.Equal(t, "completed", last(send(t, ada, path, message).rest()))
		require.Equal(t, []string{"another in between", "Right.", "hello"}, conversation(t, up))
		say(t, ada, path, "and now?")
		require.Equal(t, []string{"another in between", "Right.", "hello", "Right.", "and now?"}, conversation(t, up))
	})
}

// A history omits a message that no runtime accepted: its client has an error, and sends it again.
func TestTheConversationWithoutAMessageThatFailed(t *testing.T) {
	with(t, right, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		say(t, ada, path, "one")
		s.endpoint.Store(&deployment.Endpoint{URL: "http://127.0.0.1:1", AgentID: "helper"})
		ada.Post(path+"/messages", object{"message": "not sent"}).Error(http.StatusBadGateway, code.UpstreamFailed)
		up := right(t)
		s.deploy(up)
		say(t, ada, path, "two")
		require.Equal(t, []string{"one", "Right.", "two"}, conversation(t, up))
	})
}
