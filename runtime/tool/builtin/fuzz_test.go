package builtin_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzEdit(f *testing.F) {
	f.Add("a\nb\nc", "b", "B", false)
	f.Add("x y x", "x", "", true)
	f.Add("a\r\nb", "\r\n", "\n", false)
	f.Add("\xff\x00", "\x00", "é", false)
	b := setup(f)
	f.Fuzz(func(t *testing.T, content, before, after string, all bool) {
		b.put(t, "f", content)
		before, after = strings.ToValidUTF8(before, "?"), strings.ToValidUTF8(after, "?")
		n := strings.Count(content, before)
		res, err := b.call(t.Context(), t, "Edit", in{"file_path": "f", "old_string": before, "new_string": after, "replace_all": all})
		if good := before != "" && before != after && (n == 1 || n > 1 && all); !good {
			require.Error(t, err)
			require.Equal(t, content, b.content(t, "f"))
			return
		}
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(res.Output, "Replaced "))
		require.Equal(t, strings.ReplaceAll(content, before, after), b.content(t, "f"))
	})
}

// FuzzGrep holds the search against one that looks at every line by itself.
func FuzzGrep(f *testing.F) {
	f.Add("one\ntwo\nthree\n", "o", false, uint8(0), uint8(0), true)
	f.Add("one\r\n\r\nTWO", "(?:two|one)$", true, uint8(1), uint8(2), false)
	f.Add("\xff\n\u212A\n\u017F k s", "k|s", true, uint8(1), uint8(0), true)
	f.Add("a\n\n\nb", "^$", false, uint8(3), uint8(3), true)
	f.Add("İx\nix", "(?i)İ", true, uint8(0), uint8(0), true)
	f.Add("aXb\nab", `\Aa(?-i:X)?b\z`, true, uint8(0), uint8(0), true)
	b := setup(f)
	f.Fuzz(func(t *testing.T, content, pattern string, ignoreCase bool, before, after uint8, numbers bool) {
		pattern = strings.ToValidUTF8(pattern, "?")
		before, after = before%5, after%5
		b.put(t, "f", content)
		res, err := b.call(t.Context(), t, "Grep", in{"pattern": pattern, "output_mode": "content", "-i": ignoreCase,
			"-B": before, "-A": after, "-n": numbers, "head_limit": 0})
		if err != nil {
			return
		}
		flags := ""
		if ignoreCase {
			flags = "(?i)"
		}
		re, err := regexp.Compile(flags + "(?:" + pattern + ")")
		require.NoError(t, err)
		if strings.ContainsRune(content, 0) {
			require.Equal(t, "No matches found.", res.Output)
			return
		}
		require.Equal(t, slowGrep(re, content, int(before), int(after), numbers), res.Output)
	})
}

func slowGrep(re *regexp.Regexp, content string, before, after int, numbers bool) string {
	lines := strings.Split(content, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	matches, printed := map[int]bool{}, map[int]bool{}
	for i, line := range lines {
		if re.MatchString(line) || re.MatchString(strings.TrimSuffix(line, "\r")) {
			matches[i] = true
			for j := i - before; j <= i+after; j++ {
				printed[j] = true
			}
		}
	}
	var out bytes.Buffer
	for i, line := range lines {
		if !printed[i] {
			continue
		}
		if before+after > 0 && out.Len() > 0 && !printed[i-1] {
			out.WriteString("--\n")
		}
		mark := "-"
		if matches[i] {
			mark = ":"
		}
		out.WriteString("f" + mark)
		if numbers {
			fmt.Fprintf(&out, "%d%s", i+1, mark)
		}
		out.WriteString(strings.ToValidUTF8(strings.TrimSuffix(line, "\r"), "\uFFFD") + "\n")
	}
	if out.Len() == 0 {
		return "No matches found."
	}
	return out.String()
}
