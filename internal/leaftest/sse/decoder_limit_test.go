package sse_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/sse"
)

func TestDecoderLimits(t *testing.T) {
	const line, event = 20, 30
	for _, row := range []struct {
		name   string
		stream string
		events int
		part   string // "": within the limits
	}{
		{"a line at its limit", "data: " + strings.Repeat("a", 14) + "\n\n", 1, ""},
		{"a line past its limit", "data: " + strings.Repeat("a", 15) + "\n\n", 0, "line"},
		{"an endless line", "data: " + strings.Repeat("a", 10_000), 0, "line"},
		{"an endless comment", ":" + strings.Repeat("a", 10_000), 0, "line"},
		{"line ends are not counted", "data: " + strings.Repeat("a", 14) + "\r\n\r\n", 1, ""},
		{"the BOM is not counted", "\ufeffdata: " + strings.Repeat("a", 14) + "\n\n", 1, ""},
		{"an event at its limit", strings.Repeat("data: 123456789\n", 3) + "data:\n\n", 1, ""},
		{"an event past its limit", strings.Repeat("data: 123456789\n", 3) + "data:1\n\n", 0, "event"},
		{"an endless event", strings.Repeat("data\n", 10_000), 0, "event"},
		{"the count begins anew for each event", strings.Repeat("data: 123456789\ndata\n\n", 100), 100, ""},
		{"an event before the limit is given out", "data: a\n\n" + strings.Repeat("b", 21), 1, "line"},
		{"comments may go on for ever", strings.Repeat(": ping\n", 10_000) + "data\n\n", 1, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			for kind, open := range chunked([]byte(row.stream)) {
				for _, ahead := range []bool{false, true} {
					d := sse.NewDecoder(open())
					d.SetLimits(line, event)
					got := drain(d, ahead)
					require.Len(t, got.Events, row.events, kind)
					if row.part == "" {
						require.Equal(t, io.EOF, got.Err, kind)
						continue
					}
					var limit *sse.LimitError
					require.ErrorAs(t, got.Err, &limit, kind)
					require.Equal(t, row.part, limit.Part, kind)
					require.Equal(t, map[string]int{"line": line, "event": event}[row.part], limit.Limit)
					require.Contains(t, limit.Error(), fmt.Sprintf("%s of more than %d bytes", row.part, limit.Limit))
					_, err := d.Next()
					require.Equal(t, got.Err, err, "the error stays")
				}
			}
		})
	}
}

func TestDecoderNameLimit(t *testing.T) {
	const limit = 10
	long, fits := strings.Repeat("a", limit+1), strings.Repeat("a", limit)
	for name, row := range map[string]struct {
		stream string
		events int
		part   string // "": within the limit
	}{
		"at the limit":             {"event: " + fits + "\nid: " + fits + "\ndata\n\n", 1, ""},
		"data has another limit":   {"data: " + long + "\n\n", 1, ""},
		"other fields are ignored": {"note: " + long + "\ndata\n\n", 1, ""},
		"a name":                   {"data\n\nevent: " + long + "\n", 1, "event name"},
		"a name without a space":   {"event:" + long + "\n", 0, "event name"},
		"an id":                    {"data\n\nid: " + long + "\n", 1, "id"},
		"an id without data":       {"id: " + long + "\n\n", 0, "id"},
		"an id that is ignored":    {"id: \x00" + long + "\n\n", 0, "id"},
	} {
		t.Run(name, func(t *testing.T) {
			for kind, open := range chunked([]byte(row.stream)) {
				d := sse.NewDecoder(open())
				d.SetNameLimit(limit)
				got := drain(d, false)
				require.Len(t, got.Events, row.events, kind)
				if row.part == "" {
					require.Equal(t, io.EOF, got.Err, kind)
					continue
				}
				require.Equal(t, &sse.LimitError{Part: row.part, Limit: limit}, got.Err, kind)
			}
		})
	}
}

func TestDecoderDefaultLimits(t *testing.T) {
	const most = 4 << 20
	for _, row := range []struct {
		name string
		size int
		ok   bool
	}{{"an event of 4 MiB in one line", most, true}, {"one byte more", most + 1, false}} {
		t.Run(row.name, func(t *testing.T) {
			d := sse.NewDecoder(strings.NewReader("data: " + strings.Repeat("a", row.size) + "\n\n"))
			d.SetLimits(0, 0)
			got, err := d.Next()
			if row.ok {
				require.NoError(t, err)
				require.Len(t, got.Data, row.size)
				return
			}
			require.ErrorAs(t, err, new(*sse.LimitError))
		})
	}
}

func TestDecoderMemory(t *testing.T) {
	giant := "data: " + strings.Repeat("a", 1<<20) + "\n\n"
	r := &script{chunks: []string{"data: a\n\n", giant, "data: b\n\n", "data: c\n\n"}}
	var sizes []int
	require.Zero(t, sse.NewDecoder(r).BufferSize())
	d := sse.NewDecoder(r)
	for ev, err := range d.Events() {
		require.NoError(t, err)
		sizes = append(sizes, len(ev.Data))
		require.GreaterOrEqual(t, d.BufferSize(), len(ev.Data))
		require.LessOrEqual(t, d.BufferSize(), max(4*len(ev.Data), 16<<10))
	}
	require.Equal(t, []int{1, 1 << 20, 1, 1}, sizes)
	require.Equal(t, 1<<10, r.sizes[0], "an idle stream has a buffer of 1 KiB")
	require.Equal(t, 1<<10, r.sizes[len(r.sizes)-1], "and so it has after a giant event")
}

func TestDecoderBufferFollowsTheStream(t *testing.T) {
	burst := strings.Repeat("data: "+strings.Repeat("a", 200)+"\n\n", 50)
	r := &script{chunks: append([]string{"data: a\n\n", burst}, slices.Repeat([]string{"data: b\n\n"}, 20)...)}
	for _, err := range sse.NewDecoder(r).Events() {
		require.NoError(t, err)
	}
	require.Equal(t, 1<<10, r.sizes[1])
	require.Greater(t, slices.Max(r.sizes), 15<<10, "one that fills its buffer gets a large one")
	require.Equal(t, 1<<10, r.sizes[len(r.sizes)-1], "which is given back when little comes")
}

func TestDecoderOfAShortBurst(t *testing.T) {
	burst := strings.Repeat("data: "+strings.Repeat("a", 90)+"\n\n", 20)
	r := &script{chunks: []string{burst}}
	d := sse.NewDecoder(r)
	for _, err := range d.Events() {
		require.NoError(t, err)
		require.LessOrEqual(t, d.BufferSize(), 4<<10, "a short response needs no large buffer")
	}
}

func TestDecoderLargeEventsAndManyTypes(t *testing.T) {
	half := strings.Repeat("a", 200<<10)
	var text strings.Builder
	for range 2 {
		fmt.Fprintf(&text, "data: %s\ndata: %s\n\ndata: x\ndata: y\n\n", half, half)
	}
	for i := range 300 { // more than are interned, and some too long for it
		fmt.Fprintf(&text, "event: %s%d\ndata: %d\n\n", strings.Repeat("t", i%100), i%150, i)
	}
	stream := []byte(text.String())
	want := reference(stream)
	for kind, open := range chunked(stream) {
		require.Equal(t, want, drain(sse.NewDecoder(open()), true), kind)
	}
}

func TestDecoderGrowsWithinLimit(t *testing.T) {
	const limit = 10_000
	r := &script{chunks: []string{strings.Repeat("a", 1<<20)}}
	d := sse.NewDecoder(r)
	d.SetLimits(limit, 0)
	_, err := d.Next()
	require.ErrorAs(t, err, new(*sse.LimitError))
	taken := 1<<20 - len(r.chunks[0])
	require.LessOrEqual(t, taken, max(limit+4<<10, 1<<10+16<<10), "bytes read before the line is given up")
}

func TestDecoderBuffered(t *testing.T) {
	r := &script{chunks: []string{
		"data: 1\n\ndata: 2\ndata: two\n\nevent: x\ndata: 3\ndata: three\n\n: ping\n\ndata: 4\n",
		"\nid: 9\n\n",
		"data: 5\n\nretry: 5\n\n",
	}}
	d := sse.NewDecoder(r)
	require.False(t, d.Buffered(), "before the first read")
	for _, row := range []struct {
		data  string
		ahead bool
		reads int
	}{
		{"1", true, 1},
		{"2\ntwo", true, 1},
		{"3\nthree", false, 1}, // a comment and an incomplete event are not events
		{"4", false, 2},
		{"5", false, 3},
	} {
		ev, err := d.Next()
		require.NoError(t, err)
		require.Equal(t, row.reads, r.reads, row.data)
		require.Equal(t, row.ahead, d.Buffered(), row.data)
		require.Equal(t, row.data, string(ev.Data), "the event must survive Buffered")
		require.Equal(t, map[bool]string{true: "9"}[row.data == "5"], d.LastEventID(), "the ID is the one as of Next")
		_, has := d.Retry()
		require.False(t, has)
	}
	_, err := d.Next()
	require.Equal(t, io.EOF, err)
	_, has := d.Retry()
	require.True(t, has)
}

func TestDecoderReaderErrors(t *testing.T) {
	broken := errors.New("broken pipe")
	for _, row := range []struct {
		name string
		r    io.Reader
		want error
	}{
		{"an error after an event", &script{chunks: []string{"data: a\n\ndata: b"}, err: broken}, broken},
		{"an error beside the last bytes", iotest.DataErrReader(&script{chunks: []string{"data: a\n\n"}, err: broken}), broken},
		{"a connection cut off", &script{chunks: []string{"data: a\n\n"}, err: io.ErrUnexpectedEOF}, io.ErrUnexpectedEOF},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := sse.NewDecoder(row.r)
			var events int
			var last error
			for ev, err := range d.Events() {
				if last = err; err == nil {
					require.Equal(t, "a", string(ev.Data))
					events++
				}
			}
			require.Equal(t, 1, events, "what came before the error is given out")
			require.ErrorIs(t, last, row.want)
			_, again := d.Next()
			require.Equal(t, last, again)
		})
	}
}

type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func TestDecoderUnusualReaders(t *testing.T) {
	for _, row := range []struct {
		name string
		read readFunc
		want string
	}{
		{"never returns anything", func([]byte) (int, error) { return 0, nil }, io.ErrNoProgress.Error()},
		{"a count below zero", func([]byte) (int, error) { return -1, nil }, "impossible count"},
		{"a count past the buffer", func(p []byte) (int, error) { return len(p) + 1, nil }, "impossible count"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := sse.NewDecoder(row.read).Next()
			require.ErrorContains(t, err, row.want)
		})
	}
}

func TestDecoderDataIsValidUntilNext(t *testing.T) {
	d := sse.NewDecoder(strings.NewReader("data: a\n\ndata: b\n\n"))
	ev, err := d.Next()
	require.NoError(t, err)
	_ = append(ev.Data, "overwrites it"...) // must not write into the second event
	kept := ev.Clone()
	ev, err = d.Next()
	require.NoError(t, err)
	require.Equal(t, "b", string(ev.Data))
	require.Equal(t, "a", string(kept.Data))
}

func TestDecoderEventsStops(t *testing.T) {
	d := sse.NewDecoder(strings.NewReader("data: a\n\ndata: b\n\n"))
	for _, err := range d.Events() {
		require.NoError(t, err)
		break
	}
	ev, err := d.Next()
	require.NoError(t, err)
	require.Equal(t, "b", string(ev.Data), "a loop left early loses nothing")
}

// loop is an endless stream.
type loop struct {
	text []byte
	at   int
}

func (l *loop) Read(p []byte) (int, error) {
	n := copy(p, l.text[l.at:])
	l.at = (l.at + n) % len(l.text)
	return n, nil
}

func TestDecoderAllocatesNothing(t *testing.T) {
	one := bytes.Repeat([]byte("a"), 200)
	for _, row := range []struct{ name, text string }{
		{"one data line", fmt.Sprintf("event: x\ndata: %s\n\n", one)},
		{"several data lines", fmt.Sprintf("id: 1\ndata: %s\ndata: %s\n\n", one, one)},
		{"types in turn", fmt.Sprintf("event: x\ndata: %s\n\nevent: yy\ndata: %s\n\nevent: zzz\ndata\n\n", one, one)},
		{"CR", fmt.Sprintf("event: x\rdata: %s\r\r", one)},
		{"60 KiB", fmt.Sprintf("data: %s\n\n", bytes.Repeat(one, 300))},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := sse.NewDecoder(&loop{text: []byte(row.text)})
			step := func() {
				for range 50 {
					_, err := d.Next()
					require.NoError(t, err)
					d.Buffered()
				}
			}
			step()
			require.Zero(t, testing.AllocsPerRun(20, step))
		})
	}
}
