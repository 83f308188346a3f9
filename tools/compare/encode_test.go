package compare_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	gin "github.com/gin-contrib/sse"
	launchdarkly "github.com/launchdarkly/eventsource"
	gosse "github.com/tmaxmax/go-sse"

	"github.com/seed93082962/agenthost/sse"
)

// The token event that all packages write and read: 200 bytes of data.
const eventType = "partial_message"

var (
	eventText = strings.Repeat("t", 200)
	eventData = []byte(eventText) // for packages that take bytes: conversions are not measured
)

// BenchmarkSSEEncode writes one event at a time, created anew like that of each token.
func BenchmarkSSEEncode(b *testing.B) {
	for _, row := range []struct {
		name    string
		encoder func(io.Writer) func() error
	}{
		{"agenthost", func(w io.Writer) func() error {
			var buf []byte
			return func() error {
				var err error
				if buf, err = (sse.Event{Type: eventType, Data: eventData}).Append(buf[:0]); err != nil {
					return err
				}
				_, err = w.Write(buf)
				return err
			}
		}},
		{"go-sse", func(w io.Writer) func() error {
			return func() error {
				m := gosse.Message{Type: gosse.Type(eventType)}
				m.AppendData(eventText)
				_, err := m.WriteTo(w)
				return err
			}
		}},
		{"gin-contrib", func(w io.Writer) func() error {
			return func() error { return gin.Encode(w, gin.Event{Event: eventType, Data: eventText}) }
		}},
		{"launchdarkly", func(w io.Writer) func() error {
			e := launchdarkly.NewEncoder(w, false)
			return func() error { return e.Encode(&launchdarklyEvent{typ: eventType, data: eventText}) }
		}},
	} {
		b.Run(row.name, func(b *testing.B) {
			var out bytes.Buffer
			if err := row.encoder(&out)(); err != nil {
				b.Fatal(err)
			}
			if ev, err := sse.NewDecoder(&out).Next(); err != nil || ev.Type != eventType || string(ev.Data) != eventText {
				b.Fatalf("wrote another event: %+v, %v", ev, err)
			}
			encode := row.encoder(io.Discard)
			b.ReportAllocs()
			cpu := cpuTime()
			for b.Loop() {
				if err := encode(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpuTime()-cpu)/float64(b.N), "cpu-ns/op")
		})
	}
}

type launchdarklyEvent struct{ typ, data string }

func (*launchdarklyEvent) Id() string      { return "" } //nolint:staticcheck // the interface calls it so
func (e *launchdarklyEvent) Event() string { return e.typ }
func (e *launchdarklyEvent) Data() string  { return e.data }
