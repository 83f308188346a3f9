package api_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
)

func TestLineAndText(t *testing.T) {
	for name, row := range map[string]struct {
		in, want   string
		line, text string // the fault of either
	}{
		"plain":                  {"Ada", "Ada", "", ""},
		"white space around":     {" \tAda\n", "Ada", "", ""},
		"characters, not bytes":  {strings.Repeat("智", 10), strings.Repeat("智", 10), "", ""},
		"an emoji of several":    {"👩‍👩‍👧", "👩‍👩‍👧", "", ""},
		"one too many":           {strings.Repeat("智", 11), "", "must have at most 10 characters", "must have at most 10 characters"},
		"too few":                {"a", "", "must have at least 2 characters", "must have at least 2 characters"},
		"nothing":                {"", "", "must not be empty", "must not be empty"},
		"white space alone":      {" \u3000 ", "", "must not be empty", "must not be empty"},
		"two lines":              {"a\nb", "a\nb", "must not have control characters", ""},
		"a tab":                  {"a\tb", "a\tb", "must not have control characters", ""},
		"a NUL":                  {"a\x00b", "", "must not have control characters", "must not have control characters"},
		"an escape":              {"a\x1b[2Jb", "", "must not have control characters", "must not have control characters"},
		"a C1 control":           {"a\u0085b", "", "must not have control characters", "must not have control characters"},
		"a delete":               {"a\x7fb", "", "must not have control characters", "must not have control characters"},
		"a line separator":       {"a\u2028b", "", "must not have control characters", "must not have control characters"},
		"another way of writing": {"a\u202eb", "", "must not have control characters", "must not have control characters"},
		"a mark of direction":    {"a\u200fb", "", "must not have control characters", "must not have control characters"},
		"the other one":          {"a\u200eb", "", "must not have control characters", "must not have control characters"},
		"the Arabic one":         {"a\u061cb", "", "must not have control characters", "must not have control characters"},
		"an isolate":             {"a\u2066b", "", "must not have control characters", "must not have control characters"},
		"an emoji with a tone":   {"👩🏽‍🚒", "👩🏽‍🚒", "", ""},
		"a Persian word":         {"می\u200cخواهم", "می\u200cخواهم", "", ""},
		"a Sinhala word":         {"ශ්\u200dරී", "ශ්\u200dරී", "", ""},
		"an Arabic number sign":  {"\u06dd12", "\u06dd12", "", ""},
		"spaces without a width": {"\u200b\u200b", "", "must not have invisible characters", "must not have invisible characters"},
		"one within a name":      {"ro\u200bot", "", "must not have invisible characters", "must not have invisible characters"},
		"a soft hyphen":          {"ro\u00adot", "", "must not have invisible characters", "must not have invisible characters"},
		"a byte order mark":      {"root\ufeff", "", "must not have invisible characters", "must not have invisible characters"},
		"tags":                   {"a\U000e0061", "", "must not have invisible characters", "must not have invisible characters"},
		"a joiner at the end":    {"root\u200d", "", "must not have invisible characters", "must not have invisible characters"},
		"one at the beginning":   {"\u200croot", "", "must not have invisible characters", "must not have invisible characters"},
		"two joiners":            {"a\u200d\u200db", "", "must not have invisible characters", "must not have invisible characters"},
		"a joiner of digits":     {"1\u200d2", "", "must not have invisible characters", "must not have invisible characters"},
		"Hangul fillers":         {"\u3164\u3164", "", "must not have invisible characters", "must not have invisible characters"},
		"one behind a name":      {"root\u3164", "", "must not have invisible characters", "must not have invisible characters"},
		"half as wide":           {"root\uffa0", "", "must not have invisible characters", "must not have invisible characters"},
		"blank Braille":          {"root\u2800", "", "must not have invisible characters", "must not have invisible characters"},
		"a grapheme joiner":      {"ro\u034fot", "", "must not have invisible characters", "must not have invisible characters"},
		"a Khmer vowel unseen":   {"\u1780\u17b4", "", "must not have invisible characters", "must not have invisible characters"},
		"a variant of a letter":  {"root\ufe0f", "", "must not have invisible characters", "must not have invisible characters"},
		"one from farther away":  {"root\U000e0100", "", "must not have invisible characters", "must not have invisible characters"},
		"a variant of a digit":   {"root1\ufe0f", "", "must not have invisible characters", "must not have invisible characters"},
		"a variant of a stop":    {"root.\ufe0f", "", "must not have invisible characters", "must not have invisible characters"},
		"a variant of a variant": {"❤\ufe0f\ufe0f", "", "must not have invisible characters", "must not have invisible characters"},
		"a variant of nothing":   {"\ufe0froot", "", "must not have invisible characters", "must not have invisible characters"},
		"an emoji as a picture":  {"❤\ufe0f!", "❤\ufe0f!", "", ""},
		"an eye that speaks":     {"👁\ufe0f\u200d🗨\ufe0f", "👁\ufe0f\u200d🗨\ufe0f", "", ""},
		"signs as pictures":      {"‼\ufe0f〰\ufe0fℹ\ufe0f", "‼\ufe0f〰\ufe0fℹ\ufe0f", "", ""},
		"a key":                  {"#\ufe0f\u20e31\ufe0f\u20e3", "#\ufe0f\u20e31\ufe0f\u20e3", "", ""},
		"a Japanese name":        {"葛\U000e0100城", "葛\U000e0100城", "", ""},
		"a Mongolian word":       {"ᠭ\u180bᠠ", "ᠭ\u180bᠠ", "", ""},
		"marks of nothing":       {"\u0301\u0301", "", "must have a visible character", "must have a visible character"},
		"no UTF-8":               {"a\xffb", "", "must be valid UTF-8", "must be valid UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			faults := api.Fields{}
			line := faults.Line("line", row.in, 2, 10)
			text := faults.Text("text", row.in, 2, 10)
			require.Equal(t, row.line, faults["line"])
			require.Equal(t, row.text, faults["text"])
			if row.line == "" {
				require.Equal(t, row.want, line)
			}
			if row.text == "" {
				require.Equal(t, row.want, text)
			}
			require.Equal(t, row.line == "" && row.text == "", faults.Err() == nil)
		})
	}
	faults := api.Fields{}
	require.Empty(t, faults.Line("note", "  ", 0, 10))
	require.NoError(t, faults.Err())
}

func TestFieldsAreAnError(t *testing.T) {
	faults := api.Fields{}
	faults.Add("b", "must be one of x, y")
	faults.Add("a", "must not be empty")
	faults.Add("a", "must be something else")
	require.EqualError(t, faults.Err(), "validation_failed: a must not be empty: b must be one of x, y")
	require.ErrorIs(t, faults.Err(), wire.ValidationFailed)
	require.NotErrorIs(t, faults.Err(), wire.InvalidRequest)
}
