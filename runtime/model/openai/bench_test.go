package openai_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/openai"
)

const benchTokens = 200

// benchStream is a response of 200 tokens as the API writes it.
var benchStream = strings.Repeat("data: "+textChunk+"\n\n", benchTokens) + finish("stop") + done

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
		"loopback": client(b, openai.Config{BaseURL: srv.URL}),
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
