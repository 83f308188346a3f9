package client_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

// cutting is a hub that closes each connection after some events of an answer. Those with an id
// are sent after the one that the client has.
type cutting struct {
	each  int // events of a connection
	never bool
	sends atomic.Int32
	reads atomic.Int32
}

func (c *cutting) events(w http.ResponseWriter, after int) {
	all := []string{`hub {"type":"hub","sessionId":"s","userMessageId":"u","assistantMessageId":"a"}`}
	for i := range 10 {
		all = append(all, fmt.Sprintf(`partial_message {"type":"partial_message","partial":{"type":"text","text":"%d "}}`, i))
	}
	all = append(all, `hub {"type":"hub.saved","messageId":"a","status":"completed","usage":{}}`, "done {}")
	w.Header().Set("Content-Type", "text/event-stream")
	for i := after; i < min(after+c.each, len(all)); i++ {
		name, data, _ := strings.Cut(all[i], " ")
		fmt.Fprintf(w, "event: %s\nid: %d\ndata: %s\n\n", name, i+1, data)
	}
	if after+c.each < len(all) {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

func (c *cutting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if r.Method == http.MethodPost {
		switch n := c.sends.Add(1); {
		case c.never && n == 1:
			panic(http.ErrAbortHandler)
		case n > 1:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"userMessage":{"id":"u"},"assistantMessage":{"id":"a"},"status":"partial"}`)
			return
		}
		c.events(w, 0)
		return
	}
	if c.reads.Add(1)%3 == 2 { // a proxy without the hub
		http.Error(w, "no hub", http.StatusBadGateway)
		return
	}
	after := 0
	_, _ = fmt.Sscan(r.Header.Get("Last-Event-ID"), &after)
	c.events(w, after)
}

// An answer that continues is received over several connections: each event once.
func TestAnAnswerIsReceivedOverSeveralConnections(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		hub     *cutting
		send    bool
		message wire.ChatMessageRequest
	}{
		"after its start":          {&cutting{each: 4}, true, wire.ChatMessageRequest{OnDisconnect: "continue"}},
		"after a lost message":     {&cutting{each: 4, never: true}, true, wire.ChatMessageRequest{OnDisconnect: "continue", ClientMessageID: "c"}},
		"by another reader":        {&cutting{each: 5}, false, wire.ChatMessageRequest{}},
		"in one connection":        {&cutting{each: 99}, false, wire.ChatMessageRequest{}},
		"an event of a connection": {&cutting{each: 1}, false, wire.ChatMessageRequest{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(row.hub)
			t.Cleanup(srv.Close)
			c := open(t, client.Config{BaseURL: srv.URL})
			row.message.Message = "m"
			all := c.Chats.Events(t.Context(), "x", "s", "a")
			if row.send {
				all = c.Chats.Send(t.Context(), "x", "s", row.message)
			}
			var text strings.Builder
			var kinds []string
			for event, err := range all {
				require.NoError(t, err)
				if p, ok := event.(*runtimewire.PartialMessage); ok {
					text.WriteString(p.Partial.Text)
					continue
				}
				kinds = append(kinds, fmt.Sprintf("%T", event))
			}
			require.Equal(t, "0 1 2 3 4 5 6 7 8 9 ", text.String())
			require.Equal(t, []string{"*wire.Begun", "*wire.Saved", "*wire.Done"}, kinds)
		})
	}
}

// A hub that has no event after the last one ends the sequence.
func TestAnAnswerWithoutFurtherEvents(t *testing.T) {
	t.Parallel()
	hub := &cutting{each: 4}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Last-Event-ID") != "" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		hub.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	n := 0
	for _, err := range open(t, client.Config{BaseURL: srv.URL}).Chats.Events(t.Context(), "x", "s", "a") {
		require.NoError(t, err)
		n++
	}
	require.Equal(t, hub.each, n)
}

// Without a way to receive it again, an answer whose connection is lost is incomplete, and a
// rejection is not repeated.
func TestAnAnswerThatIsNotReceivedAgain(t *testing.T) {
	t.Parallel()
	hub := &cutting{each: 4}
	srv := httptest.NewServer(hub)
	t.Cleanup(srv.Close)
	c := open(t, client.Config{BaseURL: srv.URL})
	var last error
	for _, err := range c.Chats.Send(t.Context(), "x", "s", wire.ChatMessageRequest{Message: "m"}) {
		last = err
	}
	require.ErrorIs(t, last, client.ErrIncomplete)
	require.Zero(t, hub.reads.Load())

	gone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"code":"not_found","message":"There is no such answer.","requestId":"r"}`)
	}))
	t.Cleanup(gone.Close)
	n := 0
	for _, err := range open(t, client.Config{BaseURL: gone.URL}).Chats.Events(t.Context(), "x", "s", "a") {
		require.ErrorIs(t, err, wire.NotFound)
		n++
	}
	require.Equal(t, 1, n)
}
