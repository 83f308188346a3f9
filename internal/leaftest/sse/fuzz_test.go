package sse_test

import (
	"bytes"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/sse"
)

// pieces returns a stream in pieces whose sizes are those of cuts, repeatedly.
type pieces struct {
	r    io.Reader
	cuts []byte
	at   int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.cuts) > 0 {
		n := int(p.cuts[p.at%len(p.cuts)])%16 + 1
		p.at++
		b = b[:min(n, len(b))]
	}
	return p.r.Read(b)
}

func FuzzDecoder(f *testing.F) {
	for _, row := range rules {
		f.Add([]byte(row.stream), []byte{1, 2, 7})
		f.Add([]byte(strings.ReplaceAll(row.stream, "\n", "\r\n")), []byte{})
	}
	f.Add([]byte(strings.Repeat("data: a\r", 900)+"\r"), []byte{15, 0})
	f.Fuzz(func(t *testing.T, stream, cuts []byte) {
		want := reference(stream)
		require.Equal(t, want, drain(sse.NewDecoder(bytes.NewReader(stream)), false))
		require.Equal(t, want, drain(sse.NewDecoder(bytes.NewReader(stream)), true))
		require.Equal(t, want, drain(sse.NewDecoder(&pieces{r: bytes.NewReader(stream), cuts: cuts}), true))
		require.Equal(t, want, drain(sse.NewDecoder(iotest.OneByteReader(bytes.NewReader(stream))), false))
	})
}

func FuzzDecoderLimits(f *testing.F) {
	f.Add([]byte("data: abc\ndata: def\n\nid: 1234567890\n\ndata: x\n\n"), uint8(9), uint8(5))
	f.Add([]byte("data: abc\r\n\r\ndata: abcd"), uint8(9), uint8(200))
	f.Fuzz(func(t *testing.T, stream []byte, line, event uint8) {
		open := func(r io.Reader) outcome {
			d := sse.NewDecoder(r)
			d.SetLimits(int(line), int(event))
			return drain(d, line%2 == 0)
		}
		got := open(bytes.NewReader(stream))
		require.Equal(t, got, open(iotest.OneByteReader(bytes.NewReader(stream))))
		unlimited := reference(stream)
		require.LessOrEqual(t, len(got.Events), len(unlimited.Events))
		for i, ev := range got.Events {
			require.Equal(t, unlimited.Events[i], ev)
			require.True(t, event == 0 || len(ev.Data) <= int(event))
		}
		if !errors.As(got.Err, new(*sse.LimitError)) {
			require.Equal(t, unlimited, got)
		}
	})
}

// normal returns data as it is received: every line break is LF.
func normal(data []byte) []byte {
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	return bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))
}

// FuzzRoundTrip also detects injection: each event is received as one event with the same fields,
// and the next event is unchanged.
func FuzzRoundTrip(f *testing.F) {
	f.Add("token", "1", []byte("{\"a\": \"b\"}"), int64(1500), "comment")
	f.Add("", "", []byte("a\r\rdata: b\n\nid: 7\n"), int64(0), "a\r\ndata: b\r\r")
	f.Add("a\nb", "\x00", []byte{}, int64(-1), "")
	f.Add(" x: ", ": ", []byte("\ufeff \n"), int64(1<<62), "\n")
	f.Fuzz(func(t *testing.T, typ, id string, data []byte, ms int64, comment string) {
		sent := sse.Event{Type: typ, ID: id, Data: data, Retry: time.Duration(ms % (1 << 40) * int64(time.Millisecond))}
		w := httptest.NewRecorder()
		s, err := sse.NewStream(w, sse.StreamConfig{Heartbeat: -1})
		require.NoError(t, err)
		require.NoError(t, s.Comment(comment))
		err = s.Send(sent)
		refused := strings.ContainsAny(typ, "\r\n\x00") || strings.ContainsAny(id, "\r\n\x00")
		require.Equal(t, refused, errors.As(err, new(*sse.FieldError)))
		require.NoError(t, s.Send(sse.Event{Type: "after", Data: []byte("z")}))

		var want []sse.Event
		after := ev("after", "z", "")
		if !refused {
			after.ID = id
			if data != nil || typ != "" || id == "" && sent.Retry <= 0 {
				want = list(sse.Event{Type: typ, ID: id, Data: append([]byte{}, normal(data)...), Retry: max(0, sent.Retry)})
			}
		}
		require.Equal(t, append(want, after), drain(sse.NewDecoder(w.Body), true).Events)
	})
}
