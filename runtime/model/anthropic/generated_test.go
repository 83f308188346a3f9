package anthropic_test

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model/anthropic"
	"github.com/seed93082962/agenthost/runtime/model/internal/scantest"
)

// Values that servers send for the fields of an event. "" leaves out the field.
var (
	texts      = []string{"", `null`, `""`, `"a"`, `"a\n\"b\""`, `"\ud83d"`, `"\ude00"`, "\"\xf0\x9f\"", "\"\x98\x80\"", `"\ufffd"`, `5`}
	inputs     = []string{"", `null`, `""`, `"{}"`, `"{\"n\":"`, `"1}"`, `"{\"s\":\"\ud83d"`, `"\ude00\"}"`}
	indexes    = []string{"", `0`, `0`, `1`, `2`, `null`, `-1`, `"0"`}
	ids        = []string{"", `null`, `""`, `"c"`, `"d"`, `7`}
	wholes     = []string{"", `{}`, `{}`, `null`, `{"n":1}`, `""`, `[1]`}
	blockTypes = []string{`"text"`, `"thinking"`, `"redacted_thinking"`, `"tool_use"`, `"tool_use"`, `"server_tool_use"`, `null`}
	deltaTypes = []string{`"text_delta"`, `"text_delta"`, `"thinking_delta"`, `"signature_delta"`, `"input_json_delta"`, `"citations_delta"`, `""`}
	reasons    = []string{"", `null`, `"end_turn"`, `"tool_use"`, `"max_tokens"`, `"refusal"`, `"pause_turn"`}
	usages     = []string{"", "", `null`, `{"input_tokens":1,"output_tokens":2}`, `{"output_tokens":2.0}`, `{"input_tokens":"1"}`,
		`{"cache_read_input_tokens":3,"cache_creation":{"x":1.5}}`, `"x"`, `[]`, `{}`}
	tops = []string{"", "", "", `"error":null`, `"error":{}`, `"error":{"message":"x"}`, `"Type":"ping"`, `"x":1.5`, `"base_resp":{"status_code":0}`}
)

func generateEvent(g scantest.Generator) string {
	top := g.One("", tops)
	switch g.IntN(12) {
	case 0:
		return g.Object(`"type":"message_start"`, `"message":`+g.Object(`"role":"assistant"`, g.One("usage", usages)), top)
	case 1, 2, 3:
		return g.Object(`"type":"content_block_start"`, g.One("index", indexes), `"content_block":`+g.Object(g.One("type", blockTypes),
			g.One("text", texts), g.One("thinking", texts), g.One("data", ids), g.One("id", ids), g.One("name", ids), g.One("input", wholes)), top)
	case 4, 5, 6, 7:
		return g.Object(`"type":"content_block_delta"`, g.One("index", indexes), `"delta":`+g.Object(g.One("type", deltaTypes),
			g.One("", []string{g.One("text", texts), g.One("thinking", texts), g.One("partial_json", inputs), g.One("signature", ids)})), top)
	case 8:
		return g.Object(`"type":"content_block_stop"`, g.One("index", indexes), top)
	case 9:
		return g.Object(`"type":"message_delta"`, `"delta":`+g.Object(g.One("stop_reason", reasons), `"stop_sequence":null`), g.One("usage", usages), top)
	case 10:
		return `{"type":"message_stop"}`
	}
	return g.One("", []string{`{"type":"ping"}`, "", " ", "[DONE]", "null", `{"type":"new"}`, "nonsense", `{"type":`, `{}`})
}

// Whatever a server sends, the scanner and encoding/json read the same, and a response that is not
// an error is whole.
func TestGeneratedStreams(t *testing.T) { scantest.Run(t, 100, generateEvent, anthropic.Decode) }

// The framing of the events does not matter.
func TestFraming(t *testing.T) {
	events := []string{
		`{"type":"message_start","message":{"usage":{"input_tokens":3}}}`,
		"{\"type\":\"content_block_delta\",\n\"index\":0,\"delta\":{\"type\":\"text_delta\",\n\"text\":\"Hi 😀\"}}",
		`{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`,
		`{"type":"message_stop"}`,
	}
	frame := func(before, between, end string) string {
		out := before
		for _, e := range events {
			out += between + "data: " + strings.ReplaceAll(e, "\n", "\ndata: ") + end
		}
		return out
	}
	want, err := collected(t, frame("", "", "\n\n"))
	require.NoError(t, err)
	require.Equal(t, "Hi 😀", want.Message.Text())
	for name, raw := range map[string]string{
		"CRLF":        strings.ReplaceAll(frame("", "", "\n\n"), "\n", "\r\n"),
		"CR":          strings.ReplaceAll(frame("", "", "\n\n"), "\n", "\r"),
		"BOM":         frame("\ufeff", "", "\n\n"),
		"comments":    frame(": connected\n\n", ": ping\n", "\n\n: ping\n\n"),
		"names":       frame("", "event: message\nid: 1\nretry: 10\n", "\n\n"),
		"empty data":  frame("data:\n\n", "data: \n\n", "\n\ndata\n\n"),
		"no space":    strings.ReplaceAll(frame("", "", "\n\n"), "data: ", "data:"),
		"DONE at end": frame("", "", "\n\n") + "data: [DONE]\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := new(collect.Collector).Collect(inMemory(t, func() io.Reader { return strings.NewReader(raw) }).Stream(t.Context(), hello()))
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}
