package anthropic_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model/anthropic"
)

// events are as the API writes them, once or a few times in each response.
var events = []string{
	`{"type":"message_start","message":{"model":"claude-sonnet-4-5-20250929","id":"msg_01","type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null,` +
		`"usage":{"input_tokens":25,"cache_creation_input_tokens":188,"cache_read_input_tokens":2048,"cache_creation":{"ephemeral_5m_input_tokens":188,"ephemeral_1h_input_tokens":0},"output_tokens":1,"service_tier":"standard"}} }`,
	`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}       }`,
	`{"type":"content_block_start","index":1,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
	`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"EmwKAhgBEgy3va3pzix"}}`,
	`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_01","name":"get_weather","input":{}}}`,
	`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_01","name":"Read","input": {"file_path": ["a",1,{"b":null}]} }}`,
	`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"caf\u00e9","citations":null}}`,
	`{"type":"content_block_delta","index":1,"delta":{"type":"signature_delta","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3h"}}`,
	`{"type":"content_block_stop","index":0    }`,
	`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":89}        }`,
	`{"type":"message_delta","delta":{"stop_reason":null},"usage":{"input_tokens":null,"output_tokens":1,"server_tool_use":{"web_search_requests":0}}}`,
	`{"type":"message_stop"  }`,
	`{"type": "ping"}`,
}

// odd are events that scanEvent leaves to encoding/json.
var odd = []string{
	`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
	`{"type":"message_start","message":{"usage":{"input_tokens":1}},"message":{"usage":{"output_tokens":1}}}`,
	`{"type":"message_start","message":{"usage":{"input_tokens":1,"input_tokens":2}}}`,
	`{"type":"message_start","message":{"usage":{"input_tokens":1},"Usage":{"input_tokens":2}}}`,
	`{"type":"message_start","message":{"usage":{"input_tokens":1.5}}}`,
	`{"type":"message_start","message":{"usage":{"input_tokens":-1}}}`,
	`{"type":"message_start","message":[]}`,
	`{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"a","name":"b"}}`,
	`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":1}}`,
	`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","input":{"a":"\n"}}}`,
	`{"type":"content_block_start","index":0,"content_block":{"id":"a"}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"cited_text":"x"}}}`,
	`{"type":"content_block_stop","index":"0"}`, `{"type":"message_stop"`, `{"type":"message_stop"}}`, `{"index":0}`,
	`{"type":"of a new kind"}`, `[DONE]`, ``, `null`,
}

func TestScanEvent(t *testing.T) {
	for _, data := range events {
		t.Run(data, func(t *testing.T) {
			got, ok := anthropic.ScanEvent([]byte(data))
			require.True(t, ok)
			want, err := anthropic.DecodeEvent([]byte(data))
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
	for _, data := range odd {
		t.Run(data, func(t *testing.T) {
			_, ok := anthropic.ScanEvent([]byte(data))
			require.False(t, ok)
		})
	}
}

// FuzzScanEvent verifies that encoding/json returns the same if the scanner succeeds.
func FuzzScanEvent(f *testing.F) {
	for _, list := range [][]string{events, odd, deltas, unusual} {
		for _, data := range list {
			f.Add([]byte(data))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, ok := anthropic.ScanEvent(data)
		if !ok {
			return
		}
		want, err := anthropic.DecodeEvent(data)
		require.NoError(t, err, "%q", data)
		require.Equal(t, want, got, "%q", data)
	})
}

func BenchmarkEvent(b *testing.B) {
	raw := []byte(events[0])
	for name, read := range map[string]func(){
		"scanner": func() { anthropic.ScanEvent(raw) },
		"json":    func() { _, _ = anthropic.DecodeEvent(raw) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				read()
			}
		})
	}
}
