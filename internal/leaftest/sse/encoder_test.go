package sse_test

import (
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/sse"
)

func TestAppendEvent(t *testing.T) {
	for _, row := range []struct {
		name  string
		event sse.Event
		want  string
	}{
		{"data", sse.Event{Data: []byte("a")}, "data: a\n\n"},
		{"all fields", sse.Event{Type: "t", ID: "1", Retry: 1500 * time.Millisecond, Data: []byte("a")},
			"event: t\nid: 1\nretry: 1500\ndata: a\n\n"},
		{"LF separates lines", sse.Event{Data: []byte("a\nb")}, "data: a\ndata: b\n\n"},
		{"CR separates lines", sse.Event{Data: []byte("a\revent: b")}, "data: a\ndata: event: b\n\n"},
		{"CRLF separates lines once", sse.Event{Data: []byte("a\r\nb")}, "data: a\ndata: b\n\n"},
		{"LF CR separates twice", sse.Event{Data: []byte("a\n\rb")}, "data: a\ndata: \ndata: b\n\n"},
		{"trailing newline", sse.Event{Data: []byte("a\n")}, "data: a\ndata: \n\n"},
		{"only newlines", sse.Event{Data: []byte("\n\n")}, "data: \ndata: \ndata: \n\n"},
		{"leading space survives", sse.Event{Type: " t", ID: " 1", Data: []byte(" a")}, "event:  t\nid:  1\ndata:  a\n\n"},
		{"a colon is nothing special", sse.Event{Type: "a:b", Data: []byte(":")}, "event: a:b\ndata: :\n\n"},
		{"NUL in data is data", sse.Event{Data: []byte("a\x00")}, "data: a\x00\n\n"},
		{"empty data is dispatched", sse.Event{Data: []byte{}, ID: "1"}, "id: 1\ndata: \n\n"},
		{"only a type is dispatched", sse.Event{Type: "done"}, "event: done\ndata: \n\n"},
		{"zero event is an empty message", sse.Event{}, "data: \n\n"},
		{"only an ID is not an event", sse.Event{ID: "1"}, "id: 1\n\n"},
		{"only a retry is not an event", sse.Event{Retry: time.Second}, "retry: 1000\n\n"},
		{"a retry below a millisecond is one", sse.Event{Retry: 1}, "retry: 1\n\n"},
		{"the longest retry", sse.Event{Retry: math.MaxInt64}, "retry: 9223372036854\n\n"},
		{"a retry below zero is none", sse.Event{Retry: -time.Second}, "data: \n\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := row.event.Append([]byte("before"))
			require.NoError(t, err)
			require.Equal(t, "before"+row.want, string(got))
		})
	}
}

func TestAppendEventRejectsInjection(t *testing.T) {
	for _, bad := range []string{"\r", "\n", "\x00"} {
		var places []string // an invalid character at each position of types of each length
		for size := range 20 {
			for at := range size + 1 {
				places = append(places, strings.Repeat("x", at)+bad+strings.Repeat("\xff", size-at))
			}
		}
		for _, at := range places {
			for field, ev := range map[string]sse.Event{"event": {Type: at}, "id": {ID: at}} {
				dst := []byte("before")
				got, err := ev.Append(dst)
				var refused *sse.FieldError
				require.ErrorAs(t, err, &refused)
				require.Equal(t, sse.FieldError{Field: field, Char: bad[0]}, *refused)
				require.Contains(t, err.Error(), field+" field holds '\\")
				require.Equal(t, "before", string(got))

				w := httptest.NewRecorder()
				s, err := sse.NewStream(w, sse.StreamConfig{Heartbeat: -1})
				require.NoError(t, err)
				require.ErrorAs(t, s.Send(ev), &refused)
				require.Zero(t, w.Body.Len(), "nothing is written")
				require.NoError(t, s.Send(sse.Event{Data: []byte("a")}), "the stream can be used")
			}
		}
	}
}

func TestStreamComment(t *testing.T) {
	for _, row := range []struct{ name, text, want string }{
		{"text", "ping", ": ping\n\n"},
		{"empty", "", ": \n\n"},
		{"LF", "a\ndata: b", ": a\n: data: b\n\n"},
		{"CR", "a\rdata: b", ": a\n: data: b\n\n"},
		{"CRLF", "a\r\n\r\ndata: b", ": a\n: \n: data: b\n\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			s, err := sse.NewStream(w, sse.StreamConfig{Heartbeat: -1})
			require.NoError(t, err)
			require.NoError(t, s.Comment(row.text))
			require.Equal(t, row.want, w.Body.String())
			require.Empty(t, drain(sse.NewDecoder(w.Body), false).Events)
		})
	}
}
