package anthropic_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/anthropic"
)

const benchTokens = 200

// benchStream is a response of 200 tokens as the API writes it.
var benchStream = "event: message_start\n" +
	`data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":25,"output_tokens":1}}}` + "\n\n" +
	"event: content_block_start\n" + `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n" +
	strings.Repeat("event: content_block_delta\ndata: "+textDelta+"\n\n", benchTokens) +
	"event: content_block_stop\n" + `data: {"type":"content_block_stop","index":0}` + "\n\n" +
	"event: message_delta\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":200}}` + "\n\n" +
	"event: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n"

// BenchmarkStream measures the time per token of a response of 200 tokens, including the call. Over
// loopback the time of the server is included.
func BenchmarkStream(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, benchStream)
	}))
	defer srv.Close()
	raw := []byte(benchStream)
	for name, c := range map[string]model.Model{
		"memory":   inMemory(b, func() io.Reader { return bytes.NewReader(raw) }),
		"loopback": client(b, anthropic.Config{BaseURL: srv.URL}),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for p, err := range c.Stream(b.Context(), hello()) {
					if err != nil { // require would take longer than the token
						b.Fatal(err)
					}
					if p.Kind == model.KindText {
						n++
					}
				}
				require.Equal(b, benchTokens, n)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchTokens, "ns/token")
		})
	}
}
