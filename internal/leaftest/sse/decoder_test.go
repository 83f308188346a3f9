package sse_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/sse"
)

func ev(typ, data, id string) sse.Event {
	return sse.Event{Type: typ, Data: []byte(data), ID: id}
}

func list(events ...sse.Event) []sse.Event { return events }

// Each row is a rule of section 9.2.6 or an example of it. Rows use LF; all of them also run with
// CR and CRLF, except those about line ends.
var rules = []struct {
	name   string
	stream string
	want   []sse.Event
	lastID string
	retry  time.Duration // -1: set to zero
}{
	{name: "empty stream"},
	{name: "example stock ticker", stream: "data: YHOO\ndata: +2\ndata: 10\n\n", want: list(ev("", "YHOO\n+2\n10", ""))},
	{
		name:   "example four blocks",
		stream: ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n",
		want:   list(ev("", "first event", "1"), ev("", "second event", "")),
	},
	{
		name:   "example third block completed",
		stream: "data: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
		want:   list(ev("", "first event", "1"), ev("", "second event", ""), ev("", " third event", "")),
	},
	{name: "example empty data lines", stream: "data\n\ndata\ndata\n\ndata:", want: list(ev("", "", ""), ev("", "\n", ""))},
	{name: "example space after colon ignored", stream: "data:test\n\ndata: test\n\n", want: list(ev("", "test", ""), ev("", "test", ""))},
	{
		name:   "example add and remove",
		stream: "event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\n",
		want:   list(ev("add", "73857293", ""), ev("remove", "2153", "")),
	},
	{name: "one leading BOM is ignored", stream: "\ufeffdata: a\n\n", want: list(ev("", "a", ""))},
	{name: "a second BOM is part of the field name", stream: "\ufeff\ufeffdata: a\n\ndata: b\n\n", want: list(ev("", "b", ""))},
	{name: "a later BOM is not ignored", stream: "data: a\n\n\ufeffdata: b\n\n", want: list(ev("", "a", ""))},
	{name: "half a BOM is a field name", stream: "\xef\xbbdata: a\n\ndata: b\n\n", want: list(ev("", "b", ""))},
	{name: "only a BOM", stream: "\ufeff"},
	{name: "BOM before an empty line", stream: "\ufeff\ndata: a\n\n", want: list(ev("", "a", ""))},
	{name: "only one leading space is removed", stream: "data:  a \n\n", want: list(ev("", " a ", ""))},
	{name: "a tab is no space", stream: "data:\ta\n\n", want: list(ev("", "\ta", ""))},
	{name: "a value may hold colons", stream: "data: a: b:c\n\n", want: list(ev("", "a: b:c", ""))},
	{name: "a line without colon is a field with an empty value", stream: "data\ndata: a\n\n", want: list(ev("", "\na", ""))},
	{name: "a data line that is one space", stream: "data: \n\n", want: list(ev("", "", ""))},
	{name: "trailing newline in data", stream: "data: a\ndata\n\n", want: list(ev("", "a\n", ""))},
	{name: "comment lines are ignored", stream: ":\n: a\n:data: b\ndata: c\n: d\ndata: e\n\n", want: list(ev("", "c\ne", ""))},
	{name: "unknown fields are ignored", stream: "foo: 1\ndatas: 2\ndat: 3\nbar\ndata: a\n\n", want: list(ev("", "a", ""))},
	{name: "field names are case-sensitive", stream: "Data: a\nDATA: b\ndata: c\n\n", want: list(ev("", "c", ""))},
	{name: "a field name may not have spaces around", stream: " data: a\ndata : b\ndata: c\n\n", want: list(ev("", "c", ""))},
	{name: "the last event line counts", stream: "event: a\nevent: b\ndata: c\n\n", want: list(ev("b", "c", ""))},
	{name: "an empty event line is the default type", stream: "event: a\nevent\ndata: c\n\n", want: list(ev("", "c", ""))},
	{name: "the type ends with its event", stream: "event: a\ndata: b\n\ndata: c\n\n", want: list(ev("a", "b", ""), ev("", "c", ""))},
	{name: "an event without data is not dispatched and resets the type", stream: "event: a\n\ndata: b\n\n", want: list(ev("", "b", ""))},
	{name: "several empty lines dispatch once", stream: "\n\ndata: a\n\n\n\ndata: b\n\n\n", want: list(ev("", "a", ""), ev("", "b", ""))},
	{name: "an incomplete last event is discarded", stream: "data: a\n\ndata: b\n", want: list(ev("", "a", ""))},
	{name: "an incomplete last line is discarded", stream: "data: a\n\nevent: b", want: list(ev("", "a", ""))},
	{name: "the id stays in force", stream: "id: 1\ndata: a\n\ndata: b\n\n", want: list(ev("", "a", "1"), ev("", "b", "1")), lastID: "1"},
	{name: "an empty id resets it", stream: "id: 1\ndata: a\n\nid:\ndata: b\n\n", want: list(ev("", "a", "1"), ev("", "b", ""))},
	{name: "an id with NUL is ignored", stream: "id: 1\ndata: a\n\nid: 2\x003\ndata: b\n\n", want: list(ev("", "a", "1"), ev("", "b", "1")), lastID: "1"},
	{name: "an id without data counts", stream: "id: 7\n\n", lastID: "7"},
	{name: "an id of an incomplete event does not count", stream: "id: 1\ndata: a\n\nid: 2\ndata: b\n", want: list(ev("", "a", "1")), lastID: "1"},
	{name: "retry of digits", stream: "retry: 1500\ndata: a\n\ndata: b\n\n", retry: 1500 * time.Millisecond, want: list(
		sse.Event{Data: []byte("a"), Retry: 1500 * time.Millisecond}, ev("", "b", ""))},
	{name: "retry takes effect without an event", stream: "retry: 20\n", retry: 20 * time.Millisecond},
	{name: "retry of a block without data is not the next event's", stream: "retry: 20\n\ndata: a\n\n", retry: 20 * time.Millisecond, want: list(ev("", "a", ""))},
	{name: "retry of zero", stream: "retry: 0\n", retry: -1},
	{name: "retry with a sign is ignored", stream: "retry: -1\nretry: +1\n"},
	{name: "retry with anything but digits is ignored", stream: "retry: 1s\nretry: 1.5\nretry:  1\nretry: 1 \nretry: ١\n"},
	{name: "retry without a value is ignored", stream: "retry\nretry:\nretry: \n"},
	{name: "retry past what fits is the longest", stream: "retry: 99999999999999999999999\n", retry: 9223372036854 * time.Millisecond},
	{name: "multi-byte characters", stream: "event: grüße\nid: 世\ndata: 界 \U0001F600\n\n", want: list(ev("grüße", "界 \U0001F600", "世")), lastID: "世"},
	{name: "invalid UTF-8 is passed on", stream: "data: \xff\xe2\x82\n\n", want: list(ev("", "\xff\xe2\x82", ""))},
	{name: "NUL in data is data", stream: "data: a\x00b\n\n", want: list(ev("", "a\x00b", ""))},
	{name: "line ends may be mixed", stream: "data: a\r\ndata: b\rdata: c\n\rdata: d\r\r\ndata: e\n\r\n", want: list(ev("", "a\nb\nc", ""), ev("", "d", ""), ev("", "e", ""))},
	{name: "CRLF is one line end", stream: "data: a\r\ndata: b\r\n\r\n", want: list(ev("", "a\nb", ""))},
	{name: "LF CR is two line ends", stream: "data: a\n\rdata: b\n\r", want: list(ev("", "a", ""), ev("", "b", ""))},
}

func TestDecoderRules(t *testing.T) {
	for _, row := range rules {
		want := outcome{Events: row.want, LastID: row.lastID, Retry: max(0, row.retry), HasRetry: row.retry != 0, Err: io.EOF}
		for end, name := range map[string]string{"\n": "LF", "\r": "CR", "\r\n": "CRLF"} {
			if end != "\n" && strings.Contains(row.stream, "\r") {
				continue
			}
			stream := []byte(strings.ReplaceAll(row.stream, "\n", end))
			t.Run(row.name+"/"+name, func(t *testing.T) {
				require.Equal(t, want, reference(stream), "reference")
				for kind, open := range chunked(stream) {
					require.Equal(t, want, drain(sse.NewDecoder(open()), false), kind)
					require.Equal(t, want, drain(sse.NewDecoder(open()), true), "%s, looking ahead", kind)
				}
				for at := range stream {
					require.Equal(t, want, drain(sse.NewDecoder(splitAt(stream, at)), true), "split at %d", at)
				}
			})
		}
	}
}

// script returns one chunk for each Read and counts the reads.
type script struct {
	chunks []string
	reads  int
	sizes  []int // of the buffers passed to Read
	err    error // after the chunks; io.EOF if nil
}

func (s *script) Read(p []byte) (int, error) {
	s.sizes = append(s.sizes, len(p))
	s.reads++
	if len(s.chunks) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		return 0, io.EOF
	}
	n := copy(p, s.chunks[0])
	if s.chunks[0] = s.chunks[0][n:]; s.chunks[0] == "" {
		s.chunks = s.chunks[1:]
	}
	return n, nil
}

func TestDecoderDoesNotWait(t *testing.T) {
	for _, row := range []struct{ name, first string }{
		{"LF", "data: a\n\n"},
		{"CRLF", "data: a\r\n\r\n"},
		{"CR at the end of what was sent", "data: a\r\r"},
		{"CRLF cut before its LF", "data: a\r\n\r"},
		{"BOM before", "\ufeffdata: a\n\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := &script{chunks: []string{row.first, "\ndata: b\n\n"}}
			d := sse.NewDecoder(r)
			got, err := d.Next()
			require.NoError(t, err)
			require.Equal(t, "a", string(got.Data))
			require.Equal(t, 1, r.reads, "an event that is complete must not wait for another byte")
			require.False(t, d.Buffered())
			require.Equal(t, 1, r.reads, "Buffered must not read")
			got, err = d.Next()
			require.NoError(t, err)
			require.Equal(t, "b", string(got.Data))
		})
	}
}

// Take passes only bytes that begin an event, and its events do not change the following ones.
func TestTake(t *testing.T) {
	const event = "event: a\ndata: 1\n\n"
	for name, row := range map[string]struct {
		stream string
		taken  int
		want   []string
	}{
		"the next events":      {event + event + event + "data: 2\n\n", 2, []string{"a1", "2"}},
		"a part":               {event + event + event[:5], 1, []string{"a1"}},
		"after a comment":      {event + ": ping\n\n" + event, 0, []string{"a1", "a1"}},
		"after a CR":           {"data: 1\r\r\n" + event, 1, []string{"1"}},
		"after an id":          {"id: 7\n" + event + event + "data: 2\n\n", 1, []string{"a1/7", "2/7"}},
		"within a large event": {event + "data: " + strings.Repeat("x", 3000) + "\n\n" + event, 0, []string{"a1", strings.Repeat("x", 3000), "a1"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := sse.NewDecoder(strings.NewReader(row.stream))
			taken, got := 0, []string(nil)
			for ev, err := d.Next(); err == nil; ev, err = d.Next() {
				got = append(got, strings.TrimSuffix(ev.Type+string(ev.Data)+"/"+ev.ID, "/"))
				if len(got) > 1 {
					continue
				}
				d.Take(func(unread []byte) (n int) {
					for strings.HasPrefix(string(unread[n:]), event) {
						n += len(event)
						taken++
					}
					return n
				})
			}
			require.Equal(t, row.taken, taken)
			require.Equal(t, row.want, got)
		})
	}
}
