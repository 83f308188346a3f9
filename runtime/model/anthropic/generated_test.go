package anthropic_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/anthropic"
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

type generator struct{ *rand.Rand }

// one returns a field with one of the values, or "".
func (g generator) one(name string, values []string) string {
	v := values[g.IntN(len(values))]
	if v != "" && name != "" {
		v = `"` + name + `":` + v
	}
	return v
}

// object joins fields that are not "", in any order.
func (g generator) object(fields ...string) string {
	g.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	var out []string
	for _, f := range fields {
		if f != "" {
			out = append(out, f)
		}
	}
	return "{" + strings.Join(out, ",") + "}"
}

func (g generator) event() string {
	top := g.one("", tops)
	switch g.IntN(12) {
	case 0:
		return g.object(`"type":"message_start"`, `"message":`+g.object(`"role":"assistant"`, g.one("usage", usages)), top)
	case 1, 2, 3:
		return g.object(`"type":"content_block_start"`, g.one("index", indexes), `"content_block":`+g.object(g.one("type", blockTypes),
			g.one("text", texts), g.one("thinking", texts), g.one("data", ids), g.one("id", ids), g.one("name", ids), g.one("input", wholes)), top)
	case 4, 5, 6, 7:
		return g.object(`"type":"content_block_delta"`, g.one("index", indexes), `"delta":`+g.object(g.one("type", deltaTypes),
			g.one("", []string{g.one("text", texts), g.one("thinking", texts), g.one("partial_json", inputs), g.one("signature", ids)})), top)
	case 8:
		return g.object(`"type":"content_block_stop"`, g.one("index", indexes), top)
	case 9:
		return g.object(`"type":"message_delta"`, `"delta":`+g.object(g.one("stop_reason", reasons), `"stop_sequence":null`), g.one("usage", usages), top)
	case 10:
		return `{"type":"message_stop"}`
	}
	return g.one("", []string{`{"type":"ping"}`, "", " ", "[DONE]", "null", `{"type":"new"}`, "nonsense", `{"type":`, `{}`})
}

// joined returns parts with consecutive increments of a block joined, and without generated ids.
func joined(parts []model.Part) []model.Part {
	var out []model.Part
	for _, p := range parts {
		if p.Kind == model.KindToolUse && len(p.ID) == 9 {
			p.ID = "generated"
		}
		n := len(out)
		if n > 0 && p.Kind == out[n-1].Kind && p.Index == out[n-1].Index && p.Text != "" {
			out[n-1].Text += p.Text
			continue
		}
		out = append(out, p)
	}
	return out
}

// Whatever a server sends, the scanners and encoding/json read the same, and a response that is not
// an error is whole.
func TestGeneratedStreams(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(1, 2))}
	complete := 0
	for range 5_000 {
		events := make([]string, 1+g.IntN(6))
		for i := range events {
			events[i] = g.event()
		}
		fast, fastErr := anthropic.Decode(events, true)
		slow, slowErr := anthropic.Decode(events, false)
		require.Equal(t, fmt.Sprint(slowErr), fmt.Sprint(fastErr), "%q", events)
		require.Equal(t, joined(slow), joined(fast), "%q", events)
		if fastErr != nil || len(fast) == 0 || fast[len(fast)-1].Kind != model.KindStop {
			continue
		}
		complete++
		response, err := model.Collect(func(yield func(model.Part, error) bool) {
			for _, p := range fast {
				if !yield(p, nil) {
					return
				}
			}
		})
		require.NoError(t, err, "%q", events)
		calls := map[string]bool{"": true}
		for _, b := range response.Message.Content {
			require.True(t, utf8.ValidString(b.Text+b.BadInput), "%q", events)
			if b.Type == model.BlockToolUse {
				require.NotEmpty(t, b.Name, "%q", events)
				require.False(t, calls[b.ID], "%q", events)
				require.True(t, strings.HasPrefix(string(b.Input), "{"), "%q", events)
				calls[b.ID] = true
			}
		}
	}
	require.Greater(t, complete, 100)
}

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
	want, err := collect(t, frame("", "", "\n\n"))
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
			got, err := model.Collect(inMemory(t, func() io.Reader { return strings.NewReader(raw) }).Stream(t.Context(), hello()))
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}
