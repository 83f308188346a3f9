package builtin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/builtin"
	"github.com/seed93082962/agenthost/runtime/tool"
)

func (b box) preview(t testing.TB, name string, input in) (string, error) {
	t.Helper()
	data, err := json.Marshal(input)
	require.NoError(t, err)
	return b.tools[name].(interface {
		Preview(ctx context.Context, input json.RawMessage) (string, error)
	}).Preview(t.Context(), data)
}

// approve calls a tool as after an approval of what Preview returned.
func (b box) approve(t testing.TB, name, shown string, input in) error {
	t.Helper()
	data, err := json.Marshal(input)
	require.NoError(t, err)
	_, err = b.tools[name].Call(t.Context(), tool.Call{ID: "t1", Input: data, Approved: shown})
	return err
}

// A person sees the path and all lines that change, and what Bash and WebFetch execute.
func TestPreview(t *testing.T) {
	ten := "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"
	for name, row := range map[string]struct {
		tool  string
		input in
		want  string
	}{
		"Edit":                     {"Edit", in{"file_path": "ten", "old_string": "5\n", "new_string": "five\n"}, "ten\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"},
		"several":                  {"Edit", in{"file_path": "ten", "old_string": "1", "new_string": "I", "replace_all": true}, "ten\n@@ -1,4 +1,4 @@\n-1\n+I\n 2\n 3\n 4\n@@ -7,4 +7,4 @@\n 7\n 8\n 9\n-10\n+I0\n"},
		"less":                     {"Edit", in{"file_path": "ten", "old_string": "9\n10\n", "new_string": ""}, "ten\n@@ -6,5 +6,3 @@\n 6\n 7\n 8\n-9\n-10\n"},
		"Write":                    {"Write", in{"file_path": "ten", "content": "0\n1\n2\n3\n"}, "ten\n@@ -1,10 +1,4 @@\n+0\n 1\n 2\n 3\n-4\n-5\n-6\n-7\n-8\n-9\n-10\n"},
		"moved lines":              {"Write", in{"file_path": "odd", "content": "c\na\nb\nd\n\nx"}, "odd\n@@ -1,6 +1,6 @@\n+c\n a\n b\n-c\n d\n \n x\n\\ No newline at end of file\n"},
		"a new file":               {"Write", in{"file_path": "a/new", "content": "x"}, "a/new (a new file)\n@@ -1,0 +1,1 @@\n+x\n\\ No newline at end of file\n"},
		"no change":                {"Write", in{"file_path": "ten", "content": ten}, "ten\n"},
		"hidden":                   {"Write", in{"file_path": "secret", "content": "x\n"}, "secret (a rule hides its present content)\n@@ -1,0 +1,1 @@\n+x\n"},
		"another form of the path": {"Write", in{"file_path": "./ten", "content": "1\n2\n3\n4\n5\n6\n7\n8\n9\n"}, "ten\n@@ -7,4 +7,3 @@\n 7\n 8\n 9\n-10\n"},
		"bytes":                    {"Edit", in{"file_path": "latin", "old_string": "b\n", "new_string": "\x1b[31m\u202e\n"}, "latin\n@@ -1,2 +1,2 @@\n \uFFFD\n-b\n+\x1b[31m\u202e\n"},
		"Bash":                     {"Bash", in{"command": "rm -rf x", "timeout": 5}, "rm -rf x"},
		"WebFetch":                 {"WebFetch", in{"url": "https://example.org/a b"}, "https://example.org/a b"},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, func(c *builtin.Config) { c.Hides = func(path string) bool { return path == "secret" } })
			b.put(t, "ten", ten)
			b.put(t, "odd", "a\nb\nc\nd\n\nx")
			b.put(t, "secret", "the secret\n")
			b.put(t, "latin", "\xe9\nb\n")
			got, err := b.preview(t, row.tool, row.input)
			require.NoError(t, err)
			require.Equal(t, row.want, got)
			require.Equal(t, ten, b.content(t, "ten"))
			if row.tool == "Bash" || row.tool == "WebFetch" {
				return
			}
			require.NoError(t, b.approve(t, row.tool, got, row.input))
			require.NotEmpty(t, b.content(t, row.input["file_path"].(string)))
		})
	}
}

func TestPreviewFails(t *testing.T) {
	b := setup(t)
	b.put(t, "f", "a a\n")
	b.put(t, "dir/f", "x")
	for want, input := range map[string]in{
		"old_string is not in f":         {"file_path": "f", "old_string": "b", "new_string": "c"},
		"old_string occurs 2 times in f": {"file_path": "f", "old_string": "a", "new_string": "c"},
		"dir is a directory":             {"file_path": "dir", "old_string": "a", "new_string": "c"},
		"outside the working directory":  {"file_path": "../f", "old_string": "a", "new_string": "c"},
	} {
		_, err := b.preview(t, "Edit", input)
		require.ErrorContains(t, err, want)
	}
	_, err := b.preview(t, "Write", in{"file_path": "dir", "content": "x"})
	require.ErrorContains(t, err, "dir is a directory")
	_, err = b.preview(t, "Write", in{"file_path": "../f", "content": "x"})
	require.ErrorContains(t, err, "outside the working directory")
}

// An approved change is made if it removes and adds the lines that were shown, next to the lines
// that were shown. Otherwise nothing is changed.
func TestApprovedChange(t *testing.T) {
	edit := in{"file_path": "f", "old_string": "b", "new_string": "B", "replace_all": true}
	write := in{"file_path": "f", "content": "new\n"}
	for name, row := range map[string]struct {
		tool        string
		input       in
		before      string // the first lines of the file when the call is approved
		then        string // the content of the file when the call runs
		changed     string // afterwards, "" if it is not changed
		remove, new bool
	}{
		"the same file":                   {tool: "Edit", input: edit, then: "a\nb\nc\n", changed: "a\nB\nc\n"},
		"other lines far before it":       {tool: "Edit", input: edit, before: "1\n2\n3\n", then: "0\n1\n2\n3\na\nb\nc\n", changed: "0\n1\n2\n3\na\nB\nc\n"},
		"another line before it":          {tool: "Edit", input: edit, then: "0\na\nb\nc\n"},
		"another context":                 {tool: "Edit", input: edit, then: "A\nb\nC\n"},
		"once more":                       {tool: "Edit", input: edit, then: "a\nb\nc\nb\n"},
		"the rest of the line is another": {tool: "Edit", input: edit, then: "a\nb!\nc\n"},
		"not any more":                    {tool: "Edit", input: edit, then: "a\nc\n"},
		"removed":                         {tool: "Edit", input: edit, remove: true},
		"Write, the same file":            {tool: "Write", input: write, then: "a\nb\nc\n", changed: "new\n"},
		"Write, another line":             {tool: "Write", input: write, then: "a\nb\nc\nd\n"},
		"Write, removed":                  {tool: "Write", input: write, remove: true},
		"Write, a file that was new":      {tool: "Write", input: write, then: "a\n", new: true},
		"Write, an empty one":             {tool: "Write", input: write, then: "", new: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			path := filepath.Join(b.dir, "f")
			b.put(t, "f", row.before+"a\nb\nc\n")
			if row.new {
				require.NoError(t, os.Remove(path))
			}
			shown, err := b.preview(t, row.tool, row.input)
			require.NoError(t, err)
			if b.put(t, "f", row.then); row.remove {
				require.NoError(t, os.Remove(path))
			}
			err = b.approve(t, row.tool, shown, row.input)
			if row.changed != "" {
				require.NoError(t, err)
				require.Equal(t, row.changed, b.content(t, "f"))
				return
			}
			require.Error(t, err)
			if row.remove {
				require.NoFileExists(t, path)
			} else {
				require.Equal(t, row.then, b.content(t, "f"))
			}
		})
	}
}

// FuzzDifference changes a file as a difference says, and compares the result with the change.
func FuzzDifference(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nc\nb")
	f.Add("", "x")
	f.Add("a\na\na\n", "a\n\na\nb")
	f.Add("1\n2\n3\n4\n5\n6\n7\n8\n9\n0\n", "0\n1\n2\n3\n5\n6\n7\n8\n9\n")
	f.Fuzz(func(t *testing.T, before, after string) {
		before, after = strings.ToValidUTF8(before, "?"), strings.ToValidUTF8(after, "?")
		b := setup(t)
		b.put(t, "f", before)
		shown, err := b.preview(t, "Write", in{"file_path": "f", "content": after})
		require.NoError(t, err)
		require.Equal(t, after, patched(t, before, shown))
	})
}

// patched applies a difference.
func patched(t *testing.T, before, shown string) string {
	t.Helper()
	var out strings.Builder
	old := slices.Collect(strings.Lines(before))
	at := 0
	lines := slices.Collect(strings.Lines(shown))[1:]
	for i, line := range lines {
		text := line[1:]
		if i+1 < len(lines) && lines[i+1][0] == '\\' {
			text = strings.TrimSuffix(text, "\n")
		}
		switch line[0] {
		case '@':
			var from, n int
			_, err := fmt.Sscanf(line, "@@ -%d,%d", &from, &n)
			require.NoError(t, err)
			for ; at < from-1; at++ {
				out.WriteString(old[at])
			}
		case '+':
			out.WriteString(text)
		case '-':
			require.Equal(t, old[at], text)
			at++
		case ' ':
			require.Equal(t, old[at], text)
			out.WriteString(text)
			at++
		}
	}
	return out.String() + strings.Join(old[at:], "")
}
