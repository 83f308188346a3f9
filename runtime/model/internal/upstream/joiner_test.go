package upstream_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/internal/upstream"
)

// FuzzJoiner splits a text at any two bytes: the parts are valid and make up the same text.
func FuzzJoiner(f *testing.F) {
	f.Add("a😀é日本", uint8(2), uint8(4))
	f.Add("\xff\xed\xa0\xbd\xed\xb8\x80", uint8(4), uint8(1))
	f.Fuzz(func(t *testing.T, text string, first, second uint8) {
		i := min(int(first), len(text))
		j := min(i+int(second), len(text))
		var joiner upstream.Joiner
		var parts []model.Part
		for _, fragment := range []string{text[:i], text[i:j], text[j:]} {
			parts = joiner.Append(parts, model.KindText, 1, fragment)
		}
		parts = joiner.Flush(parts)
		var got strings.Builder
		for _, p := range parts {
			require.True(t, utf8.ValidString(p.Text), "%q", p.Text)
			require.NotEmpty(t, p.Text)
			got.WriteString(p.Text)
		}
		if utf8.ValidString(text) {
			require.Equal(t, text, got.String())
		}
	})
}
