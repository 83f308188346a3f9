package chat_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

func TestAnAnswerIsRelayedAndStored(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		events := say(t, ada, path, "hello <there>")
		all := names(events)
		require.Equal(t, "hub", all[0])
		require.Equal(t, []string{"system", "partial_message"}, all[1:3])
		require.Equal(t, []string{"assistant", "result", "hub", "done"}, all[len(all)-4:])
		stored := messages(ada, path)
		require.Len(t, stored, 2)
		user, answer := stored[0], stored[1]
		id := strings.TrimPrefix(path, sessions+"/")
		require.Equal(t, object{"type": "hub", "sessionId": id, "userMessageId": user["id"], "assistantMessageId": answer["id"]}, events[0].data)
		saved := events[len(events)-2].data
		require.Equal(t, object{"type": "hub.saved", "messageId": answer["id"], "status": "completed", "usage": answer["usage"]}, saved)
		require.Equal(t, "{}", events[len(events)-1].raw)

		require.Equal(t, "user", user["role"])
		require.Equal(t, "completed", user["status"])
		require.Equal(t, "hello <there>", user["text"])
		require.Equal(t, []any{object{"type": "text", "text": "hello <there>"}}, user["content"])
		require.Equal(t, "assistant", answer["role"])
		require.Equal(t, "completed", answer["status"])
		require.Equal(t, "m", answer["model"])
		require.Equal(t, events[1].data["runId"], answer["runId"])
		result := events[len(events)-3].data
		require.Equal(t, result["result"], answer["text"])
		require.Equal(t, []any{object{"type": "text", "text": result["result"]}}, answer["content"])
		require.Equal(t, result["usage"], answer["usage"])
		require.Contains(t, answer["text"], "hello <there>")

		shown := ada.Get(sessions).Items()[0]
		require.Equal(t, "hello <there>", shown["title"])
		require.EqualValues(t, 2, shown["messageCount"])
		require.NotNil(t, shown["lastMessageAt"])
		require.Empty(t, s.Audit("acme"), "chats are not audited")
		require.NotContains(t, s.Log.String(), "there")
	})
}

func TestToolCallsAreStored(t *testing.T) {
	up := func(t *testing.T) *modeltest.Upstream {
		return modeltest.Start(t, modeltest.Anthropic,
			modeltest.Stream(modeltest.Thinking("Hm."), modeltest.Signature("s"), modeltest.Text("I look."), modeltest.ToolCall("t1", "Glob", `{"pattern":"*"}`)),
			modeltest.Stream(modeltest.Text("Nothing ", "is here.")))
	}
	with(t, up, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		say(t, ada, path, "look")
		answer := messages(ada, path)[1]
		require.Equal(t, "I look.\n\nNothing is here.", answer["text"])
		var kinds []any
		for _, block := range answer["content"].([]any) {
			kinds = append(kinds, block.(object)["type"])
		}
		require.Equal(t, []any{"thinking", "text", "tool_use", "tool_result", "text"}, kinds)
		require.EqualValues(t, 20, answer["usage"].(object)["input_tokens"])
		require.NotContains(t, s.Log.String(), "pattern")
	})
}

func TestAChatContinuesItsSessionOfTheRuntime(t *testing.T) {
	reply := func(t *testing.T) *modeltest.Upstream {
		return modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("Right."))))
	}
	with(t, reply, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		require.Equal(t, false, say(t, ada, path, "one")[1].data["resumed"])
		require.Equal(t, true, say(t, ada, path, "two")[1].data["resumed"])

		up := reply(t) // another runtime, which does not have the session
		s.deploy(up)
		require.Equal(t, false, say(t, ada, path, "three")[1].data["resumed"])
		body := string(up.Await(t, 1).Body)
		for _, text := range []string{"one", "two", "three"} {
			require.Equal(t, 1, strings.Count(body, `"`+text+`"`), body)
		}
		require.Equal(t, 2, strings.Count(body, "Right."))
		require.Equal(t, true, say(t, ada, path, "four")[1].data["resumed"])
		require.Len(t, messages(ada, path), 8)
	})
}

func TestAMessageIsSentOnce(t *testing.T) {
	gate := make(chan struct{})
	up := func(t *testing.T) *modeltest.Upstream {
		return modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("One "), modeltest.Gate(gate), modeltest.Text("answer.")),
			modeltest.Stream(modeltest.Text("Another.")))
	}
	with(t, up, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		body := object{"message": "hello", "clientMessageId": "c-1"}
		first := send(t, ada, path, body)
		first.until("partial_message")
		again := ada.Post(path+"/messages", body).Want(http.StatusOK)
		require.Equal(t, "partial", again["status"])
		require.Equal(t, "partial", again["assistantMessage"].(object)["status"])
		ada.Post(path+"/messages", object{"message": "another"}).Error(http.StatusConflict, wire.Conflict)
		gate <- struct{}{}
		first.rest()
		again = ada.Post(path+"/messages", body).Want(http.StatusOK)
		stored := messages(ada, path)
		require.Len(t, stored, 2)
		require.Equal(t, object{"userMessage": stored[0], "assistantMessage": stored[1], "status": "completed"}, again)
		other := session(ada)
		send(t, ada, other, body).rest() // the id is unique only in its session
		require.Len(t, messages(ada, other), 2)
	})
}

func TestConcurrentSendsOfOneSession(t *testing.T) {
	gate := make(chan struct{})
	up := func(t *testing.T) *modeltest.Upstream {
		return modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Gate(gate), modeltest.Text("Done."))))
	}
	each(t, up, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		const n = 8
		status := make(chan int, n)
		for range n {
			go func() {
				res, err := http.DefaultClient.Do(ada.Request(http.MethodPost, path+"/messages", object{"message": "hi"}))
				if err != nil {
					status <- 0
					return
				}
				t.Cleanup(func() { res.Body.Close() }) // a client that disconnects would end the answer
				status <- res.StatusCode
			}()
		}
		count := map[int]int{}
		for range n {
			count[<-status]++
		}
		require.Equal(t, map[int]int{http.StatusOK: 1, http.StatusConflict: n - 1}, count)
		require.Len(t, messages(ada, path), 2)
	})
}

func TestInvalidMessages(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		for _, body := range []object{{}, {"message": " \n"}, {"message": "a", "clientMessageId": strings.Repeat("c", 129)}, {"message": "a", "clientMessageId": "a\nb"}} {
			ada.Post(path+"/messages", body).Error(http.StatusBadRequest, wire.ValidationFailed)
		}
		ada.Post(path+"/messages", object{"message": "a\x00b"}).Error(http.StatusBadRequest, wire.InvalidRequest)
		ada.Post(path+"/messages", object{"message": strings.Repeat("a", 1<<20)}).Error(http.StatusRequestEntityTooLarge, code.PayloadTooLarge)
		ada.Post(sessions+"/0/messages", object{"message": "a"}).Error(http.StatusNotFound, wire.NotFound)
		idle := "/api/v1/agents/idle/chat/sessions"
		other := idle + "/" + ada.Post(idle, nil).Want(http.StatusCreated)["id"].(string)
		ada.Post(other+"/messages", object{"message": "a"}).Error(http.StatusConflict, code.AgentNotDeployed)
		require.Empty(t, messages(ada, path))
		require.Empty(t, messages(ada, other))
	})
}

func TestFailuresOfTheModelAreStored(t *testing.T) {
	up := func(t *testing.T) *modeltest.Upstream {
		return modeltest.Start(t, modeltest.Anthropic, modeltest.Status(429), modeltest.Stream(modeltest.Text("Half an "), modeltest.Drop()))
	}
	with(t, up, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		events := say(t, ada, path, "one")
		require.Equal(t, []string{"hub", "system", "result", "hub", "done"}, names(events))
		require.Equal(t, "failed", events[3].data["status"])
		failed := messages(ada, path)[1]
		require.Equal(t, "failed", failed["status"])
		require.Equal(t, "rate_limit", failed["error"].(object)["code"])
		require.NotEmpty(t, failed["error"].(object)["message"])
		require.Empty(t, failed["text"])
		require.Equal(t, []any{}, failed["content"])
		say(t, ada, path, "two")
		half := messages(ada, path)[3]
		require.Equal(t, "failed", half["status"])
		require.Equal(t, "Half an ", half["text"])
	})
}

func TestARuntimeThatRejectsTheRun(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		closed := *s.endpoint.Load()
		for name, e := range map[string]deployment.Endpoint{
			"key":     {URL: closed.URL, APIKey: "wrong", AgentID: "helper"},
			"agent":   {URL: closed.URL, APIKey: closed.APIKey, AgentID: "other"},
			"address": {URL: "http://127.0.0.1:1", AgentID: "helper"},
		} {
			s.endpoint.Store(&e)
			ada.Post(path+"/messages", object{"message": name}).Error(http.StatusBadGateway, code.UpstreamFailed)
			all := messages(ada, path)
			last := all[len(all)-1]
			require.Equal(t, "failed", last["status"])
			require.Equal(t, "upstream_failed", last["error"].(object)["code"])
			require.Equal(t, name, all[len(all)-2]["text"], "the message of the user is stored")
		}
		s.endpoint.Store(&closed)
		say(t, ada, path, "at last")
		require.Len(t, messages(ada, path), 8)
		require.NotContains(t, s.Log.String(), "wrong")
	})
}

// Of two concurrent messages with one id, which both wait for the session, one is stored.
func TestConcurrentMessagesWithOneID(t *testing.T) {
	t.Parallel()
	s := open(t, postgres(t))
	s.deploy(nil)
	ada := s.ada()
	path := session(ada)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const n = 2
	kinds := make(chan string, n)
	require.NoError(t, s.db.Tx(t.Context(), func(tx *sql.Tx) error {
		require.NoError(t, db.Exec(t.Context(), tx, "lock", `UPDATE chat_sessions SET title = title`))
		for range n {
			req := ada.Request(http.MethodPost, path+"/messages", object{"message": "hello", "clientMessageId": "1"}).WithContext(ctx)
			go func() {
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					kinds <- err.Error()
					return
				}
				defer res.Body.Close()
				_, _ = io.Copy(io.Discard, res.Body)
				kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
				kinds <- fmt.Sprint(res.StatusCode, " ", kind)
			}()
		}
		require.Eventually(t, func() bool {
			return s.number(`SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == n
		}, patience, 20*time.Millisecond)
		return nil
	}))
	require.ElementsMatch(t, []string{"200 text/event-stream", "200 application/json"}, []string{<-kinds, <-kinds})
	require.Len(t, messages(ada, path), 2)
}

// An answer whose response cannot be a stream ends, and its session is free.
func TestAResponseThatCannotBeAStream(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t), func(c *config) {
		c.wrap = func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(struct{ http.ResponseWriter }{w}, r) })
		}
	})
	s.deploy(hanging(t))
	ada := s.ada()
	path := session(ada)
	ada.Post(path+"/messages", object{"message": "hello"}).Error(http.StatusInternalServerError, code.InternalError)
	require.Equal(t, "cancelled", messages(ada, path)[1]["status"])
}

// The client receives the ids of an answer before the runtime has sent anything.
func TestTheFirstEventIsSentImmediately(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	gate := make(chan struct{})
	s.serve(hostile(func(write func(string) bool, _ <-chan struct{}) {
		write(": accepted\n\n")
		<-gate
		write(success)
	}))
	ada := s.ada()
	answer := send(t, ada, session(ada), object{"message": "hello"})
	answer.until("hub")
	close(gate)
	require.Equal(t, "completed", last(answer.rest()))
}

// A run waits some time for the end of the former one in its session of the runtime.
func TestASessionThatStaysBusy(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	var tries atomic.Int64
	s.serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		tries.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(runtimewire.ErrorBody{Error: runvalue.SessionBusy})
	}))
	ada := s.ada()
	path := session(ada)
	fault := ada.Post(path+"/messages", object{"message": "hello"}).Error(http.StatusConflict, wire.Conflict)
	require.Equal(t, "The previous answer is still ending: send the message again in a moment.", fault["message"])
	require.Greater(t, tries.Load(), int64(2))
	require.Equal(t, "failed", messages(ada, path)[1]["status"])
}

// A message that is sent again, because its run never started, waits for the session, in which
// anything may have happened.
func TestARepeatedMessageThatWaits(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		meanwhile string
		want      string
	}{
		"nothing":                 {`SELECT 1`, "200 text/event-stream"},
		"a push replaced it":      {`DELETE FROM chat_messages`, "404 application/json"},
		"another run":             {`UPDATE chat_messages SET run_id = 'another' WHERE role = 'assistant'`, "404 application/json"},
		"another call started it": {`UPDATE chat_messages SET started = TRUE`, "200 application/json"},
		"another call is beginning": {`WITH hub AS (INSERT INTO hubs (id, beat) VALUES ('another hub', 1) RETURNING id)
			INSERT INTO chat_runs (run_id, tenant_id, session_key, hub_id) SELECT '1', tenant_id, key, hub.id FROM chat_sessions, hub`, "200 application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, postgres(t))
			s.deploy(nil)
			good := s.endpoint.Load()
			ada := s.ada()
			path := session(ada)
			message := object{"message": "hello", "clientMessageId": "1"}
			s.endpoint.Store(&deployment.Endpoint{URL: "http://127.0.0.1:1", AgentID: "helper"})
			ada.Post(path+"/messages", message).Error(http.StatusBadGateway, code.UpstreamFailed)
			s.endpoint.Store(good)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			req := ada.Request(http.MethodPost, path+"/messages", message).WithContext(ctx)
			kind := make(chan string, 1)
			require.NoError(t, s.db.Tx(t.Context(), func(tx *sql.Tx) error {
				require.NoError(t, db.Exec(t.Context(), tx, "lock", `UPDATE chat_sessions SET title = title`))
				go func() {
					res, err := http.DefaultClient.Do(req)
					if err != nil {
						kind <- err.Error()
						return
					}
					defer res.Body.Close()
					_, _ = io.Copy(io.Discard, res.Body)
					form, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
					kind <- fmt.Sprint(res.StatusCode, " ", form)
				}()
				s.awaitLock()
				return db.Exec(t.Context(), tx, "change", row.meanwhile)
			}))
			require.Equal(t, row.want, <-kind)
		})
	}
}
