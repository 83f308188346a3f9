package excerpt_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/excerpt"
)

func TestTruncation(t *testing.T) {
	for _, row := range []struct {
		name, in                             string
		n                                    int
		head, tail, characters, shorten, end string
	}{
		{"empty", "", 0, "", "", "", "", ""},
		{"short", "abc", 3, "abc", "abc", "abc", "abc", "abc"},
		{"ASCII", "abcdefgh", 5, "abcde", "defgh", "abcde", "ab...", "\n[8 bytes cut]\n"},
		{"nothing", "abc", 0, "", "", "", "...", "\n[3 bytes cut]\n"},
		{"negative", "abc", -1, "", "", "abc", "...", "\n[3 bytes cut]\n"},
		{"within a character", "aéé", 4, "aé", "éé", "aéé", "a...", "\n[5 bytes cut]\n"},
		{"four bytes", "😀😀", 7, "😀", "😀", "😀😀", "😀...", "\n[8 bytes cut]\n"},
		{"not UTF-8", "\x80\x80\x80\x80\x80\x80", 5, "\x80\x80\x80\x80\x80", "\x80\x80\x80\x80\x80", "\x80\x80\x80\x80\x80", "\uFFFD", "\uFFFD"},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.head, excerpt.Head(row.in, row.n))
			require.Equal(t, []byte(row.head), excerpt.Head([]byte(row.in), row.n))
			require.Equal(t, row.tail, excerpt.Tail(row.in, row.n))
			if row.n >= 0 {
				require.Equal(t, row.characters, excerpt.Characters(row.in, row.n))
			}
			require.Equal(t, row.shorten, excerpt.Shorten(row.in, row.n))
			end, cut := excerpt.Ends(row.in, row.n)
			require.Equal(t, row.end, end)
			require.Equal(t, strings.Contains(end, "bytes cut"), cut)
		})
	}
	got, cut := excerpt.Ends(strings.Repeat("a", 100)+strings.Repeat("b", 100), 40)
	require.True(t, cut)
	require.Equal(t, "aaaaaaaaaaa\n[177 bytes cut]\nbbbbbbbbbbbb", got)
}

func FuzzTruncation(f *testing.F) {
	f.Add("héllo, wörld 😀", 5)
	f.Add("\xff\x80\x80\x80\x80", 3)
	f.Fuzz(func(t *testing.T, s string, n int) {
		head, tail := excerpt.Head(s, n), excerpt.Tail(s, n)
		require.True(t, strings.HasPrefix(s, head) && strings.HasSuffix(s, tail))
		require.LessOrEqual(t, len(head), max(n, 0))
		require.LessOrEqual(t, len(tail), max(n, 0))
		if n >= 0 && n < len(s) {
			require.Greater(t, len(head), n-utf8.UTFMax, "no more than one character less")
			require.Greater(t, len(tail), n-utf8.UTFMax)
			require.Equal(t, min(n, utf8.RuneCountInString(s)), utf8.RuneCountInString(excerpt.Characters(s, n)))
		}
		if utf8.ValidString(s) {
			require.True(t, utf8.ValidString(head) && utf8.ValidString(tail))
		}
		require.True(t, utf8.ValidString(excerpt.Shorten(s, n)))
		end, cut := excerpt.Ends(s, n)
		require.True(t, utf8.ValidString(end))
		if cut && n > 40 {
			require.LessOrEqual(t, len(end), n)
		}
	})
}
