package chat_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

var continuing = object{"message": "hello", "onDisconnect": "continue"}

// begins sends a message in the background and returns the path of its answer.
func begins(t *testing.T, c *apitest.Client, path string) string {
	t.Helper()
	ids := c.Post(path+"/messages", object{"message": "hello", "background": true}).Want(http.StatusAccepted)
	require.Len(t, ids, 2)
	require.NotEmpty(t, ids["userMessageId"])
	return path + "/messages/" + ids["assistantMessageId"].(string)
}

// follows reads the events of an answer after the one with an id, or all.
func follows(t *testing.T, c *apitest.Client, answer, after string) *stream {
	t.Helper()
	var headers []string
	if after != "" {
		headers = []string{"Last-Event-ID", after}
	}
	return receives(t, c.Request(http.MethodGet, answer+"/events", nil, headers...))
}

// answerOf returns the path of the answer of a first event.
func answerOf(path string, begun event) string {
	return path + "/messages/" + begun.data["assistantMessageId"].(string)
}

// textOf returns the text that a client displays: that of the partial messages and, in place of
// those of its message, that of an assistant event. A gap removes all.
func textOf(events []event) string {
	var complete []string
	var pending strings.Builder
	for _, ev := range events {
		switch {
		case ev.data["type"] == "hub.gap":
			complete = nil
			pending.Reset()
		case ev.name == "partial_message":
			if p := ev.data["partial"].(object); p["type"] == "text" {
				pending.WriteString(p["text"].(string))
			}
		case ev.name == "assistant":
			pending.Reset()
			for _, block := range ev.data["message"].(object)["content"].([]any) {
				if block.(object)["type"] == "text" {
					complete = append(complete, block.(object)["text"].(string))
				}
			}
		}
	}
	if pending.Len() > 0 {
		complete = append(complete, pending.String())
	}
	return strings.Join(complete, "\n\n")
}

// ended sends the id of the last event of an answer, as a client that begins again after the end.
func (s *server) ended(answer, id string) {
	s.t.Helper()
	require.NotEmpty(s.t, id)
	require.Empty(s.t, s.ada().Do(http.MethodGet, answer+"/events", nil, "Last-Event-ID", id).Want(http.StatusNoContent))
}

// gated is a model whose answer waits in its middle until the gate is opened.
func gated(gate chan struct{}) func(t *testing.T) *modeltest.Upstream {
	return func(t *testing.T) *modeltest.Upstream {
		return modeltest.Start(t, modeltest.Anthropic,
			modeltest.Stream(modeltest.Thinking("Hm."), modeltest.Signature("s"), modeltest.Text("I look."), modeltest.ToolCall("t1", "Glob", `{"pattern":"*"}`)),
			modeltest.Stream(modeltest.Text("Nothing "), modeltest.Gate(gate), modeltest.Text("is "), modeltest.Text("here.")),
			modeltest.Repeat(modeltest.Stream(modeltest.Text("More."))))
	}
}

const whole = "I look.\n\nNothing is here."

func TestAnAnswerContinuesWithoutItsClient(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		gate := make(chan struct{})
		a, b := open(t, url), open(t, url)
		a.deploy(gated(gate)(t))
		b.endpoint.Store(a.endpoint.Load())
		path := session(a.ada())
		first := send(t, a.ada(), path, continuing)
		answer := answerOf(path, first.until("hub"))
		seen := first.until("tool_result")
		require.NotEmpty(t, seen.id)
		first.cancel()

		second := follows(t, a.ada(), answer, "")
		events := []event{second.until("hub")}
		require.Equal(t, "hub", events[0].data["type"])
		after := follows(t, a.ada(), answer, seen.id)
		b.ada().Post(path+"/messages", object{"message": "more"}).Error(http.StatusConflict, wire.Conflict)
		require.Equal(t, "partial", messages(b.ada(), path)[1]["status"])
		gate <- struct{}{}
		events = append(events, second.rest()...)
		require.Equal(t, "completed", last(events))
		require.Equal(t, "done", events[len(events)-1].name)
		require.Equal(t, whole, textOf(events))
		rest := after.rest()
		require.Equal(t, events[len(events)-len(rest):], rest)
		require.Equal(t, seen.raw, events[len(events)-len(rest)-1].raw)
		stored := messages(b.ada(), path)[1]
		require.Equal(t, whole, stored["text"])
		require.Equal(t, "completed", stored["status"])
		require.Equal(t, "More.", textOf(say(t, b.ada(), path, "more")))
	}, series...)
}

// A reader continues after each event of an answer, whose events have different ids.
func TestAReaderContinuesAfterEachEvent(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, continuesAfterEachEvent, series...)
}

func continuesAfterEachEvent(t *testing.T, database string) {
	gate := make(chan struct{})
	close(gate)
	now := time.Now()
	var elapsed atomic.Int64
	s := open(t, database, func(c *config) { c.now = func() time.Time { return now.Add(time.Duration(elapsed.Load())) } })
	s.deploy(gated(gate)(t))
	path := session(s.ada())
	recorded := send(t, s.ada(), path, continuing).rest()
	answer := answerOf(path, recorded[0])
	ids := map[string]bool{}
	end := len(recorded) - 1
	for i, ev := range recorded[:end] {
		ids[ev.id] = true
		require.Equal(t, recorded[i+1:], follows(t, s.ada(), answer, ev.id).rest(), "after %d", i)
	}
	s.ended(answer, recorded[end].id)
	ids[recorded[end].id] = true
	require.Len(t, ids, len(recorded))
	require.Equal(t, recorded, follows(t, s.ada(), answer, "").rest())

	elapsed.Store(int64(5*time.Minute + time.Second))
	stored := follows(t, s.ada(), answer, "").rest()
	require.Equal(t, []string{"assistant", "hub", "done"}, names(stored))
	require.Equal(t, whole, textOf(stored))
	require.Equal(t, messages(s.ada(), path)[1]["content"], stored[0].data["message"].(object)["content"])
	require.Equal(t, recorded[end-1].raw, stored[1].raw, "hub.saved")
	require.Equal(t, []string{"hub", "done"}, names(follows(t, s.ada(), answer, stored[0].id).rest()))
	s.ended(answer, stored[2].id)
	for i, ev := range recorded {
		rest := follows(t, s.ada(), answer, ev.id).rest()
		require.Equal(t, "hub.gap", rest[0].data["type"])
		require.Equal(t, whole, textOf(append(recorded[:i+1:i+1], rest...)))
	}
	for _, id := range []string{"x", "stored-1-1-00000000", "stored--1-0-00000000", "stored-9999999999999999999-0-00000000", strings.Repeat("9", 10_000)} {
		require.Equal(t, whole, textOf(follows(t, s.ada(), answer, id).rest()), id)
	}
}

// A hub that does not have the events of an answer sends what is stored, and each part of it once.
func TestAReaderAtAnotherReplica(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		gate := make(chan struct{})
		a, b := open(t, url), open(t, url)
		a.deploy(gated(gate)(t))
		b.endpoint.Store(a.endpoint.Load())
		path := session(a.ada())
		answer := begins(t, a.ada(), path)
		reader := follows(t, b.ada(), answer, "")
		events := []event{reader.until("hub")}
		require.Equal(t, "hub", events[0].data["type"])
		for !strings.HasPrefix(textOf(events), "I look.") {
			ev, ok := reader.next()
			require.True(t, ok)
			events = append(events, ev)
		}
		reader.cancel()
		again := follows(t, b.ada(), answer, reader.events.LastEventID())
		gate <- struct{}{}
		events = append(events, again.rest()...)
		for _, ev := range events {
			require.NotEqual(t, "hub.gap", ev.data["type"])
		}
		require.Equal(t, whole, textOf(events))
		require.Equal(t, "completed", last(events))
		var texts, blocks []any
		for _, ev := range events {
			switch ev.name {
			case "partial_message":
				texts = append(texts, ev.data["partial"].(object)["text"])
			case "assistant":
				blocks = append(blocks, ev.data["message"].(object)["content"].([]any)...)
			}
		}
		require.Contains(t, "I look.Nothing is here.", fmt.Sprint(texts...), "nothing is sent twice")
		require.Equal(t, messages(b.ada(), path)[1]["content"], blocks)
	}, series...)
}

// A reader at another hub gets each part of the text of a long answer while it is in progress.
func TestWordsAtAnotherReplica(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		a, b := open(t, url), open(t, url)
		more := make(chan struct{})
		long := strings.Repeat("x", 10_000)
		a.serve(hostile(func(write func(string) bool, _ <-chan struct{}) {
			write(fmt.Sprintf(partial, long))
			for range more {
				write(fmt.Sprintf(partial, "y"))
			}
			write(success)
		}))
		path := session(a.ada())
		answer := begins(t, a.ada(), path)
		var readers []*stream
		var all [3][]event
		for range all {
			readers = append(readers, follows(t, b.ada(), answer, ""))
		}
		text := long
		for range 3 {
			for i, reader := range readers {
				for textOf(all[i]) != text {
					ev, ok := reader.next()
					require.True(t, ok)
					all[i] = append(all[i], ev)
				}
			}
			more <- struct{}{}
			text += "y"
		}
		close(more)
		for i, reader := range readers {
			all[i] = append(all[i], reader.rest()...)
			require.Equal(t, text, textOf(all[i]))
			require.Equal(t, "completed", last(all[i]))
		}
	}, series...)
}

// A reader that is too late for some events gets a gap and the answer so far.
func TestAReaderThatIsTooLate(t *testing.T) {
	for name, body := range map[string]object{"of an answer that continues": continuing, "of one without a journal": {"message": "hello"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, url string) {
				s := open(t, url, patient)
				gate := make(chan struct{})
				output := strings.Repeat("x", 1<<20)
				s.serve(hostile(func(write func(string) bool, _ <-chan struct{}) {
					write(fmt.Sprintf(partial, "One "))
					write(events("assistant", object{"message": object{"content": []any{object{"type": "text", "text": "One two."}}}}))
					for range 12 {
						write(events("tool_result", object{"result": object{"tool_use_id": "t", "tool_name": "n", "output": output}}))
					}
					write(fmt.Sprintf(partial, "Three "))
					<-gate
					write(fmt.Sprintf(partial, "four."))
					write(events("assistant", object{"message": object{"content": []any{object{"type": "text", "text": "Three four."}}}}))
					write(success)
				}))
				path := session(s.ada())
				first := send(t, s.ada(), path, body)
				begun := first.until("hub")
				first.until("partial_message")
				first.until("partial_message")
				answer := answerOf(path, begun)
				late := follows(t, s.ada(), answer, "")
				all := []event{late.until("hub"), late.until("hub")}
				require.Equal(t, begun.raw, all[0].raw)
				require.Equal(t, "hub.gap", all[1].data["type"])
				for textOf(all) != "One two.\n\nThree " {
					ev, ok := late.next()
					require.True(t, ok)
					all = append(all, ev)
				}
				close(gate)
				rest := late.rest()
				require.Equal(t, "One two.\n\nThree four.", textOf(append(all, rest...)))
				of := first.rest()
				require.Len(t, rest, len(of))
				for i := range of {
					require.Equal(t, of[i].raw, rest[i].raw)
				}
				if name == "of an answer that continues" {
					after := follows(t, s.ada(), answer, begun.id).rest() // the end is stored
					require.Equal(t, "hub.gap", after[0].data["type"])
					require.Equal(t, "One two.\n\nThree four.", textOf(after))
				}
			}, series...)
		})
	}
}

// An answer is cancelled from another connection, and at another replica, while its client is gone.
func TestCancelOfAnAnswer(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		a, b := open(t, url), open(t, url)
		for _, by := range []*server{a, b} {
			up := hanging(t)
			a.deploy(up)
			b.endpoint.Store(a.endpoint.Load())
			path := session(a.ada())
			first := send(t, a.ada(), path, continuing)
			answer := answerOf(path, first.until("hub"))
			first.until("partial_message")
			first.cancel()
			by.As("acme", "bob", rbac.Admin).Post(answer+"/cancel", nil).Error(http.StatusNotFound, wire.NotFound)
			by.As("zeta", "ada", rbac.Member).Post(answer+"/cancel", nil).Error(http.StatusNotFound, wire.NotFound)
			by.ada().Post(path+"/messages/x/cancel", nil).Error(http.StatusNotFound, wire.NotFound)
			require.Equal(t, "partial", messages(by.ada(), path)[1]["status"])
			reader := follows(t, by.ada(), answer, "")
			require.Equal(t, "cancelling", by.ada().Post(answer+"/cancel", nil).Want(http.StatusAccepted)["state"])
			<-up.Await(t, 1).Closed()
			require.Equal(t, "cancelled", last(reader.rest()))
			eventually(t, by.ada(), path)
			by.ada().Post(answer+"/cancel", nil).Error(http.StatusConflict, wire.Conflict)
		}
	}, series...)
}

// Administrators read the answers of all users and cancel them, and a member only reads its own.
func TestAdministratorsFollowAnswers(t *testing.T) {
	with(t, hanging, func(t *testing.T, s *server) {
		path := session(s.ada())
		of := strings.TrimPrefix(begins(t, s.ada(), path), sessions)
		max, bob := s.As("acme", "max", rbac.Maintainer), s.As("acme", "bob", rbac.Member)
		reader := follows(t, max, admin+of, "")
		reader.until("partial_message")
		bob.Get(admin+of+"/events").Error(http.StatusNotFound, wire.NotFound)
		bob.Get(sessions+of+"/events").Error(http.StatusNotFound, wire.NotFound)
		bob.Post(admin+of+"/cancel", nil).Error(http.StatusForbidden, wire.Forbidden)
		s.As("zeta", "eve", rbac.Admin).Get(admin+of+"/events").Error(http.StatusNotFound, wire.NotFound)
		follows(t, s.ada(), admin+of, "").until("partial_message")
		max.Post(admin+of+"/cancel", nil).Want(http.StatusAccepted)
		require.Equal(t, "cancelled", last(reader.rest()))
		require.Len(t, s.Audit("acme"), 1)
		require.Contains(t, s.Audit("acme")[0], "agent.cancel_run helper")
		max.Post(admin+of+"/cancel", nil).Error(http.StatusConflict, wire.Conflict)
		max.Get(admin+strings.Replace(of, "/messages/", "/messages/x", 1)+"/events").Error(http.StatusNotFound, wire.NotFound)
		user := messages(s.ada(), path)[0]["id"].(string)
		s.ada().Get(path+"/messages/"+user+"/events").Error(http.StatusNotFound, wire.NotFound)
		require.Empty(t, s.ada().Do(http.MethodHead, sessions+of+"/events", nil).Text)
	})
}

// A reader of an answer whose hub is killed gets an error, and what is stored.
func TestAReaderOfAKilledHub(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		s := open(t, url, quiet, func(c *config) { c.lease = time.Second })
		hub := startRole(t, "hub", startRole(t, "runtime", hanging(t).URL, "").url, url)
		path := session(s.ada())
		res, err := http.Post(hub.url+path+"/messages", "application/json", strings.NewReader(`{"message":"hello","background":true}`))
		require.NoError(t, err)
		require.Equal(t, http.StatusAccepted, res.StatusCode)
		var ids bodies.ChatMessageIDs
		require.NoError(t, json.NewDecoder(res.Body).Decode(&ids))
		require.NoError(t, res.Body.Close())
		answer := path + "/messages/" + ids.AssistantMessageID
		reader := follows(t, s.ada(), answer, "")
		all := []event{reader.until("hub"), reader.until("partial_message")}
		require.NoError(t, syscall.Kill(hub.pid, syscall.SIGKILL))
		all = append(all, reader.rest()...)
		require.Equal(t, "partial", last(all))
		require.Equal(t, []string{"error", "hub", "done"}, names(all[len(all)-3:]))
		require.Equal(t, "Half an answer", textOf(all))
		require.Equal(t, "partial", messages(s.ada(), path)[1]["status"])
		again := follows(t, s.ada(), answer, "").rest()
		require.Equal(t, []string{"assistant", "error", "hub", "done"}, names(again[len(again)-4:]))
	}, series...)
}
