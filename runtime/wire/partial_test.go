package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/wire"
)

// encoded returns the JSON of a partial message with text.
func encoded(t testing.TB, text string) string {
	t.Helper()
	data, err := wire.Event{Payload: &wire.PartialMessage{Partial: wire.Partial{Type: wire.PartialText, Text: text}}}.Append(nil)
	require.NoError(t, err)
	return string(data)
}

// FuzzAppendText compares a text with that of the decoder, and its message with that of the
// encoder.
func FuzzAppendText(f *testing.F) {
	for _, text := range []string{"hello", "", " 漢😀\"\\\n\r\t\x00\x1f\x7f<&>\u2028\uFFFD", `\/`, `\u001F`, `\u000a`, `\u006c`, `\u0020`, "\xff", "\xed\xa0\x80", "\n", "\x01n"} {
		f.Add([]byte(encoded(f, text) + "rest"))
		f.Add([]byte(strings.Replace(encoded(f, "x"), `"x"`, `"`+text+`"`, 1)))
	}
	f.Add([]byte(`{"type":"done"}`))
	f.Add([]byte(strings.TrimSuffix(encoded(f, "x"), `"}}`) + `\`))
	f.Fuzz(func(t *testing.T, data []byte) {
		text, n := wire.AppendText([]byte("before "), data)
		if n == 0 {
			require.Equal(t, "before ", string(text))
			return
		}
		p, err := wire.DecodeEvent("partial_message", data[:n])
		require.NoError(t, err)
		partial := p.(*wire.PartialMessage).Partial
		require.Equal(t, wire.Partial{Type: wire.PartialText, Text: string(text[len("before "):])}, partial)
		require.Equal(t, encoded(t, partial.Text), string(data[:n]))
		require.Equal(t, partial.Text, string(wire.AppendPartialText(nil, data[:n])))
	})
}

// Each text has the fast way.
func FuzzAppendTextOfTheEncoder(f *testing.F) {
	f.Add(" 漢😀\"\\\n\r\t\x00\x1f\x7f<&>\u2028\uFFFD\xff")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		data := encoded(t, text)
		got, n := wire.AppendText(nil, []byte(data))
		require.Equal(t, len(data), n)
		require.Equal(t, string([]rune(text)), string(got))
	})
}

func TestAppendPartialText(t *testing.T) {
	for data, want := range map[string]string{
		encoded(t, "hello"):                               "hello",
		encoded(t, "hello") + " ":                         "hello",
		encoded(t, "hello") + "}":                         "",
		encoded(t, `hello`)[1:]:                           "",
		encoded(t, `"`):                                   `"`,
		`{"partial":{"type":"text","text":"\u00e9"}}`:     "é",
		`{"partial":{"type":"thinking","text":"hidden"}}`: "",
		"": "",
	} {
		require.Equal(t, "before "+want, string(wire.AppendPartialText([]byte("before "), []byte(data))), data)
	}
}

// The id of a tool call may have either name. tool_use_id takes precedence.
func TestTheIDOfAPartialMessage(t *testing.T) {
	for ids, want := range map[string]string{`"tool_use_id":"a","id":"b"`: "a", `"id":"b"`: "b", `"tool_use_id":"a"`: "a"} {
		p, err := wire.DecodeEvent("partial_message", []byte(`{"partial":{"type":"tool_use",`+ids+`}}`))
		require.NoError(t, err)
		require.Equal(t, want, p.(*wire.PartialMessage).Partial.ToolUseID, ids)
	}
}
