package anthropic_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/anthropic"
)

const textDelta = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" language"}   }`

// deltas are events as the API and servers like it write them.
var deltas = []string{
	textDelta,
	`{"type":"content_block_delta","index":1,"delta":{"type":"thinking_delta","thinking":"Let me\nsolve \"this\""}}`,
	`{"type":"content_block_delta","index":12,"delta":{"type":"input_json_delta","partial_json":"{\"location\": \"San Fra"}}`,
	`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}               }`,
	`{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "caf\u00e9 \ud83d\ude00 中文"}}`,
	`{"delta":{"text":"a","type":"text_delta"},"index":3,"type":"content_block_delta"}`,
}

// unusual are events that the scanner leaves to encoding/json.
var unusual = []string{
	`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQBCgIYAhIM"}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"cited_text":"x"}}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a","text":"b"}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","type":"thinking_delta","text":"a"}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","later":"b","text":"a"}}`,
	`{"type":"content_block_delta","index":0,"index":1,"delta":{"type":"text_delta","text":"a"}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"},"delta":{"text":"b"}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","thinking":"a"}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":null}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a","Text":"b"}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta"}}`,
	`{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}`,
	`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
	`{"type":"ping"}`, `[DONE]`, ``, `null`,
}

func TestScanDelta(t *testing.T) {
	for _, data := range deltas {
		t.Run(data, func(t *testing.T) {
			kind, index, text, ok := anthropic.ScanDelta([]byte(data))
			require.True(t, ok)
			wantKind, wantIndex, wantText, ok := anthropic.DecodeDelta([]byte(data))
			require.True(t, ok)
			require.Equal(t, wantKind, kind)
			require.Equal(t, wantIndex, index)
			require.Equal(t, wantText, text)
		})
	}
	for _, data := range unusual {
		t.Run(data, func(t *testing.T) {
			_, _, _, ok := anthropic.ScanDelta([]byte(data))
			require.False(t, ok)
		})
	}
}

// FuzzScanDelta verifies that encoding/json returns the same if the scanner succeeds.
func FuzzScanDelta(f *testing.F) {
	for _, data := range append(deltas, unusual...) {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		kind, index, text, ok := anthropic.ScanDelta(data)
		if !ok {
			return
		}
		wantKind, wantIndex, wantText, ok := anthropic.DecodeDelta(data)
		require.True(t, ok, "%q", data)
		require.Equal(t, []any{wantKind, wantIndex, wantText}, []any{kind, index, text}, "%q", data)
	})
}

func BenchmarkDelta(b *testing.B) {
	raw := []byte(textDelta)
	for name, read := range map[string]func([]byte) (model.PartKind, int, string, bool){
		"scanner": anthropic.ScanDelta,
		"json":    anthropic.DecodeDelta,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				read(raw)
			}
		})
	}
}
