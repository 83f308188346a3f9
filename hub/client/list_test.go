package client_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/client"
	hubwire "github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// An element of a list that cannot be decoded hides only itself, and the client reports it.
func TestAnElementHidesOnlyItself(t *testing.T) {
	const (
		times   = `"createdAt":"2026-01-02T03:04:05.000000Z"`
		session = `{"id":"ok","title":"t",` + times + `,"updatedAt":"2026-01-02T03:04:05.000000Z"}`
		message = `{"id":"ok","content":[{"type":"text","text":"a"}],` + times + `}`
	)
	url := stub(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body := ""
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/messages"):
			body = `{"items":[{"id":"x","content":[],"createdAt":"10000-01-01T00:00:00Z"},` + message + `,{"id":"x","content":[],"text":{"toString":1},` + times + `},
				{"id":"ok","content":[{"toString":1},7,null],` + times + `}],"total":4}`
		case strings.HasSuffix(path, "/transcript"):
			body = `{"items":[{"seq":1,"type":{"a":1}},{"seq":2,"type":"event"},{"seq":3,"time":"+12026-01-01T00:00:00Z"}],"total":3}`
		case strings.HasSuffix(path, "/files"):
			body = `{"path":"","entries":[{"name":"x","mtime":"12026-01-01T00:00:00.000000Z"},{"name":"ok","mtime":"2026-01-02T03:04:05.000000Z"}]}`
		case r.URL.Query().Get("page") == "2":
			body = `{"items":[` + session + `],"total":101}`
		default: // a page of 100, of which one is read
			body = `{"items":[` + session + strings.Repeat(`,{"id":{"toString":1}}`, 99) + `],"total":101}`
		}
		_, _ = io.WriteString(w, body)
	})
	var omitted []string
	c := open(t, client.Config{BaseURL: url, Token: "x", Omitted: func(err error) { omitted = append(omitted, err.Error()) }})
	take := func() int {
		n := len(omitted)
		omitted = nil
		return n
	}
	for _, sessions := range []func(func(hubwire.ChatSession, error) bool){c.Chats.List(t.Context(), "a"), c.History.List(t.Context(), client.HistoryFilter{})} {
		var ids []string
		for one, err := range sessions {
			require.NoError(t, err)
			ids = append(ids, one.ID)
		}
		require.Equal(t, []string{"ok", "ok"}, ids, "of two pages")
		require.Contains(t, omitted[0], "chat/sessions: an element has another form: id must be a string, not object")
		require.Equal(t, 99, take())
	}
	var ids []string
	for one, err := range c.History.Messages(t.Context(), "s", "") {
		require.NoError(t, err)
		ids = append(ids, one.ID)
	}
	require.Equal(t, []string{"ok", "ok"}, ids)
	require.Equal(t, 2, take())
	for one, err := range c.History.Transcript(t.Context(), "s", "") {
		require.NoError(t, err)
		require.EqualValues(t, 2, one.Seq)
	}
	require.Equal(t, 2, take())
	files, err := c.Deployments.Files(t.Context(), "a", "")
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.Equal(t, 1, take())
	silent := open(t, client.Config{BaseURL: url, Token: "x"})
	for _, err := range silent.Chats.List(t.Context(), "a") {
		require.NoError(t, err)
	}
}

// An event of a runtime that has another form hides only itself.
func TestAnEventHidesOnlyItself(t *testing.T) {
	url := stub(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, event := range []string{
			`hub {"type":"hub","sessionId":"s"}`, `assistant {"message":{"content":[{"type":"text","text":{"toString":1}}]}}`, `system {not json`,
			`partial_message {"partial":{"type":"text","text":"a"}}`, `result {"is_error":"no"}`, `done {}`,
		} {
			name, data, _ := strings.Cut(event, " ")
			_, _ = io.WriteString(w, "event: "+name+"\ndata: "+data+"\n\n")
		}
	})
	var names []string
	for event, err := range open(t, client.Config{BaseURL: url, Token: "x"}).Chats.Send(t.Context(), "a", "s", hubwire.ChatMessageRequest{Message: "m"}) {
		require.NoError(t, err)
		name := event.EventName()
		if unknown, ok := event.(*wire.Unknown); ok {
			name = "unknown " + unknown.Name
		}
		names = append(names, name)
	}
	require.Equal(t, []string{"hub", "unknown assistant", "unknown system", "partial_message", "unknown result", "done"}, names)
}
