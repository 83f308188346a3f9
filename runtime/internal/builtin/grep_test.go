package builtin_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/builtin"
)

func TestGrepFiles(t *testing.T) {
	b := tree(t)
	b.put(t, "binary", "text\x00")
	for name, row := range map[string]struct {
		input in
		want  string
	}{
		"all":                     {in{}, ".env a.go b.ts .hidden/c.go src/[x].go src/d.go src/deep/f.tsx src/deep/er/e.go"},
		"glob by name":            {in{"glob": "*.go"}, "a.go .hidden/c.go src/[x].go src/d.go src/deep/er/e.go"},
		"glob with braces":        {in{"glob": "*.{ts,tsx}"}, "b.ts src/deep/f.tsx"},
		"glob by path":            {in{"glob": "src/*.go"}, "src/[x].go src/d.go"},
		"glob at the top":         {in{"glob": "/*.go"}, "a.go"},
		"glob with **":            {in{"glob": "src/**/*.go"}, "src/[x].go src/d.go src/deep/er/e.go"},
		"glob turned round":       {in{"glob": "!*.go"}, ".env b.ts src/deep/f.tsx"},
		"glob and path":           {in{"glob": "deep/*", "path": "src"}, "src/deep/f.tsx"},
		"glob from cwd, and path": {in{"glob": "src/deep/*", "path": "src"}, "src/deep/f.tsx"},
		"path":                    {in{"path": "src/deep"}, "src/deep/f.tsx src/deep/er/e.go"},
		"path of a file":          {in{"path": "b.ts"}, "b.ts"},
		"path of a file and glob": {in{"path": "b.ts", "glob": "*.go"}, "b.ts"},
		"path of a link":          {in{"path": "link.go"}, "src/d.go"},
		"path .git":               {in{"path": ".git"}, ".git/config"},
		"binary":                  {in{"path": "binary"}, ""},
		"no match":                {in{"pattern": "absent"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			input := in{"pattern": "text"}
			maps.Copy(input, row.input)
			output := b.ok(t, "Grep", input)
			if row.want == "" {
				require.Equal(t, "No matches found.", output)
				return
			}
			require.Equal(t, strings.ReplaceAll(row.want, " ", "\n")+"\n", output, "in order: files before directories")
		})
	}
}

func TestGrepContent(t *testing.T) {
	b := setup(t)
	b.put(t, "f", "one\ntwo\nthree\nfour\nfive\nsix\nseven\n")
	b.put(t, "g", "one\r\nTWO\r\nno end")
	b.put(t, "h", "caf\xe9 one\n\n")
	for name, row := range map[string]struct {
		pattern string
		input   in
		want    string
	}{
		"numbers":                 {"one", in{}, "f:1:one g:1:one h:1:caf\uFFFD_one"},
		"no numbers":              {"one", in{"-n": false}, "f:one g:one h:caf\uFFFD_one"},
		"letter case":             {"TWO", in{}, "g:2:TWO"},
		"no letter case":          {"two", in{"-i": true}, "f:2:two g:2:TWO"},
		"no letter case, upper":   {"T(W|X)O", in{"-i": true}, "f:2:two g:2:TWO"},
		"a line with no end":      {"end$", in{}, "g:3:no_end"},
		"the end of a CRLF line":  {"^TWO$", in{}, "g:2:TWO"},
		"the return itself":       {`\r$`, in{}, "g:1:one g:2:TWO"},
		"the return, as a text":   {"\r", in{}, "g:1:one g:2:TWO"},
		"empty lines":             {"^$", in{}, "h:2:"},
		"begin and end of text":   {`\Asix\z`, in{}, "f:6:six"},
		"an alternative":          {"two|three|absent", in{}, "f:2:two f:3:three"},
		"a repetition":            {"(?:ee){1,2}", in{}, "f:3:three"},
		"not of lines around":     {`six\s+seven`, in{}, ""},
		"after":                   {"two", in{"-A": 1}, "f-3-three|f:2:two"},
		"before":                  {"two", in{"-B": 5}, "f-1-one|f:2:two"},
		"around":                  {"four", in{"-C": 1}, "f-3-three|f:4:four|f-5-five"},
		"around, and more before": {"four", in{"-C": 1, "-B": 2}, "f-2-two|f-3-three|f:4:four|f-5-five"},
		"groups apart":            {"one|five", in{"path": "f", "-A": 1}, "f:1:one f-2-two -- f:5:five f-6-six"},
		"groups that meet":        {"two|five", in{"path": "f", "-C": 1}, "f-1-one f:2:two f-3-three f-4-four f:5:five f-6-six"},
		"matches in a row":        {"two|three", in{"path": "f", "-C": 1}, "f-1-one f:2:two f:3:three f-4-four"},
		"groups of two files":     {"(?i)two", in{"-A": 1}, "f:2:two f-3-three -- g:2:TWO g-3-no_end"},
		"without numbers":         {"two", in{"-C": 1, "-n": false}, "f-one f:two f-three"},
		"not in other modes":      {"two", in{"-C": 1, "output_mode": "count"}, "f:1"},
		"count":                   {"o", in{"output_mode": "count"}, "f:3 g:2 h:1"},
		"count of one file":       {"e", in{"output_mode": "count", "path": "f"}, "f:4"},
		"files":                   {"o", in{"output_mode": "files_with_matches"}, "f g h"},
	} {
		t.Run(name, func(t *testing.T) {
			input := in{"pattern": row.pattern, "output_mode": "content"}
			maps.Copy(input, row.input)
			got := strings.Fields(strings.ReplaceAll(strings.ReplaceAll(b.ok(t, "Grep", input), " ", "_"), "\n", " "))
			want := strings.FieldsFunc(row.want, func(r rune) bool { return r == ' ' || r == '|' })
			switch {
			case row.want == "":
				require.Equal(t, []string{"No_matches_found."}, got)
			case strings.Contains(row.want, "|"):
				require.ElementsMatch(t, want, got)
			default:
				require.Equal(t, want, got)
			}
		})
	}
}

func TestGrepRejects(t *testing.T) {
	b := setup(t)
	for name, row := range map[string]struct {
		input in
		want  string
	}{
		"a bracket":     {in{"pattern": "a("}, "the pattern is not a regular expression in RE2 syntax: missing closing ): a("},
		"a look-ahead":  {in{"pattern": "a(?=b)"}, "invalid or unsupported Perl syntax"},
		"a line break":  {in{"pattern": "a\nb"}, "the pattern contains a line break"},
		"the same, \\n": {in{"pattern": `(a|b\n)c`}, "the pattern contains a line break"},
		"a large one":   {in{"pattern": strings.Repeat("(x{1000})?", 500)}, "the pattern"},
		"a mode":        {in{"pattern": "a", "output_mode": "lines"}, `output_mode cannot be "lines"`},
		"a long glob":   {in{"pattern": "a", "glob": strings.Repeat("[", 80_000)}, "glob: the pattern is longer than 1000 bytes"},
		"a glob":        {in{"pattern": "a", "glob": "[a"}, `glob: "[a" is not a valid pattern`},
		"a path":        {in{"pattern": "a", "path": "nothing"}, "nothing does not exist"},
	} {
		t.Run(name, func(t *testing.T) { require.Contains(t, b.fails(t, "Grep", row.input), row.want) })
	}
}

func TestGrepLimits(t *testing.T) {
	b := setup(t)
	for i := range 300 {
		b.put(t, fmt.Sprintf("d/%03d", i), "x\n")
	}
	b.put(t, "f", strings.Repeat("x\n", 251))
	b.put(t, "g", strings.Repeat("x\n", 250))
	lines := func(output string) (n int, last string) {
		for line := range strings.Lines(output) {
			n, last = n+1, line
		}
		return n - 1, last
	}
	n, note := lines(b.cut(t, "Grep", in{"pattern": "x", "path": "d"}))
	require.Equal(t, 250, n)
	require.Equal(t, "[Only the first 250 files. Use a narrower pattern, path or glob, or another head_limit.]\n", note)
	n, note = lines(b.cut(t, "Grep", in{"pattern": "x", "path": "f", "output_mode": "content"}))
	require.Equal(t, 250, n)
	require.Contains(t, note, "Only the first 250 lines")
	n, _ = lines(b.ok(t, "Grep", in{"pattern": "x", "path": "g", "output_mode": "content"}))
	require.Equal(t, 249, n, "no note at the end")
	n, _ = lines(b.ok(t, "Grep", in{"pattern": "x", "path": "d", "head_limit": 0}))
	require.Equal(t, 299, n)
	n, _ = lines(b.cut(t, "Grep", in{"pattern": "x", "path": "d", "head_limit": 2, "output_mode": "count"}))
	require.Equal(t, 2, n)
	require.Equal(t, "f:1:x\n[Only the first 1 lines. Use a narrower pattern, path or glob, or another head_limit.]\n",
		b.cut(t, "Grep", in{"pattern": "x", "path": "f", "head_limit": 1, "output_mode": "content"}))
}

func TestGrepOutputIsBounded(t *testing.T) {
	b := setup(t, func(c *builtin.Config) { c.MaxOutput = 3000 })
	b.put(t, "f", strings.Repeat("a line of some length\n", 1000)+strings.Repeat("y", 2010)+"\n")
	output := b.cut(t, "Grep", in{"pattern": "line", "output_mode": "content", "head_limit": 0})
	require.LessOrEqual(t, len(output), 3000)
	require.Regexp(t, `^(?:f:\d+:a line of some length\n)+\[Only the first \d+ lines\. .*\]\n$`, output)
	require.Equal(t, "f:1001:"+strings.Repeat("y", 2000)+" [10 bytes of this line cut]\n",
		b.ok(t, "Grep", in{"pattern": "y$", "output_mode": "content"}))
}

// A file is searched in parts. Matches at the boundaries must be found.
func TestGrepOfLargeFiles(t *testing.T) {
	b := setup(t)
	var text strings.Builder
	var want []string
	for i := 1; text.Len() < 2<<20; i++ {
		if i%5000 == 0 {
			fmt.Fprintf(&text, "needle %d\n", i)
			want = append(want, fmt.Sprintf("f-%d-%s", i-1, strings.Repeat("x", (i-1)%90)), fmt.Sprintf("f:%d:needle %d", i, i),
				fmt.Sprintf("f-%d-%s", i+1, strings.Repeat("x", (i+1)%90)), "--")
			continue
		}
		text.WriteString(strings.Repeat("x", i%90) + "\n")
	}
	b.put(t, "f", text.String())
	for _, pattern := range []string{"needle", "n.+[1-9]", "^[^x]+$"} {
		input := in{"pattern": pattern, "output_mode": "content", "-C": 1}
		if pattern != "^[^x]+$" {
			require.Equal(t, strings.Join(want[:len(want)-1], "\n")+"\n", b.ok(t, "Grep", input), pattern)
		} else {
			require.Equal(t, fmt.Sprintf("f:%d\n", len(want)/4), b.ok(t, "Grep", in{"pattern": pattern, "output_mode": "count"}))
		}
	}
}

func TestGrepMemory(t *testing.T) {
	const size = 64 << 20
	b := setup(t)
	b.big(t, "big", size)
	for _, pattern := range []string{"first|last", "[fl].+t$"} {
		var output string
		require.Less(t, allocated(func() {
			output = b.ok(t, "Grep",
				in{"pattern": pattern, "output_mode": "content", "-C": 1})
		}), uint64(16<<20))
		require.Equal(t, fmt.Sprintf("big:1:first\nbig-2-%s [%d bytes of this line cut]\nbig:3:last\n",
			strings.Repeat("x", 2000), size-2000), output)
	}
	require.NoError(t, os.Truncate(filepath.Join(b.dir, "big"), 1<<40)) // followed by null bytes
	require.Equal(t, "big:1\n", b.ok(t, "Grep", in{"pattern": "first", "output_mode": "count"}))
}

// slowly is a context that ends after a number of calls of Err.
type slowly struct {
	context.Context
	left int
}

var errOver = errors.New("over")

func (s *slowly) Err() error {
	if s.left--; s.left < 0 {
		return errOver
	}
	return nil
}

// A match of one line of 1 MB may take seconds. The regexp package has no way to stop it.
func TestGrepEndsWithinALine(t *testing.T) {
	b := setup(t)
	b.put(t, "f", strings.Repeat("x", 1<<20-1))
	start := time.Now()
	_, err := b.call(&slowly{context.WithoutCancel(t.Context()), 10}, t, "Grep", in{"pattern": "(?:x?){300}[^x][a-w]"})
	require.ErrorIs(t, err, errOver)
	require.Less(t, time.Since(start), 30*time.Second)
}
