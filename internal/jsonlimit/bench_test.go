package jsonlimit_test

import (
	"encoding/json"
	"testing"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

func BenchmarkUnmarshal(b *testing.B) {
	body := []byte(`{"message":"What is the weather in Paris today, and should I take an umbrella with me when I leave?","stream":true,"sessionId":"0190b3c2-1111-7000-8000-000000000000","runId":"2f6a0a52-3f4f-4c7a-9a83-4e8f5b5a0c11","metadata":{"tenant":"default","user":"ada"}}`)
	chunk := []byte(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"gpt-5","choices":[{"index":0,"delta":{"content":" the"},"finish_reason":null}],"usage":null}`)
	type request struct {
		Message   string         `json:"message"`
		Stream    any            `json:"stream"`
		SessionID string         `json:"sessionId"`
		RunID     string         `json:"runId"`
		Metadata  map[string]any `json:"metadata"`
	}
	type delta struct {
		Content string `json:"content"`
	}
	type choice struct {
		Index int   `json:"index"`
		Delta delta `json:"delta"`
	}
	for name, decode := range map[string]func([]byte, any) error{"std": json.Unmarshal, "exact": jsonlimit.Unmarshal} {
		b.Run("run/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var r request
				if err := decode(body, &r); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("chunk/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var r struct {
					ID      string   `json:"id"`
					Choices []choice `json:"choices"`
				}
				if err := decode(chunk, &r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
