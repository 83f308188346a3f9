package builtin_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/filesafe"
	"github.com/seed93082962/agenthost/runtime/internal/builtin"
	"github.com/seed93082962/agenthost/runtime/tool"
)

func TestEdit(t *testing.T) {
	for name, row := range map[string]struct {
		content, before, after string
		all                    bool
		want, output           string
	}{
		"one": {"a\nb\nc\n", "b", "B", false, "a\nB\nc\n",
			"Replaced 1 occurrence in f:\n     1\ta\n     2\tB\n     3\tc\n"},
		"lines around": {"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "5", "five\nand", false, "1\n2\n3\n4\nfive\nand\n6\n7\n8\n9\n",
			"Replaced 1 occurrence in f:\n     2\t2\n     3\t3\n     4\t4\n     5\tfive\n     6\tand\n     7\t6\n     8\t7\n     9\t8\n"},
		"all": {"x y x\nx\n", "x", "long", true, "long y long\nlong\n",
			"Replaced 3 occurrences in f, here is the first:\n     1\tlong y long\n     2\tlong\n"},
		"all of one":       {"x", "x", "y", true, "y", "Replaced 1 occurrence in f:\n     1\ty\n"},
		"nothing in place": {"a\nb\n", "a\n", "", false, "b\n", "Replaced 1 occurrence in f:\n     1\tb\n"},
		"nothing left":     {"a", "a", "", false, "", "Replaced 1 occurrence in f:\n"},
		"lines joined":     {"a\nb\nc\n", "a\nb", "ab", false, "ab\nc\n", "Replaced 1 occurrence in f:\n     1\tab\n     2\tc\n"},
		"CRLF": {"a\r\nb\r\n", "a\r\nb", "x\r\ny", false, "x\r\ny\r\n",
			"Replaced 1 occurrence in f:\n     1\tx\n     2\ty\n"},
		"LF for CRLF": {"a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\nz\n", false, "x\r\ny\r\nz\r\nc\r\n",
			"Replaced 1 occurrence in f:\n     1\tx\n     2\ty\n     3\tz\n     4\tc\n"},
		"new lines of CRLF":         {"a\r\nb\r\n", "a", "x\ny", false, "x\r\ny\r\nb\r\n", "Replaced 1 occurrence in f:\n     1\tx\n     2\ty\n     3\tb\n"},
		"after the last CRLF":       {"a\r\nb", "b", "x\ny", false, "a\r\nx\r\ny", "Replaced 1 occurrence in f:\n     1\ta\n     2\tx\n     3\ty\n"},
		"new lines without any":     {"a", "a", "x\ny", false, "x\ny", "Replaced 1 occurrence in f:\n     1\tx\n     2\ty\n"},
		"mixed ends":                {"a\nb\r\nc\nd\r\n", "a\nb\nc", "A\nB\nC\nD", false, "A\nB\r\nC\r\nD\nd\r\n", "Replaced 1 occurrence in f:\n     1\tA\n     2\tB\n     3\tC\n     4\tD\n     5\td\n"},
		"a line before a CRLF":      {"a\nb\r\nc\n", "a\nb\nc", "a\nx\nb\nc", false, "a\nx\nb\r\nc\n", "Replaced 1 occurrence in f:\n     1\ta\n     2\tx\n     3\tb\n     4\tc\n"},
		"a line before an LF":       {"a\r\nb\nc\r\n", "a\nb\nc\n", "a\nx\ny\nb\nc\n", false, "a\r\nx\r\ny\r\nb\nc\r\n", "Replaced 1 occurrence in f:\n     1\ta\n     2\tx\n     3\ty\n     4\tb\n     5\tc\n"},
		"a line is removed":         {"a\nb\r\nc\n", "a\nb\nc", "b\nc", false, "b\r\nc\n", "Replaced 1 occurrence in f:\n     1\tb\n     2\tc\n"},
		"lines change among others": {"a\nb\r\nc\nd\r\n", "a\nb\nc\nd\n", "a\nB\nx\ny\nC\nd\n", false, "a\nB\r\nx\ny\nC\nd\r\n", "Replaced 1 occurrence in f:\n     1\ta\n     2\tB\n     3\tx\n     4\ty\n     5\tC\n     6\td\n"},
		"a line at the top":         {"a\r\nb\n", "a\nb", "x\na\nb", false, "x\r\na\r\nb\n", "Replaced 1 occurrence in f:\n     1\tx\n     2\ta\n     3\tb\n"},
		"all of mixed ends":         {"a\nb\na\r\nb\r\n", "a\nb\n", "a\n\nb\n", true, "a\n\nb\na\r\n\r\nb\r\n", "Replaced 2 occurrences in f, here is the first:\n     1\ta\n     2\t\n     3\tb\n     4\ta\n     5\t\n     6\tb\n"},
		"a break at its start":      {"a\r\nb\r\n", "\nb", "\nB\nc", false, "a\r\nB\r\nc\r\n", "Replaced 1 occurrence in f:\n     1\ta\n     2\tB\n     3\tc\n"},
		"CRLF is removed":           {"a\r\nb\r\n", "a\r\n", "a\n", false, "a\nb\r\n", "Replaced 1 occurrence in f:\n     1\ta\n     2\tb\n"},
		"CRLF is added":             {"a\nb\n", "a\n", "a\r\n", false, "a\r\nb\n", "Replaced 1 occurrence in f:\n     1\ta\n     2\tb\n"},
		"bytes of no UTF-8":         {"\xff a \xfe", "a", "b", false, "\xff b \xfe", "Replaced 1 occurrence in f:\n     1\t\uFFFD b \uFFFD\n"},
		"a null byte":               {"\x00a\x00", "a", "b", false, "\x00b\x00", "Replaced 1 occurrence in f:\n     1\t\x00b\x00\n"},
		"overlapping":               {"aaa", "aa", "b", true, "ba", "Replaced 1 occurrence in f:\n     1\tba\n"},
		"nothing is special":        {"a.*b$1\n", ".*", "$1\\1", false, "a$1\\1b$1\n", "Replaced 1 occurrence in f:\n     1\ta$1\\1b$1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.put(t, "f", row.content)
			input := in{"file_path": "f", "old_string": row.before, "new_string": row.after}
			if row.all {
				input["replace_all"] = true
			}
			require.Equal(t, row.output, b.ok(t, "Edit", input))
			require.Equal(t, row.want, b.content(t, "f"))
		})
	}
}

func TestEditRejects(t *testing.T) {
	const content = "func one() {\n\treturn 1\n}\n\nfunc two() {\n\treturn 1\n}\n"
	for name, row := range map[string]struct{ content, before, after, want string }{
		"nothing like it": {content, "func three", "x",
			"old_string is not in f: read the file again, and copy the text exactly"},
		"twice": {content, "return 1", "x",
			"old_string occurs 2 times in f, at lines 2, 6: add neighbouring lines to select one, or set replace_all"},
		"often": {strings.Repeat("x\n", 12), "x\n", "y",
			"old_string occurs 12 times in f, at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and more: add neighbouring lines"},
		"on one line":           {"x x x\n", "x", "y", "old_string occurs 3 times in f, at line 1: add neighbouring lines"},
		"some on one line":      {"x x\ny\nx x x\n", "x", "y", "old_string occurs 5 times in f, at lines 1, 3: add neighbouring lines"},
		"one begins in its end": {"a\nb a\nb a\nb", "a\nb", "y", "old_string occurs 3 times in f, at lines 1, 2, 3: add neighbouring lines"},
		"just often enough":     {strings.Repeat("x x\n", 10), "x", "y", "occurs 20 times in f, at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10: add neighbouring lines"},
		"the same":              {content, "one", "one", "old_string and new_string are the same"},
		"empty":                 {content, "", "x", "old_string is empty: set it to the text to replace"},
		"blanks for a tab": {content, "func two() {\n    return 1", "x",
			"but line 5 differs only in white space"},
		"indentation of a first line": {content, "\n\n\n  func two() {", "x", "but line 5 differs only in white space"},
		"twice, with other ends":      {"a\nb\na\r\nb\r\n", "a\nb\n", "x", "old_string occurs 2 times in f, at lines 1, 3"},
		"CRLF for LF":                 {"a\nb\n", "a\r\nb\r\n", "x", `but it is with other line ends: use \n`},
		"Read's numbers": {content, "     1\tfunc one() {\n     2\t\treturn 1", "x",
			"but it is without the line numbers"},
		"what Read put for bytes": {"caf\xe9", "caf\uFFFD", "x", "U+FFFD replaces bytes that are not UTF-8"},
		"white space alone":       {"a b", "\t\t", "x", "old_string is not in f: read the file again"},
		"in an empty file":        {"", "x", "y", "old_string is not in f"},
		"too much of it":          {strings.Repeat("x", 2000), "x", strings.Repeat("y", 6000), "would become larger than 10 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.put(t, "f", row.content)
			input := in{"file_path": "f", "old_string": row.before, "new_string": row.after}
			input["replace_all"] = name == "too much of it"
			require.Contains(t, b.fails(t, "Edit", input), row.want)
			require.Equal(t, row.content, b.content(t, "f"))
		})
	}
}

func TestEditOfMissingFiles(t *testing.T) {
	b := setup(t)
	b.put(t, "dir/f", "")
	require.Equal(t, "new does not exist: use Write to create it",
		b.fails(t, "Edit", in{"file_path": "new", "old_string": "", "new_string": "x"}))
	require.Equal(t, "new does not exist: use Glob to find the path",
		b.fails(t, "Edit", in{"file_path": "new", "old_string": "a", "new_string": "x"}))
	require.Equal(t, "dir is a directory: use Glob to list it",
		b.fails(t, "Edit", in{"file_path": "dir", "old_string": "a", "new_string": "x"}))
}

func TestEditOfLargeFiles(t *testing.T) {
	b := setup(t)
	b.put(t, "most", "a"+strings.Repeat("x", 10<<20-1))
	require.Contains(t, b.ok(t, "Edit", in{"file_path": "most", "old_string": "ax", "new_string": "bx"}), "bytes of this line cut]")
	b.put(t, "over", "a"+strings.Repeat("x", 10<<20))
	require.Equal(t, "over is larger than the 10 MiB that Edit can change",
		b.fails(t, "Edit", in{"file_path": "over", "old_string": "a", "new_string": "b"}))
	b.put(t, "huge", "a")
	require.NoError(t, os.Truncate(filepath.Join(b.dir, "huge"), 1<<40))
	require.Less(t, allocated(func() { b.fails(t, "Edit", in{"file_path": "huge", "old_string": "a", "new_string": "b"}) }),
		uint64(1<<20))
}

func TestEditOutputIsBounded(t *testing.T) {
	b := setup(t, func(c *builtin.Config) { c.MaxOutput = 1000 })
	b.put(t, "f", "a")
	output := b.cut(t, "Edit", in{"file_path": "f", "old_string": "a", "new_string": strings.Repeat("line\n", 1000)})
	require.LessOrEqual(t, len(output), 1000)
	require.Contains(t, output, "bytes cut]\n")
}

// The tools of two agents work on one directory, which each has opened.
func TestConcurrentEditsAreNotLost(t *testing.T) {
	b := setup(t)
	const edits = 40
	var content strings.Builder
	for i := range edits {
		fmt.Fprintf(&content, "<%d>\n", i)
	}
	b.put(t, "f", content.String())
	dir, err := filesafe.Open(b.dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, dir.Close()) }()
	second := box{dir: b.dir, tools: map[string]tool.Tool{}}
	for _, one := range builtin.Tools(builtin.Config{Dir: dir}) {
		second.tools[one.Spec().Name] = one
	}
	var wait sync.WaitGroup
	failed := make([]error, edits)
	for i := range edits {
		edit, path := b.tools["Edit"], "f"
		if i%2 == 0 {
			edit, path = second.tools["Edit"], filepath.Join(b.dir, "f")
		}
		input, err := json.Marshal(in{"file_path": path, "old_string": fmt.Sprintf("<%d>", i), "new_string": "done"})
		require.NoError(t, err)
		wait.Go(func() { _, failed[i] = edit.Call(t.Context(), tool.Call{Input: input}) })
	}
	wait.Wait()
	for _, err := range failed {
		require.NoError(t, err)
	}
	require.Equal(t, strings.Repeat("done\n", edits), b.content(t, "f"))
}
