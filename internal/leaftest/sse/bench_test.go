package sse_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/seed93082962/agenthost/sse"
)

var token = sse.Event{Type: "partial_message", Data: bytes.Repeat([]byte("t"), 200)}

func BenchmarkEncode(b *testing.B) {
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			buf, _ = token.Append(buf[:0])
		}
	})
	b.Run("naive", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			naiveEncode(io.Discard, token)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	text := []byte(strings.Repeat("event: x\ndata: "+strings.Repeat("t", 200)+"\n\n", 1000))
	b.Run("next", func(b *testing.B) {
		b.ReportAllocs()
		d := sse.NewDecoder(&loop{text: text})
		for b.Loop() {
			if _, err := d.Next(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("next and buffered", func(b *testing.B) {
		b.ReportAllocs()
		d := sse.NewDecoder(&loop{text: text})
		for b.Loop() {
			if _, err := d.Next(); err != nil {
				b.Fatal(err)
			}
			d.Buffered()
		}
	})
	b.Run("naive", func(b *testing.B) {
		b.ReportAllocs()
		next := naiveDecoder(&loop{text: text})
		for b.Loop() {
			if len(next().Data) != 200 {
				b.Fatal("wrong event")
			}
		}
	})
}

func BenchmarkStreamSend(b *testing.B) {
	for _, row := range []struct {
		name string
		send func(*sse.Stream) error
	}{
		{"send", func(s *sse.Stream) error { return s.Send(token) }},
		{"queue", func(s *sse.Stream) error { return s.Queue(token) }},
		{"queue func", func(s *sse.Stream) error {
			return s.QueueFunc(token, func(dst []byte) ([]byte, error) { return append(dst, token.Data...), nil })
		}},
	} {
		b.Run(row.name, func(b *testing.B) {
			b.ReportAllocs()
			s, err := sse.NewStream(sink{http.Header{}}, sse.StreamConfig{})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			for b.Loop() {
				if err := row.send(s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("naive", func(b *testing.B) {
		b.ReportAllocs()
		w := sink{http.Header{}}
		for b.Loop() {
			naiveEncode(w, token)
			w.Flush()
		}
	})
}

// BenchmarkIdle reports what a decoder and a stream hold while they wait for the next event.
func BenchmarkIdle(b *testing.B) {
	measure := func(b *testing.B, open func() any) {
		var all [10_000]any
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range all {
			all[i] = open()
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		for _, one := range all {
			if c, ok := one.(io.Closer); ok {
				_ = c.Close()
			}
		}
		for b.Loop() { // the time is not measured
		}
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(all)), "B/idle")
	}
	b.Run("decoder", func(b *testing.B) {
		measure(b, func() any {
			d := sse.NewDecoder(strings.NewReader("event: x\ndata: a\n\n"))
			_, _ = d.Next()
			return d
		})
	})
	b.Run("stream", func(b *testing.B) {
		w := sink{http.Header{}}
		measure(b, func() any {
			s, _ := sse.NewStream(w, sse.StreamConfig{})
			_ = s.Send(token)
			return s
		})
	})
}

// sink is an http.ResponseWriter without cost.
type sink struct{ header http.Header }

func (s sink) Header() http.Header         { return s.header }
func (s sink) Write(p []byte) (int, error) { return len(p), nil }
func (s sink) WriteHeader(int)             {}
func (s sink) Flush()                      {}

// naiveEncode and naiveDecoder are minimal implementations without CR line breaks and most other
// rules.
func naiveEncode(w io.Writer, ev sse.Event) {
	fmt.Fprintf(w, "event: %s\n", ev.Type)
	for line := range strings.SplitSeq(string(ev.Data), "\n") {
		fmt.Fprintf(w, "data: %s\n", line)
	}
	fmt.Fprint(w, "\n")
}

func naiveDecoder(r io.Reader) func() sse.Event {
	scanner := bufio.NewScanner(r)
	return func() sse.Event {
		var ev sse.Event
		var lines []string
		for scanner.Scan() {
			line := scanner.Text()
			if line == "" {
				break
			}
			parts := strings.SplitN(line, ":", 2)
			switch value := strings.TrimPrefix(parts[1], " "); parts[0] {
			case "event":
				ev.Type = value
			case "data":
				lines = append(lines, value)
			}
		}
		ev.Data = []byte(strings.Join(lines, "\n"))
		return ev
	}
}
