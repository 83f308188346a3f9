package anthropic_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
)

// TestStreams reads responses as the API sends them, split in two at every place and byte by byte.
func TestStreams(t *testing.T) {
	for name, want := range map[string]collect.Response{
		"text.sse": {
			Message: model.Message{Role: model.RoleAssistant, Content: []model.Block{
				{Type: model.BlockText, Text: "Hello! \"Naïve\" 😀\nwe are"},
			}},
			Usage:      model.Usage{InputTokens: 25, OutputTokens: 15, CacheCreationInputTokens: 188, CacheReadInputTokens: 2048},
			StopReason: model.StopEndTurn,
		},
		"thinking_tools.sse": {
			Message: model.Message{Role: model.RoleAssistant, Content: []model.Block{
				{Type: model.BlockThinking, Text: "I need the weather.\nTwo calls.", Signature: "EqQBCgIYAhIM1gbcDa9GJwZA"},
				{Type: model.BlockRedacted, Data: "EmwKAhgBEgy3va3pzix/LafPsn4a"},
				{Type: model.BlockText, Text: "Okay, let's check."},
				{Type: model.BlockToolUse, ID: "toolu_01T1x1fJ34qAmk2tNTrN7Up6", Name: "get_weather",
					Input: []byte(`{"location":"San Francisco, CA","unit":"fahrenheit"}`)},
				{Type: model.BlockToolUse, ID: "toolu_01B2", Name: "now", Input: []byte(`{}`)},
			}},
			Usage:      model.Usage{InputTokens: 472, OutputTokens: 89},
			StopReason: model.StopToolUse,
		},
		// Events, blocks and deltas that may be added to the API, and deviations of other servers.
		"unknown.sse": {
			Message: model.Message{Role: model.RoleAssistant, Content: []model.Block{
				{Type: model.BlockText, Text: "Found it."},
				{Type: model.BlockToolUse, ID: "toolu_2", Name: "Read", Input: []byte(`{"file_path":"a.txt"}`)},
			}},
			Usage:      model.Usage{InputTokens: 7, OutputTokens: 3},
			StopReason: "pause_turn",
		},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join("testdata", name))
			require.NoError(t, err)
			readers := []func() io.Reader{
				func() io.Reader { return iotest.OneByteReader(strings.NewReader(string(raw))) },
				func() io.Reader { return strings.NewReader(strings.ReplaceAll(string(raw), "\n", "\r\n")) },
			}
			for i := range raw {
				readers = append(readers, func() io.Reader {
					return io.MultiReader(strings.NewReader(string(raw[:i])), strings.NewReader(string(raw[i:])))
				})
			}
			for _, body := range readers {
				got, err := new(collect.Collector).Collect(inMemory(t, body).Stream(t.Context(), hello()))
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
		})
	}
}

// TestStreamCutAnywhere verifies that no prefix of a response is accepted as a complete response.
func TestStreamCutAnywhere(t *testing.T) {
	raw, err := os.ReadFile("testdata/text.sse")
	require.NoError(t, err)
	whole := strings.TrimSpace(string(raw))
	for i := range whole {
		_, err := collected(t, whole[:i])
		var coded *model.Error
		require.ErrorAs(t, err, &coded)
		require.Equal(t, model.Code(runvalue.ErrorTypeConnection), coded.Code)
	}
}

func TestStopReasons(t *testing.T) {
	for name, row := range map[string]struct{ raw, want string }{
		"as reported": {`{"type":"message_delta","delta":{"stop_reason":"refusal"},"usage":{"output_tokens":1}}`, model.StopRefusal},
		"not known": {`{"type":"message_delta","delta":{"stop_reason":"model_context_window_exceeded"}}`,
			"model_context_window_exceeded"},
		"none":          {`{"type":"ping"}`, model.StopEndTurn},
		"none, a call":  {`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"b","input":{}}}`, model.StopToolUse},
		"null, no news": {`{"type":"message_delta","delta":{"stop_reason":null}}`, model.StopEndTurn},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := collected(t, "data: "+row.raw+"\n\ndata: {\"type\":\"message_stop\"}\n\n")
			require.NoError(t, err)
			require.Equal(t, row.want, got.StopReason)
		})
	}
}

func TestFieldOfAnotherType(t *testing.T) {
	for name, raw := range map[string]string{
		"text":    `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":["a"]}}`,
		"id":      `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":1,"name":"b"}}`,
		"no JSON": `{"type":"content_block_delta"`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := collected(t, "event: content_block_delta\ndata: "+raw+"\n\n")
			var coded *model.Error
			require.ErrorAs(t, err, &coded)
			require.Equal(t, model.Code(runvalue.ErrorTypeServer), coded.Code)
			require.Equal(t, "upstream sent an event that cannot be read", coded.Message)
		})
	}
}

// TestUnknownBlocksHaveALimit verifies the limit of unknown blocks, which produce no parts.
func TestUnknownBlocksHaveALimit(t *testing.T) {
	var raw strings.Builder
	for i := range collect.MaxBlocks + 1 {
		fmt.Fprintf(&raw, `data: {"type":"content_block_start","index":%d,"content_block":{"type":"of a new kind"}}`+"\n\n", i)
	}
	_, err := collected(t, raw.String()+"data: {\"type\":\"message_stop\"}\n\n")
	var coded *model.Error
	require.ErrorAs(t, err, &coded)
	require.Equal(t, "upstream sent too many content blocks", coded.Message)
}
