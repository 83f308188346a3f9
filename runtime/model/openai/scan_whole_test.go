package openai_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model/openai"
)

const toolChunk = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1741569952,"model":"gpt-4.1","choices":[{"index":0,` +
	`"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"location\":\"Par"}}]},"logprobs":null,"finish_reason":null}],"usage":null}`

// wholes are as OpenAI and servers like it write them, once or a few times in each response.
var wholes = []string{
	toolChunk,
	`{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null}`,
	`{"choices":[{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"get_weather","arguments":""}},{"id":"call_2","index":null,"function":{"name":"now","arguments":null}}]}}]}`,
	`{"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}`,
	`{"choices":[{"delta":{"content":"a","reasoning":"b","reasoning_content":"c","refusal":"d","tool_calls":[]},"finish_reason":"length","stop_reason":null,"usage":{"prompt_tokens":1}}]}`,
	`{"choices":[],"usage":{"prompt_tokens":1224,"completion_tokens":15,"total_tokens":1239,"prompt_tokens_details":{"cached_tokens":1024,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"rejected_prediction_tokens":0}}}`,
	`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}],"usage":{"prompt_tokens":1,"completion_tokens":1,"prompt_tokens_details":null,"prompt_cache_hit_tokens":1,"prompt_cache_miss_tokens":0}}`,
	`{"choices":[{"index":1,"delta":{"content":"a"}},{"index":0,"delta":null}],"error":null}`,
	`{"choices":null}`, `{}`,
}

// odd are chunks that scanWhole leaves to encoding/json.
var odd = []string{
	`{"error":{"message":"x"}}`,
	`{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"a"}]}}]}`,
	`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"a","arguments":{"n":1}}}]}}]}`,
	`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":-1}]}}]}`,
	`{"choices":[{"index":0,"delta":{"tool_calls":[{"id":"a","ID":"b"}]}}]}`,
	`{"choices":[{"index":0,"delta":{"tool_calls":[{"id":"a"}],"tool_calls":[{"index":1}]}}]}`,
	`{"choices":[],"usage":{"prompt_tokens":1,"prompt_tokens":2}}`,
	`{"choices":[],"usage":{"prompt_tokens":1.5}}`,
	`{"choices":[],"usage":{"prompt_tokens":1},"usage":null}`,
	`{"choices":[],"timings":{"predicted_ms":1.5}}`,
	`{"choices":{}}`, `{"choices":[}`, `{"choices":[]`, `[]`, `hello`, ``,
}

func TestScanWhole(t *testing.T) {
	for _, data := range wholes {
		t.Run(data, func(t *testing.T) {
			got, ok := openai.ScanWhole([]byte(data))
			require.True(t, ok)
			want, err := openai.DecodeWhole([]byte(data))
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
	for _, data := range odd {
		t.Run(data, func(t *testing.T) {
			_, ok := openai.ScanWhole([]byte(data))
			require.False(t, ok)
		})
	}
}

// FuzzScanWhole verifies that encoding/json returns the same if the scanner succeeds.
func FuzzScanWhole(f *testing.F) {
	for _, list := range [][]string{wholes, odd, chunks, unusual} {
		for _, data := range list {
			f.Add([]byte(data))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, ok := openai.ScanWhole(data)
		if !ok {
			return
		}
		want, err := openai.DecodeWhole(data)
		require.NoError(t, err, "%q", data)
		require.Equal(t, want, got, "%q", data)
	})
}

func BenchmarkToolInput(b *testing.B) {
	raw := []byte(toolChunk)
	for name, read := range map[string]func(){
		"scanner": func() { openai.ScanWhole(raw) },
		"json":    func() { _, _ = openai.DecodeWhole(raw) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				read()
			}
		})
	}
}
