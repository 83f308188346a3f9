package builtin_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/builtin"
)

func TestRead(t *testing.T) {
	const more = "[The file continues. Use offset %d to read on.]\n"
	for name, row := range map[string]struct {
		content       string
		offset, limit int
		want          string
		cut           bool
	}{
		"lines":                     {"one\ntwo\n", 0, 0, "     1\tone\n     2\ttwo\n", false},
		"no final line end":         {"one\ntwo", 0, 0, "     1\tone\n     2\ttwo\n", false},
		"only a line end":           {"\n", 0, 0, "     1\t\n", false},
		"empty lines at the end":    {"a\n\n\n", 0, 0, "     1\ta\n     2\t\n     3\t\n", false},
		"empty":                     {"", 0, 0, "f.txt is empty.", false},
		"empty with an offset":      {"", 5, 0, "f.txt is empty.", false},
		"offset":                    {"one\ntwo\nthree\n", 2, 0, "     2\ttwo\n     3\tthree\n", false},
		"offset of the last line":   {"one\ntwo", 2, 0, "     2\ttwo\n", false},
		"offset just past the end":  {"one\ntwo\n", 3, 0, "f.txt has only 2 lines: offset 3 is after its end.", false},
		"offset far past the end":   {"one\ntwo", 300, 0, "f.txt has only 2 lines: offset 300 is after its end.", false},
		"offset past a single line": {"one", 2, 0, "f.txt has only 1 line: offset 2 is after its end.", false},
		"limit":                     {"one\ntwo\nthree\n", 0, 2, "     1\tone\n     2\ttwo\n" + fmt.Sprintf(more, 3), true},
		"limit that is all":         {"one\ntwo\n", 0, 2, "     1\tone\n     2\ttwo\n", false},
		"offset and limit":          {"one\ntwo\nthree\n", 2, 1, "     2\ttwo\n" + fmt.Sprintf(more, 3), true},
		"CRLF":                      {"one\r\ntwo\r\n", 0, 0, "     1\tone\n     2\ttwo\n[Lines of this file end in \\r\\n.]\n", false},
		"a return in a line":        {"one\rtwo\n", 0, 0, "     1\tone\rtwo\n", false},
		"not UTF-8":                 {"caf\xe9 \xff\xfe\n", 0, 0, "     1\tcaf\uFFFD \uFFFD\n", false},
		"a long line": {strings.Repeat("x", 2005) + "\nb\n", 0, 0,
			"     1\t" + strings.Repeat("x", 2000) + " [5 bytes of this line cut]\n     2\tb\n", false},
		"a line just short enough": {strings.Repeat("x", 2000) + "\r\n", 0, 0,
			"     1\t" + strings.Repeat("x", 2000) + "\n[Lines of this file end in \\r\\n.]\n", false},
		"a long line of runes": {strings.Repeat("日", 1000), 0, 0,
			"     1\t" + strings.Repeat("日", 666) + " [1002 bytes of this line cut]\n", false},
		"a line longer than a read": {strings.Repeat("x", 200_000) + "\nb\n", 0, 0,
			"     1\t" + strings.Repeat("x", 2000) + " [198000 bytes of this line cut]\n     2\tb\n", false},
		"past a very long line": {strings.Repeat("x", 200_000) + "\nb\n", 2, 0, "     2\tb\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.put(t, "f.txt", row.content)
			input := in{"file_path": "f.txt"}
			if row.offset > 0 {
				input["offset"] = row.offset
			}
			if row.limit > 0 {
				input["limit"] = row.limit
			}
			res, err := b.call(t.Context(), t, "Read", input)
			require.NoError(t, err)
			require.Equal(t, row.want, res.Output)
			require.Equal(t, row.cut, res.Truncated)
		})
	}
}

func TestReadInParts(t *testing.T) {
	for name, most := range map[string]int{"lines": 0, "bytes": 3000} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, func(c *builtin.Config) { c.MaxOutput = most })
			var want strings.Builder
			for i := range 4500 {
				fmt.Fprintf(&want, "line %d\n", i+1)
			}
			b.put(t, "f", want.String())
			var got strings.Builder
			for offset := 1; offset > 0; {
				res, err := b.call(t.Context(), t, "Read", in{"file_path": "f", "offset": offset})
				require.NoError(t, err)
				require.LessOrEqual(t, len(res.Output), 100_000)
				offset = 0
				for line := range strings.Lines(res.Output) {
					if _, text, ok := strings.Cut(line, "\t"); ok {
						got.WriteString(text)
					} else {
						_, err := fmt.Sscanf(line, "[The file continues. Use offset %d to read on.]", &offset)
						require.NoError(t, err)
					}
				}
				require.Equal(t, offset > 0, res.Truncated)
			}
			require.Equal(t, want.String(), got.String())
		})
	}
}

func TestReadRejects(t *testing.T) {
	b := setup(t)
	b.put(t, "binary", "text\x00")
	b.put(t, "late", strings.Repeat("text\n", 4000)+"\x00")
	b.put(t, "dir/f", "")
	for name, row := range map[string]struct {
		path string
		want string
	}{
		"a binary file":           {"binary", "binary is a binary file, which Read cannot return"},
		"a directory":             {"dir", "dir is a directory: use Glob to list it"},
		"the working directory":   {"", "is a directory: use Glob to list it"},
		"what is not there":       {"nothing", "nothing does not exist: use Glob to find the path"},
		"a file as a directory":   {"dir/f/g", "dir/f/g"},
		"a slash behind a file":   {"dir/f/", "dir/f/"},
		"a path with a null byte": {"a\x00b", "the path contains a null byte"},
		"a path with a line end":  {"a\nb", `"a\nb" does not exist`},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, b.fails(t, "Read", in{"file_path": row.path}), row.want)
		})
	}
	require.Contains(t, b.cut(t, "Read", in{"file_path": "late", "limit": 10}), "text", "only what is looked at counts")
	require.Contains(t, b.fails(t, "Read", in{"file_path": "late", "offset": 3990}), "binary")
	require.Equal(t, "the input does not match: file_path must be a string, not number", b.fails(t, "Read", in{"file_path": 1}))
}

// allocated returns the number of bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// big writes a file of size bytes: one long line between two short ones.
func (b box) big(t testing.TB, name string, size int) {
	t.Helper()
	f, err := os.Create(filepath.Join(b.dir, name))
	require.NoError(t, err)
	_, err = f.WriteString("first\n")
	require.NoError(t, err)
	block := []byte(strings.Repeat("x", 1<<20))
	for n := 0; n < size; n += len(block) {
		_, err = f.Write(block)
		require.NoError(t, err)
	}
	_, err = f.WriteString("\nlast\n")
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func TestReadMemory(t *testing.T) {
	const size = 256 << 20
	b := setup(t)
	b.big(t, "big", size)
	var output string
	require.Less(t, allocated(func() { output = b.ok(t, "Read", in{"file_path": "big", "offset": 2}) }), uint64(1<<20))
	require.Contains(t, output, fmt.Sprintf("[%d bytes of this line cut]\n     3\tlast\n", size-2000))
	require.Less(t, allocated(func() { output = b.ok(t, "Read", in{"file_path": "big", "offset": 3}) }), uint64(1<<20))
	require.Equal(t, "     3\tlast\n", output)

	// Only the returned part of a sparse file of 1 GiB is read.
	b.put(t, "sparse", strings.Repeat("text\n", 5000))
	require.NoError(t, os.Truncate(filepath.Join(b.dir, "sparse"), 1<<30))
	require.Less(t, allocated(func() { output = b.cut(t, "Read", in{"file_path": "sparse", "limit": 1}) }), uint64(1<<20))
	require.Contains(t, output, "     1\ttext\n")
}

func TestReadEndsWithItsContext(t *testing.T) {
	b := setup(t)
	b.put(t, "f", "one\ntwo\n")
	over := errors.New("over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(over)
	for _, offset := range []int{1, 2} {
		_, err := b.call(ctx, t, "Read", in{"file_path": "f", "offset": offset})
		require.ErrorIs(t, err, over)
	}
}
