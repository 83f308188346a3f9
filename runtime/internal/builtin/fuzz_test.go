package builtin_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/builtin"
)

func FuzzEdit(f *testing.F) {
	f.Add("a\nb\nc", "b", "B", false)
	f.Add("x y x", "x", "", true)
	f.Add("a\r\nb", "\r\n", "\n", false)
	f.Add("a\r\nb\nc\r\n", "\nb", "x\ny\n", false)
	f.Add("\xff\x00", "\x00", "é", false)
	b := setup(f)
	f.Fuzz(func(t *testing.T, content, before, after string, all bool) {
		b.put(t, "f", content)
		before, after = strings.ToValidUTF8(before, "?"), strings.ToValidUTF8(after, "?")
		literal := strings.Contains(before+after, "\r")
		found, unix := content, strings.NewReplacer("\r\n", "\n")
		if strings.Contains(before, "\n") && !strings.Contains(before, "\r") {
			found = unix.Replace(content)
		}
		n := strings.Count(found, before)
		res, err := b.call(t.Context(), t, "Edit", in{"file_path": "f", "old_string": before, "new_string": after, "replace_all": all})
		if good := before != "" && before != after && (n == 1 || n > 1 && all); !good {
			require.Error(t, err)
			require.Equal(t, content, b.content(t, "f"))
			return
		}
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(res.Output, "Replaced "))
		if got := b.content(t, "f"); literal && found == content {
			require.Equal(t, strings.ReplaceAll(content, before, after), got)
		} else {
			require.Equal(t, unix.Replace(strings.ReplaceAll(found, before, after)), unix.Replace(got))
		}
	})
}

// FuzzGrep compares the search with one that matches every line.
func FuzzGrep(f *testing.F) {
	f.Add("one\ntwo\nthree\n", "o", false, uint8(0), uint8(0), true)
	f.Add("one\r\n\r\nTWO", "(?:two|one)$", true, uint8(1), uint8(2), false)
	f.Add("\xff\n\u212A\n\u017F k s", "k|s", true, uint8(1), uint8(0), true)
	f.Add("a\n\n\nb", "^$", false, uint8(3), uint8(3), true)
	f.Add("İx\nix", "(?i)İ", true, uint8(0), uint8(0), true)
	f.Add("aXb\nab", `\Aa(?-i:X)?b\z`, true, uint8(0), uint8(0), true)
	b := setup(f)
	f.Fuzz(func(t *testing.T, content, pattern string, ignoreCase bool, before, after uint8, numbers bool) {
		for line := range strings.Lines(content) {
			if len(line) > 2000 { // the output has a part of it
				return
			}
		}
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

// served responds to every request with one page.
type served struct{ page string }

func (s served) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/html; charset=utf-8"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(s.page)), ContentLength: int64(len(s.page)),
	}, nil
}

// FuzzHTML repeats a part of a page up to 64 KiB. The time and memory of the conversion are
// proportional to the size.
func FuzzHTML(f *testing.F) {
	for _, page := range hostilePages() {
		f.Add("", page[:40])
		f.Add(page[:20], page[len(page)-20:])
	}
	f.Fuzz(func(t *testing.T, head, part string) {
		page := head + strings.Repeat(part, max(64<<10-len(head), 0)/max(len(part), 1))
		b := setup(t, func(c *builtin.Config) {
			c.Client, c.MaxOutput = &http.Client{Transport: served{page}}, 16<<20
		})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		output, err := b.call(t.Context(), t, "WebFetch", in{"url": "http://a.example/b"})
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		require.Less(t, time.Since(began), 30*time.Second)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20)) // of 64 KiB; the race detector adds to each allocation
		require.Less(t, len(output.Output), 60*len(page)+1<<20)
		require.True(t, utf8.ValidString(output.Output))
	})
}
