package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

func TestOpenReturnsEventsAsTheyWereSent(t *testing.T) {
	srv := listen(t, host(t, talker(t), nil))
	c := connect(t, srv.URL)
	for range 2 {
		s, err := c.Open(t.Context(), "helper", hello)
		require.NoError(t, err)
		var names []string
		text := ""
		for {
			ev, err := s.Next()
			require.NoError(t, err)
			names, text = append(names, ev.Type), text+string(ev.Data)
			if ev.Type == "done" {
				break
			}
		}
		require.Equal(t, []string{"system", "partial_message", "assistant", "result", "done"}, names)
		require.Contains(t, text, `{"type":"partial_message","partial":{"type":"text","text":"Hi."}}`)
		require.Greater(t, s.Received(), int64(len(text)))
		require.NoError(t, s.Close())
	}
	require.EqualValues(t, 1, srv.connections.Load(), "the connection is used again")
}

func TestOpenReturnsTheErrorOfTheRuntime(t *testing.T) {
	c := at(t, talker(t))
	_, err := c.Open(t.Context(), "nobody", hello)
	failed, ok := errors.AsType[*client.Error](err)
	require.True(t, ok)
	require.Equal(t, 404, failed.Status)
}

func TestClosingAStreamCancelsItsRun(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("a"), modeltest.Hang()))
	c := at(t, up)
	ctx, cancel := context.WithCancelCause(t.Context())
	s, err := c.Open(ctx, "helper", wire.RunRequest{Message: "hello"})
	require.NoError(t, err)
	for ev, err := s.Next(); ev.Type != "partial_message"; ev, err = s.Next() {
		require.NoError(t, err)
	}
	cause := errors.New("enough")
	cancel(cause)
	_, err = s.Next()
	require.ErrorIs(t, err, cause)
	require.NoError(t, s.Close())
	<-up.Await(t, 1).Closed()
}

// A cancelled stream has the last events of the run. Its connection is not used again.
func TestCancelledStream(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("a"), modeltest.Hang())))
	srv := listen(t, host(t, up, nil))
	c := connect(t, srv.URL)
	for run := range int64(2) {
		s, err := c.Open(t.Context(), "helper", hello)
		require.NoError(t, err)
		for ev, err := s.Next(); ev.Type != "partial_message"; ev, err = s.Next() {
			require.NoError(t, err)
		}
		require.NoError(t, s.Cancel())
		ev, err := s.Next()
		for ; ev.Type != "cancelled"; ev, err = s.Next() {
			require.NoError(t, err)
		}
		p, err := wire.DecodeEvent(ev.Type, ev.Data)
		require.NoError(t, err)
		require.Equal(t, wire.ReasonDisconnect, p.(*wire.Cancelled).Reason)
		require.True(t, p.(*wire.Cancelled).Usage.Estimated)
		ev, err = s.Next()
		require.NoError(t, err)
		require.Equal(t, "done", ev.Type)
		require.NoError(t, s.Close())
		require.Equal(t, run+1, srv.connections.Load())
	}
}

// A connection of HTTP/2 has other requests too.
func TestCancelledStreamOfHTTP2(t *testing.T) {
	srv := httptest.NewUnstartedServer(host(t, talker(t), nil))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	c, err := client.New(client.Config{BaseURL: srv.URL, HTTPClient: srv.Client()})
	require.NoError(t, err)
	s, err := c.Open(t.Context(), "helper", hello)
	require.NoError(t, err)
	require.ErrorIs(t, s.Cancel(), errors.ErrUnsupported)
	for ev, err := s.Next(); ev.Type != "done"; ev, err = s.Next() {
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
}

// partialEvent returns the event of a partial message.
func partialEvent(t *testing.T, p wire.Partial) string {
	t.Helper()
	data, err := wire.Event{Payload: &wire.PartialMessage{Partial: p}}.Append(nil)
	require.NoError(t, err)
	event, err := sse.Event{Type: "partial_message", Data: data}.Append(nil)
	require.NoError(t, err)
	return string(event)
}

// Texts returns the events that have exactly the form of the runtime, and Next the others.
func TestTextsOfAStream(t *testing.T) {
	text := func(s string) string { return partialEvent(t, wire.Partial{Type: wire.PartialText, Text: s}) }
	one := text("hello")
	for name, row := range map[string]struct{ stream, texts, rest string }{
		"nothing":              {},
		"one":                  {one, "hello", ""},
		"several":              {one + text("") + text(" 漢😀\"\\\n\r\t\x00\x1f\x7f<&>\u2028\uFFFD"), "hello 漢😀\"\\\n\r\t\x00\x1f\x7f<&>\u2028\uFFFD", ""},
		"a part of the next":   {one + one[:len(one)-1], "hello", one[:len(one)-1]},
		"another event":        {one + "event: done\ndata: {}\n\n" + one, "hello", "event: done\ndata: {}\n\n" + one},
		"thinking":             {stream: partialEvent(t, wire.Partial{Type: wire.PartialThinking, Text: "hm"})},
		"a call":               {stream: partialEvent(t, wire.Partial{Type: wire.PartialToolUse, ToolName: "Read", ToolUseID: "t"})},
		"a comment":            {stream: ": ping\n\n" + one},
		"an id":                {stream: "id: 1\n" + one},
		"another field":        {stream: strings.Replace(one, `"}}`, `","later":1}}`, 1)},
		"a second text":        {stream: strings.Replace(one, `"}}`, `","text":"x"}}`, 1)},
		"a second line":        {stream: strings.Replace(one, "\n\n", "\ndata: x\n\n", 1)},
		"other line ends":      {stream: strings.ReplaceAll(one, "\n", "\r\n")},
		"a line in the text":   {stream: strings.Replace(one, "ll", "l\nl", 1)},
		"CR in the text":       {stream: strings.Replace(one, "ll", "l\rl", 1)},
		"NUL in the text":      {stream: strings.Replace(one, "ll", "l\x00l", 1)},
		"invalid UTF-8":        {stream: strings.Replace(one, "ll", "l\xffl", 1)},
		"another escape":       {stream: strings.Replace(one, "ll", `l\/l`, 1)},
		"an escaped letter":    {stream: strings.Replace(one, "ll", `l\u006c`, 1)},
		"upper case in escape": {stream: strings.Replace(one, "ll", `l\u001Fl`, 1)},
		"a longer escape":      {stream: strings.Replace(one, "ll", `l\u000al`, 1)},
		"an escape at the end": {stream: strings.Replace(one, `hello"}}`, `hello\"}}`, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			if row.texts == "" && row.rest == "" {
				row.rest = row.stream
			}
			c := connect(t, listen(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, "event: first\ndata: {}\n\n"+row.stream)
			})).URL)
			s, err := c.Open(t.Context(), "helper", hello)
			require.NoError(t, err)
			_, err = s.Next()
			require.NoError(t, err)
			texts, events := s.Texts([]byte("before "))
			require.Equal(t, "before "+row.texts, string(texts))
			require.Equal(t, row.stream, string(events)+row.rest)
			require.NoError(t, s.Close())
		})
	}
}
