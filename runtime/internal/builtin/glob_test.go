package builtin_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/builtin"
)

// tree writes the files that Glob and Grep search for.
func tree(t testing.TB, change ...func(*builtin.Config)) box {
	t.Helper()
	b := setup(t, change...)
	for _, name := range []string{"a.go", "b.ts", ".hidden/c.go", ".env", "src/d.go", "src/deep/er/e.go", "src/deep/f.tsx",
		".git/config", "src/.git/g.go", "src/[x].go"} {
		b.put(t, name, "text of "+name+"\n")
	}
	b.link(t, "src", "linked")
	b.link(t, "src/d.go", "link.go")
	b.link(t, "nothing", "broken.go")
	b.link(t, filepath.Join(b.outside, "x.go"), "out.go")
	require.NoError(t, os.WriteFile(filepath.Join(b.outside, "x.go"), nil, 0o600))
	return b
}

func TestGlob(t *testing.T) {
	b := tree(t)
	for name, row := range map[string]struct {
		pattern, path string
		want          string
	}{
		"by extension":              {"**/*.go", "", ".hidden/c.go a.go link.go src/[x].go src/d.go src/deep/er/e.go"},
		"one level":                 {"*.go", "", "a.go link.go"},
		"two levels":                {"*/*.go", "", ".hidden/c.go src/[x].go src/d.go"},
		"braces":                    {"**/*.{ts,tsx}", "", "b.ts src/deep/f.tsx"},
		"braces with a slash":       {"{src/deep/f.tsx,a.go}", "", "a.go src/deep/f.tsx"},
		"a set":                     {"[ab].*", "", "a.go b.ts"},
		"escaped":                   {`src/\[x\].go`, "", "src/[x].go"},
		"no wildcard":               {"src/d.go", "", "src/d.go"},
		"no wildcard, nothing":      {"src/nothing", "", ""},
		"below what is not there":   {"nothing/*", "", ""},
		"below a file":              {"a.go/*", "", ""},
		"with a directory":          {"src/**/*.go", "", "src/[x].go src/d.go src/deep/er/e.go"},
		"directories are no files":  {"src/*", "", "src/[x].go src/d.go"},
		"hidden":                    {".*", "", ".env"},
		"a dot":                     {"./src/./d.go", "", "src/d.go"},
		"path":                      {"*.go", "src", "src/[x].go src/d.go"},
		"path with ..":              {"*.go", "src/deep/..", "src/[x].go src/d.go"},
		"absolute path":             {"*.go", b.dir + "/src", "src/[x].go src/d.go"},
		"absolute pattern":          {b.dir + "/src/*.go", "", "src/[x].go src/d.go"},
		"absolute pattern and path": {b.dir + "/src/*.go", "src/deep", "src/[x].go src/d.go"},
		"a link to a directory":     {"*.go", "linked", "src/[x].go src/d.go"},
		"a link in the pattern":     {"linked/*.go", "", "src/[x].go src/d.go"},
		".git when it is asked for": {".git/*", "", ".git/config"},
		".git as path":              {"**", ".git", ".git/config"},
		"everything":                {"**", "src/deep", "src/deep/er/e.go src/deep/f.tsx"},
		"no match":                  {"*.rs", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			input := in{"pattern": row.pattern}
			if row.path != "" {
				input["path"] = row.path
			}
			output := b.ok(t, "Glob", input)
			if row.want == "" {
				require.Equal(t, "No files found.", output)
				return
			}
			require.ElementsMatch(t, strings.Fields(row.want), strings.Fields(output))
		})
	}
}

func TestGlobRejects(t *testing.T) {
	b := tree(t)
	for name, row := range map[string]struct{ pattern, path, want string }{
		"a bracket":             {"[a", "", `"[a" is not a valid pattern`},
		"a brace":               {"{a,b", "", "is not a valid pattern"},
		"nothing":               {"", "", "is not a valid pattern"},
		"a null byte":           {"a\x00", "", "is not a valid pattern"},
		"long and invalid":      {strings.Repeat("[", 80_000), "", "the pattern is longer than 1000 bytes"},
		"long":                  {strings.Repeat("a", 1001), "", "the pattern is longer than 1000 bytes"},
		"many braces":           {strings.Repeat("{a,b}", 9), "", "the braces of the pattern expand to more than 256 patterns"},
		"..":                    {"../*", "", "the pattern ../* contains ..: set path to the directory instead"},
		".. in the middle":      {"src/../../*", "", "contains .."},
		"absolute":              {"/etc/*", "", "/etc is outside the working directory"},
		"absolute, beside":      {b.dir + "side/*", "", "is outside the working directory"},
		"a path that is gone":   {"*", "nothing", "nothing does not exist"},
		"a path outside":        {"*", "..", ".. is outside the working directory"},
		"a path that is a file": {"*", "a.go", "a.go is a file: set path to a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, b.fails(t, "Glob", in{"pattern": row.pattern, "path": row.path}), row.want)
		})
	}
}

func TestGlobSortsByTime(t *testing.T) {
	b := setup(t)
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, name := range []string{"old", "dir/older", "new", "same2", "same1"} {
		b.put(t, name, "")
		at := start.AddDate(0, 0, []int{1, 0, 5, 3, 3}[i])
		require.NoError(t, os.Chtimes(filepath.Join(b.dir, name), at, at))
	}
	require.Equal(t, "new\nsame1\nsame2\nold\ndir/older\n", b.ok(t, "Glob", in{"pattern": "**"}))
}

func TestGlobReturnsTheNewest(t *testing.T) {
	b := setup(t)
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var want []string
	for i := range 1100 {
		name := fmt.Sprintf("%d/%d", i%7, (i*37)%1100)
		b.put(t, name, "")
		at := start.Add(-time.Duration(i) * time.Second)
		require.NoError(t, os.Chtimes(filepath.Join(b.dir, name), at, at))
		want = append(want, name)
	}
	got, note, _ := strings.Cut(b.cut(t, "Glob", in{"pattern": "**"}), "[")
	require.Equal(t, want[:1000], strings.Fields(got))
	require.Equal(t, "Only the 1000 most recently modified of 1100 files. Use a narrower pattern or path.]\n", note)
}

func TestGlobOutputIsBounded(t *testing.T) {
	b := setup(t, func(c *builtin.Config) { c.MaxOutput = 1000 })
	for i := range 100 {
		b.put(t, fmt.Sprintf("a-rather-long-name-%d", i), "")
	}
	output := b.cut(t, "Glob", in{"pattern": "**"})
	require.LessOrEqual(t, len(output), 1000)
	require.Regexp(t, `^(?:a-rather-long-name-\d+\n)+\[Only the \d\d most recently modified of 100 files\. .*\]\n$`, output)
}

func TestHiddenFiles(t *testing.T) {
	b := tree(t, func(c *builtin.Config) {
		c.Hides = func(path string) bool {
			return path == ".env" || strings.HasPrefix(path, "src/deep/") || path == "named/d.go"
		}
	})
	b.link(t, ".env", "shown")
	b.link(t, "src", "named")
	require.ElementsMatch(t, []string{".hidden/c.go", "a.go", "b.ts", "link.go", "src/[x].go", "src/d.go"},
		strings.Fields(b.ok(t, "Glob", in{"pattern": "**"})))
	require.ElementsMatch(t, []string{".hidden/c.go", "a.go", "b.ts", "src/[x].go", "src/d.go"},
		strings.Fields(b.ok(t, "Grep", in{"pattern": "text"})))
	for path, want := range map[string]string{"src/deep": "No matches found.", "linked/deep": "No matches found.",
		"named": "src/[x].go\n", "linked": "src/[x].go\nsrc/d.go\n", b.dir + "/named": "src/[x].go\n"} {
		require.Equal(t, want, b.ok(t, "Grep", in{"pattern": "text", "path": path}), path)
	}
	for _, path := range []string{".env", "shown", b.dir + "/.env", "linked/deep/f.tsx", "named/d.go"} {
		require.Equal(t, path+": a rule denies reading it", b.fails(t, "Grep", in{"pattern": "text", "path": path}))
	}
	require.Equal(t, "No files found.", b.ok(t, "Glob", in{"pattern": "linked/deep/**"}))
}

// A search for a hidden file does not show whether it exists.
func TestSearchesDoNotShowWhichHiddenFilesExist(t *testing.T) {
	b := setup(t, func(c *builtin.Config) {
		c.Hides = func(path string) bool {
			return path == "key" || path == "missing" || path == "key/x" || path == "missing/x"
		}
	})
	b.put(t, "key", "text\n")
	b.link(t, "key", "link")
	b.link(t, "missing", "broken")
	for _, path := range []string{"key", "missing", "link", "broken", b.dir + "/key", b.dir + "/missing",
		"key/x", "missing/x", "link/x", "broken/x"} {
		for name, pattern := range map[string]string{"Grep": "text", "Glob": "*"} {
			require.Equal(t, path+": a rule denies reading it", b.fails(t, name, in{"pattern": pattern, "path": path}))
		}
		require.Equal(t, "No files found.", b.ok(t, "Glob", in{"pattern": path}))
		require.Equal(t, "No files found.", b.ok(t, "Glob", in{"pattern": path + "/*"}))
	}
}

// No result of Edit and Write depends on what a hidden file contains, or whether it exists.
func TestHiddenFilesDoNotShowInEditAndWrite(t *testing.T) {
	b := setup(t, func(c *builtin.Config) {
		c.Hides = func(path string) bool {
			return path == "named/key" || slices.Contains([]string{"key", "missing", "large"}, strings.TrimSuffix(path, "/x"))
		}
	})
	b.put(t, "key", "secret\nsecret\n")
	b.put(t, "sub/key", "not hidden\n")
	b.put(t, "large", strings.Repeat("x", 11<<20))
	b.link(t, "key", "link")
	b.link(t, "missing", "broken")
	b.link(t, "sub", "named")
	for _, path := range []string{"key", "link", "missing", "broken", "./sub/../key", b.dir + "/key", "named/key", "large",
		"key/x", "link/x", "missing/x", "broken/x", "key/", "link/"} {
		for _, change := range []in{
			{"old_string": "secret", "new_string": "x"}, {"old_string": "secret", "new_string": "x", "replace_all": true},
			{"old_string": "absent", "new_string": "x"}, {"old_string": "", "new_string": "x"}, {"old_string": "x", "new_string": "x"},
			{"old_string": "secret\nsecret", "new_string": strings.Repeat("y", 11<<20)},
		} {
			change["file_path"] = path
			require.Equal(t, "Edit cannot change "+path+", because a rule denies reading it", b.fails(t, "Edit", change))
		}
	}
	require.Equal(t, "secret\nsecret\n", b.content(t, "key"))
	for link, target := range map[string]string{"link": "key", "broken": "missing"} {
		require.Equal(t, link+" leads through a link to "+target+": use that path", b.fails(t, "Write", in{"file_path": link, "content": "x\n"}))
	}
	for _, path := range []string{"key", "missing"} {
		require.Equal(t, "Wrote "+path+" (2 bytes, 1 line).", b.ok(t, "Write", in{"file_path": path, "content": "x\n"}))
	}
	require.Contains(t, b.ok(t, "Edit", in{"file_path": "sub/key", "old_string": "not", "new_string": "x"}), "Replaced 1")
}

// A search does not enter a hidden directory: otherwise its duration would depend on the files
// there.
func TestHiddenDirectoriesAreNotEntered(t *testing.T) {
	var asked []string
	b := setup(t, func(c *builtin.Config) {
		c.Hides = func(path string) bool {
			asked = append(asked, path)
			return strings.HasPrefix(path, "secret/")
		}
	})
	b.put(t, "secret/a", "text\n")
	b.put(t, "secret/deep/b", "text\n")
	b.put(t, "secrets/c", "text\n")
	require.Equal(t, "secrets/c\n", b.ok(t, "Glob", in{"pattern": "**"}))
	require.Equal(t, "secrets/c\n", b.ok(t, "Grep", in{"pattern": "text"}))
	require.ElementsMatch(t, []string{"secret/", "secrets/", "secrets/c", "secret/", "secrets/", "secrets/c"}, asked)
	require.Equal(t, "No files found.", b.ok(t, "Glob", in{"pattern": "secret/**"}))
	require.Equal(t, "No files found.", b.ok(t, "Glob", in{"pattern": "*", "path": "secret"}))
}

func TestSearchEndsWithItsContext(t *testing.T) {
	over := errors.New("over")
	ctx, cancel := context.WithCancelCause(t.Context())
	seen := 0
	b := setup(t, func(c *builtin.Config) {
		c.Hides = func(string) bool {
			if seen++; seen == 10 {
				cancel(over)
			}
			return false
		}
	})
	for i := range 500 {
		b.put(t, fmt.Sprintf("%d/%d", i%5, i), "text\n")
	}
	for name, input := range map[string]in{"Glob": {"pattern": "**"}, "Grep": {"pattern": "nothing"}} {
		_, err := b.call(ctx, t, name, input)
		require.ErrorIs(t, err, over)
		require.Less(t, seen, 20)
	}
}
