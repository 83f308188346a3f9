package openai_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/openai"
)

const textChunk = `{"id":"chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT","object":"chat.completion.chunk","created":1741569952,` +
	`"model":"gpt-4.1-2025-04-14","service_tier":"default","system_fingerprint":"fp_44709d6fcb",` +
	`"choices":[{"index":0,"delta":{"content":" language"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"mAk3u"}`

// chunks are as OpenAI and servers like it write them.
var chunks = []string{
	textChunk,
	`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1694268190,"model":"gpt-4o-mini","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi\n","refusal":null},"logprobs":null,"finish_reason":null}]}`,
	`{"id":"1","object":"chat.completion.chunk","created":1741569952,"model":"deepseek-reasoner","system_fingerprint":"fp_5","choices":[{"index":0,"delta":{"content":null,"reasoning_content":"Hmm, \"so\""},"logprobs":null,"finish_reason":null}]}`,
	`{"id": "chatcmpl-2", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "", "reasoning": "caf\u00e9", "tool_calls": null}, "finish_reason": null, "native_finish_reason": null, "stop_reason": null}], "usage": null, "error": null}`,
	`{"choices":[{"delta":{"content":"a"},"finish_reason":""}]}`,
	`{"choices":[{"index":0,"delta":{"reasoning_content":"","content":"\ud83d\ude00"}}],"created":0}`,
}

// unusual are chunks that the scanner leaves to encoding/json.
var unusual = []string{
	`{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}`,
	`{"choices":[{"index":1,"delta":{"content":"a"},"finish_reason":null}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a"}}],"choices":[]}`,
	`{"choices":[{"index":0,"delta":{"content":"a","content":"b"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a","reasoning":"b"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a","Content":"b"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":["a"]}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a"},"delta":{"content":"b"}}]}`,
	`{"choices":[{"index":0,"index":0,"delta":{"content":"a"}}]}`,
	`{"choices":[{"index":0,"delta":{"refusal":"no","content":"a"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":1}}`,
	`{"choices":[{"index":0,"delta":{"content":"a"}}],"error":{"message":"x"}}`,
	`{"choices":[{"index":0,"delta":{"content":"a"}}]`,
	`{"choices":[]}`, `{"choices":null}`, `{}`, `[DONE]`, ``,
}

func TestScanChunk(t *testing.T) {
	for _, data := range chunks {
		t.Run(data, func(t *testing.T) {
			kind, text, ok := openai.ScanChunk([]byte(data))
			require.True(t, ok)
			wantKind, wantText, ok := openai.DecodeChunk([]byte(data))
			require.True(t, ok)
			require.Equal(t, wantKind, kind)
			require.Equal(t, wantText, text)
		})
	}
	for _, data := range unusual {
		t.Run(data, func(t *testing.T) {
			_, _, ok := openai.ScanChunk([]byte(data))
			require.False(t, ok)
		})
	}
}

// FuzzScanChunk verifies that encoding/json returns the same if the scanner succeeds.
func FuzzScanChunk(f *testing.F) {
	for _, data := range append(chunks, unusual...) {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		kind, text, ok := openai.ScanChunk(data)
		if !ok {
			return
		}
		wantKind, wantText, ok := openai.DecodeChunk(data)
		require.True(t, ok, "%q", data)
		require.Equal(t, []any{wantKind, wantText}, []any{kind, text}, "%q", data)
	})
}

func BenchmarkChunk(b *testing.B) {
	raw := []byte(textChunk)
	for name, read := range map[string]func([]byte) (model.PartKind, string, bool){
		"scanner": openai.ScanChunk,
		"json":    openai.DecodeChunk,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				read(raw)
			}
		})
	}
}
