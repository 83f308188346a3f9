package compare_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"
	launchdarkly "github.com/launchdarkly/eventsource"
	r3labs "github.com/r3labs/sse/v2"
	gosse "github.com/tmaxmax/go-sse"

	"github.com/seed93082962/agenthost/sse"
)

// BenchmarkSSEDecode reads a stream of events from memory to its end. Each package is used in its
// cheapest exported way; r3labs has only its client.
func BenchmarkSSEDecode(b *testing.B) {
	event := "event: " + eventType + "\ndata: " + eventText + "\n\n"
	for _, row := range []struct {
		name   string
		decode func(r io.Reader, each func(typ string, size int)) error
	}{
		{"agenthost", decodeAgenthost},
		{"anthropic-sdk", decodeAnthropicSDK},
		{"go-sse", decodeGoSSE},
		{"launchdarkly", decodeLaunchdarkly},
		{"r3labs", decodeR3labs},
	} {
		b.Run(row.name, func(b *testing.B) {
			stream := io.LimitReader(&endless{text: event}, int64(b.N)*int64(len(event)))
			n := 0
			b.ReportAllocs()
			b.ResetTimer()
			cpu := cpuTime()
			err := row.decode(stream, func(typ string, size int) {
				if typ == eventType && size == len(eventText) {
					n++
				}
			})
			if err != nil || n != b.N {
				b.Fatalf("read %d events of %d: %v", n, b.N, err)
			}
			b.ReportMetric(float64(cpuTime()-cpu)/float64(b.N), "cpu-ns/op")
		})
	}
}

func decodeAgenthost(r io.Reader, each func(string, int)) error {
	d := sse.NewDecoder(r)
	for {
		ev, err := d.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		each(ev.Type, len(ev.Data))
	}
}

func decodeAnthropicSDK(r io.Reader, each func(string, int)) error {
	d := ssestream.NewDecoder(&http.Response{Body: io.NopCloser(r)})
	for d.Next() {
		ev := d.Event()
		each(ev.Type, len(ev.Data)-len("\n")) // which it does not remove
	}
	return d.Err()
}

func decodeGoSSE(r io.Reader, each func(string, int)) error {
	for ev, err := range gosse.Read(r, nil) {
		if err != nil {
			return err
		}
		each(ev.Type, len(ev.Data))
	}
	return nil
}

func decodeLaunchdarkly(r io.Reader, each func(string, int)) error {
	d := launchdarkly.NewDecoder(r)
	for {
		ev, err := d.Decode()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		each(ev.Event(), len(ev.Data()))
	}
}

func decodeR3labs(r io.Reader, each func(string, int)) error {
	c := r3labs.NewClient("http://memory.invalid")
	c.Connection.Transport = answer{r}
	return c.SubscribeRawWithContext(context.Background(), func(ev *r3labs.Event) { each(string(ev.Event), len(ev.Data)) })
}

// answer responds to every request with the same stream.
type answer struct{ body io.Reader }

func (a answer) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(a.body), Request: r}, nil
}

// endless repeats a text, with reads like those from a connection's buffer.
type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	p = p[:min(len(p), 4<<10)]
	n := 0
	for n < len(p) {
		c := copy(p[n:], e.text[e.at:])
		e.at = (e.at + c) % len(e.text)
		n += c
	}
	return n, nil
}
