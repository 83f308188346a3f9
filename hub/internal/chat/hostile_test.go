package chat_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// impatient shortens the time limits of a runtime.
func impatient(cfg *config) {
	cfg.Relay.OpenTimeout, cfg.Relay.IdleTimeout, cfg.Relay.RunTimeout, cfg.Relay.SaveEvery = 200*time.Millisecond, 300*time.Millisecond, 2*time.Second, 200*time.Millisecond
}

// hostile returns a runtime that begins an event stream and continues with f for each run.
func hostile(f func(write func(string) bool, gone <-chan struct{})) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/runs") { // a cancel
			http.NotFound(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Set-Cookie", "a=b")
		f(func(text string) bool {
			_, err := io.WriteString(w, text)
			return err == nil && http.NewResponseController(w).Flush() == nil && r.Context().Err() == nil
		}, r.Context().Done())
	}
}

const partial = `event: partial_message` + "\n" + `data: {"type":"partial_message","partial":{"type":"text","text":"%s"}}` + "\n\n"

// Each runtime ends its own answer as failed, and the next chat with a good one works.
func TestHostileRuntimes(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t), func(cfg *config) {
		impatient(cfg)
		cfg.Relay.OpenTimeout, cfg.Relay.IdleTimeout = time.Minute, time.Second // all of them accept the run, also on a busy machine
	})
	const (
		tooLong = "The answer is too long or takes too long."
		silent  = "The runtime of the agent does not respond."
		lost    = "The connection to the runtime of the agent was lost."
	)
	long := strings.Repeat("x", 100_000)
	for name, row := range map[string]struct {
		message string
		serve   http.HandlerFunc
	}{
		"endless text": {tooLong, hostile(func(write func(string) bool, _ <-chan struct{}) {
			for write(fmt.Sprintf(partial, long)) {
			}
		})},
		"endless comments": {tooLong, hostile(func(write func(string) bool, _ <-chan struct{}) {
			for write(": ping\n\n") {
			}
		})},
		"giant event": {tooLong, hostile(func(write func(string) bool, _ <-chan struct{}) {
			write("event: assistant\ndata: ")
			for range 60 {
				write(long)
			}
			write("\n\nevent: done\ndata: {}\n\n")
		})},
		"silence": {silent, hostile(func(write func(string) bool, gone <-chan struct{}) {
			write(fmt.Sprintf(partial, "a"))
			<-gone
		})},
		"no done": {lost, hostile(func(write func(string) bool, _ <-chan struct{}) { write(fmt.Sprintf(partial, "a")) })},
	} {
		t.Run(name, func(t *testing.T) {
			s.serve(row.serve)
			ada := s.ada()
			path := session(ada)
			events := say(t, ada, path, "hello")
			n := len(events)
			require.Equal(t, []string{"error", "hub", "done"}, names(events[n-3:]))
			require.Equal(t, "failed", events[n-2].data["status"])
			failed := messages(ada, path)[1]
			require.Equal(t, "failed", failed["status"])
			require.Equal(t, "upstream_failed", failed["error"].(object)["code"])
			require.Equal(t, row.message, failed["error"].(object)["message"])
			require.Equal(t, row.message, events[n-3].data["error"])
		})
	}
	s.deploy(nil)
	ada := s.ada()
	path := session(ada)
	say(t, ada, path, "hello")
	require.Equal(t, "completed", messages(ada, path)[1]["status"])
}

func TestRuntimesThatRespondOtherwise(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t), impatient)
	var followed atomic.Bool
	for name, h := range map[string]http.HandlerFunc{
		"a page":       func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"slow headers": func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); <-r.Context().Done() },
		"a slow error": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusInternalServerError)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			if followed.Store(r.URL.Path == "/other"); r.URL.Path != "/other" {
				http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
			}
		},
		"no response": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			s.serve(h)
			ada := s.ada()
			path := session(ada)
			ada.Post(path+"/messages", object{"message": "hello"}).Error(http.StatusBadGateway, code.UpstreamFailed)
			require.Equal(t, "failed", messages(ada, path)[1]["status"])
		})
	}
	require.False(t, followed.Load())
}

func TestBlocksOfAMessageAreLimited(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	s.serve(hostile(func(write func(string) bool, _ <-chan struct{}) {
		write(`event: assistant` + "\n" + `data: {"message":{"content":[` + strings.Repeat(`{"type":"text","text":"a"},`, 2000) + `0]}}` + "\n\n")
		write("event: result\ndata: {\"subtype\":\"success\"}\n\nevent: done\ndata: {}\n\n")
	}))
	ada := s.ada()
	path := session(ada)
	say(t, ada, path, "hello")
	answer := messages(ada, path)[1]
	require.Equal(t, strings.Repeat("a", 1024), answer["text"])
	require.Len(t, answer["content"], 1024)
}

// A client that stops reading cancels its answer, and holds no more than the buffers of its
// connection.
func TestAStalledClient(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t), func(cfg *config) { cfg.Relay.WriteTimeout = 300 * time.Millisecond })
	ended := make(chan struct{})
	noise := "event: noise\ndata: " + strings.Repeat("x", 100_000) + "\n\n"
	s.serve(hostile(func(write func(string) bool, _ <-chan struct{}) {
		defer close(ended)
		write(fmt.Sprintf(partial, "Half."))
		for range 1000 { // 100 MB
			if !write(noise) {
				return
			}
		}
	}))
	ada := s.ada()
	path := session(ada)
	answer := send(t, ada, path, object{"message": "hello"})
	answer.until("partial_message")
	<-ended // the hub closed the connection
	last := eventually(t, ada, path)
	require.Equal(t, "Half.", last["text"])
}

// Events are forwarded as they were received, except those with the name of the hub's own.
func TestEventsAreNotInterpreted(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	var cookies, count atomic.Int64
	stream := hostile(func(write func(string) bool, _ <-chan struct{}) {
		write("event: hub\ndata: {\"type\":\"hub.saved\",\"messageId\":\"forged\"}\n\n")
		write("event: new\ndata: {not json\n\n")
		write("event: assistant\ndata: {\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"a\\u0000b\xff\"},7,{\"type\":\"image\",\"n\":1}]}}\n\n")
		write("event: system\ndata: {\"subtype\":\"init\",\"session_id\":\"../x\",\"model\":\"m\\u0000\"}\n\n")
		write("event: result\ndata: {\"subtype\":\"success\",\"usage\":{\"input_tokens\":1}}\n\n")
		write("event: result\ndata: {\"is_error\":true}\n\nevent: done\ndata: {}\n\nevent: after\ndata: {}\n\n")
	})
	s.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookies.Add(int64(len(r.Cookies())))
		count.Add(1)
		stream(w, r)
	}))
	ada := s.ada()
	path := session(ada)
	events := say(t, ada, path, "hello")
	require.Equal(t, []string{"hub", "new", "assistant", "system", "result", "result", "hub", "done"}, names(events))
	require.Equal(t, "{not json", events[1].raw)
	require.NotEqual(t, "forged", events[0].data["messageId"])
	answer := messages(ada, path)[1]
	require.Equal(t, "completed", answer["status"])
	require.Equal(t, "a\uFFFDb\uFFFD", answer["text"])
	require.Len(t, answer["content"], 1)
	say(t, ada, path, "again")
	require.Zero(t, cookies.Load())
	require.EqualValues(t, 2, count.Load())
}

// Control characters are six times as long in JSON: the history fits into a request nevertheless.
func TestAHistoryFitsIntoARequest(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	s.deploy(modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("Right.")))))
	long := pushed("s1", day1)
	for _, m := range long["messages"].([]object) {
		m["content"] = strings.Repeat("\x01", 450<<10)
	}
	ada := s.ada()
	require.Equal(t, []string{"created"}, statuses(ada.Post(push, body(long))))
	require.Contains(t, names(say(t, ada, "/api/v1/agents/helper/chat/sessions/s1", "hello")), "result")
}
