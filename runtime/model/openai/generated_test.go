package openai_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/internal/scantest"
	"github.com/seed93082962/agenthost/runtime/model/openai"
)

// Values that servers send for the fields of a chunk. "" leaves out the field.
var (
	contents = []string{"", "", `null`, `""`, `"a"`, `"a\n\"b\""`, `"\ud83d"`, `"\ude00"`, "\"\xf0\x9f\"", "\"\x98\x80\"", `"\ufffd"`,
		`[{"type":"text","text":"a"}]`, `[{"type":"thinking","thinking":[{"type":"text","text":"b"}]},{"type":"text","text":"c"}]`, `[]`, `5`}
	reasonings = []string{"", "", "", `null`, `""`, `"b"`, `"\ud83d"`}
	details    = []string{"", "", "", `null`, `[]`, `[{"type":"reasoning.text","text":"b","index":0}]`, `[{"type":"reasoning.encrypted","data":"x"}]`, `["x"]`}
	indexes    = []string{"", `0`, `0`, `1`, `2`, `null`, `-1`, `0.0`}
	callIDs    = []string{"", `null`, `""`, `"c"`, `"d"`, `"call_12345678901234567890123456789012345678901234567890"`}
	names      = []string{"", `null`, `""`, `"a"`, `"a"`, `"b"`, `"get_"`}
	inputs     = []string{"", `null`, `""`, `"{}"`, `"{\"n\":"`, `"1}"`, `"{\"s\":\"\ud83d"`, `"\ude00\"}"`, `{"n":1}`, `{}`, `"[1]"`, `"nonsense"`}
	unknowns   = []string{"", "", "", "", `"extra_content":{"google":{"thought_signature":"s"}}`, `"type":"function"`, `"type":null`, `"x":null`}
	finishes   = []string{"", `null`, `null`, `null`, `""`, `"stop"`, `"STOP"`, `"eos"`, `"tool_calls"`, `"function_call"`, `"length"`, `"content_filter"`, `"error"`, `"new"`}
	usages     = []string{"", "", `null`, `{"prompt_tokens":1,"completion_tokens":2}`, `{"prompt_tokens":1.0,"completion_tokens":2e0}`, `{"prompt_tokens":"1"}`,
		`{"prompt_tokens":3,"prompt_tokens_details":{"cached_tokens":1}}`, `{"prompt_tokens_details":null}`, `{"prompt_tokens_details":[]}`, `"x"`, `[]`, `{}`}
	others = []string{"", "", "", `"refusal":null`, `"refusal":"no"`, `"annotations":[]`, `"audio":{"id":"x"}`, `"function_call":null`,
		`"function_call":{"name":"a","arguments":"{}"}`, `"function_call":{"arguments":"{"}`, `"role":"assistant"`, `"Content":"A"`, `"content":"twice"`}
	tops = []string{"", "", `"error":null`, `"error":{}`, `"error":""`, `"error":{"message":"x"}`, `"object":"chat.completion.chunk"`, `"object":"error"`,
		`"x_groq":{"id":"r"}`, `"x_groq":{"usage":{"prompt_tokens":7}}`, `"timings":{"ms":1.5}`, `"base_resp":{"status_code":0}`, `"message":"x"`, `"Choices":[]`}
	ends = []string{"[DONE]", " [DONE] ", "", " ", "{}", `{"choices":[]}`, `{"choices":null}`, `null`, `nonsense`, `{"choices":[`}
)

func generateCalls(g scantest.Generator) string {
	if g.IntN(2) == 0 {
		return ""
	}
	var calls []string
	for range g.IntN(3) {
		function := `"function":` + g.Object(g.One("name", names), g.One("arguments", inputs), g.One("", unknowns))
		if g.IntN(8) == 0 {
			function = g.One("", []string{"", `"function":null`})
		}
		calls = append(calls, g.Object(g.One("index", indexes), g.One("id", callIDs), function, g.One("", unknowns)))
	}
	return `"tool_calls":[` + strings.Join(calls, ",") + `]`
}

func generateChunk(g scantest.Generator) string {
	if g.IntN(12) == 0 {
		return ends[g.IntN(len(ends))]
	}
	if g.IntN(3) == 0 { // most of a stream
		return g.Object(`"choices":[`+g.Object(`"index":0`, `"delta":`+g.Object(g.One("content", contents[2:7])), `"finish_reason":null`)+`]`, `"usage":null`)
	}
	delta := g.Object(g.One("content", contents), g.One("reasoning_content", reasonings), g.One("reasoning", reasonings),
		g.One("reasoning_details", details), generateCalls(g), g.One("", others))
	kind := []string{"delta", "delta", "delta", "delta", "message"}[g.IntN(5)]
	if g.IntN(12) == 0 {
		delta = "null"
	}
	choice := g.Object(g.One("index", []string{"", "0", "0", "0", "1", "null"}), `"`+kind+`":`+delta, g.One("finish_reason", finishes), g.One("usage", usages[:4]))
	choices := `"choices":[` + choice + `]`
	if g.IntN(12) == 0 {
		choices = ""
	}
	return g.Object(choices, g.One("usage", usages), g.One("", tops))
}

// Whatever a server sends, the scanner and encoding/json read the same, and a response that is not
// an error is whole.
func TestGeneratedStreams(t *testing.T) { scantest.Run(t, 300, generateChunk, openai.Decode) }

// pieces splits a text at two places. The places are bytes of raw text and code units of escapes.
func pieces(text string, escaped bool, yield func(list []string)) {
	unit := func(from, to int) string { return strings.NewReplacer("\\", "\\\\", `"`, `\"`).Replace(text[from:to]) }
	n := len(text)
	if escaped {
		units := utf16.Encode([]rune(text))
		n = len(units)
		unit = func(from, to int) string {
			var out strings.Builder
			for _, u := range units[from:to] {
				fmt.Fprintf(&out, `\u%04x`, u)
			}
			return out.String()
		}
	}
	for i := 0; i <= n; i++ {
		for j := i; j <= n; j++ {
			yield([]string{unit(0, i), unit(i, j), unit(j, n)})
		}
	}
}

// A text that is split at any two places arrives as it is: in a text, in reasoning, in the input of
// a tool, and there in an escape of its own.
func TestTextIsSplitAnywhere(t *testing.T) {
	const text = "a😀é\"中\\👩‍🚀"
	fields := map[string]string{
		"content": `"content":"%s"`, "reasoning_content": `"reasoning_content":"%s"`, "reasoning": `"reasoning":"%s"`, "refusal": `"refusal":"%s"`,
		"arguments": `"tool_calls":[{"index":0,"id":"c","function":{"name":"a","arguments":"%s"}}]`,
		"pieces":    `"content":[{"type":"text","text":"%s"}]`,
	}
	for name, field := range fields {
		for _, escaped := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " escaped ", escaped), func(t *testing.T) {
				sent := text
				if name == "arguments" {
					sent = `{"s":"a😀\ud83d\ude00\"中\\"}`
				}
				pieces(sent, escaped, func(list []string) {
					var events []string
					for _, piece := range list {
						events = append(events, `{"choices":[{"index":0,"delta":{`+fmt.Sprintf(field, piece)+`}}]}`)
					}
					parts, err := openai.Decode(append(events, `{"choices":[{"delta":{},"finish_reason":"stop"}]}`), true)
					require.NoError(t, err)
					var got string
					for _, p := range parts {
						switch p.Kind {
						case model.KindText, model.KindThinking, model.KindToolInput:
							got += p.Text
						}
					}
					require.Equal(t, sent, got, "%q", list)
				})
			})
		}
	}
}

// The framing of the events does not matter.
func TestFraming(t *testing.T) {
	events := []string{
		`{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`,
		`{"choices":[{"index":0,"delta":{"content":"Hi 😀"},"finish_reason":null}]}`,
		"{\"choices\":\n[{\"index\":0,\"delta\":\n{\"tool_calls\":[" + call1 + "]}}]}",
		`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`,
		`[DONE]`,
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
	require.Len(t, want.Message.Content, 2)
	for name, raw := range map[string]string{
		"CRLF":             strings.ReplaceAll(frame("", "", "\n\n"), "\n", "\r\n"),
		"CR":               strings.ReplaceAll(frame("", "", "\n\n"), "\n", "\r"),
		"BOM":              frame("\ufeff", "", "\n\n"),
		"comments":         frame(": connected\n\n", ": ping\n", "\n\n: ping\n\n"),
		"names":            frame("", "event: message\nid: 1\nretry: 10\n", "\n\n"),
		"chunk as a name":  frame("", "event: chat.completion.chunk\n", "\n\n"),
		"empty data":       frame("data:\n\n", "data: \n\n", "\n\ndata\n\n"),
		"no space":         strings.ReplaceAll(frame("", "", "\n\n"), "data: ", "data:"),
		"many blank lines": frame("\n\n\n", "", "\n\n\n\n"),
		"no end":           strings.TrimSuffix(frame("", "", "\n\n"), "data: [DONE]\n\n"),
		"half an end":      strings.TrimSuffix(frame("", "", "\n\n"), "\n\n"),
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 7, 1 << 20} {
				got, err := new(collect.Collector).Collect(inMemory(t, func() io.Reader { return &slowly{raw, size} }).Stream(t.Context(), hello()))
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
		})
	}
}

// slowly returns a few bytes with each read.
type slowly struct {
	rest string
	size int
}

func (s *slowly) Read(p []byte) (int, error) {
	n := copy(p, s.rest[:min(s.size, len(s.rest))])
	s.rest = s.rest[n:]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}
