package builtin_test

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// source writes a tree of 2,000 files of 200 lines, 17 MB. 20 of them contain the line that is
// searched for.
func source(b *testing.B) box {
	b.Helper()
	s := setup(b)
	var text strings.Builder
	for i := range 200 {
		fmt.Fprintf(&text, "\tvalue%d := compute(%d, other) // a comment\n", i, i*7)
	}
	for i := range 2000 {
		content := text.String()
		if i%100 == 0 {
			content += "func needle(x int) {\n"
		}
		s.put(b, fmt.Sprintf("pkg%d/sub%d/file%d.go", i%20, i%7, i), content)
	}
	b.SetBytes(int64(2000 * text.Len()))
	return s
}

// BenchmarkGrep compares Grep with a walk that matches line by line.
func BenchmarkGrep(b *testing.B) {
	for name, pattern := range map[string]string{"literal": "needle", "expression": `func\s+\w+\(`, "class": `[n]e+dle\d?`,
		"no-literal": `^\w+\s\w+\W\w\s\w+\W\s\W$`} {
		b.Run(name+"/Grep", func(b *testing.B) {
			s := source(b)
			for b.Loop() {
				require.Contains(b, s.ok(b, "Grep", in{"pattern": pattern}), "file1900.go")
			}
		})
		b.Run(name+"/walk", func(b *testing.B) {
			s := source(b)
			re := regexp.MustCompile(pattern)
			for b.Loop() {
				require.Len(b, walkGrep(b, s.dir, re), 20)
			}
		})
	}
	b.Run("no-case/Grep", func(b *testing.B) {
		s := source(b)
		for b.Loop() {
			require.Contains(b, s.ok(b, "Grep", in{"pattern": "NEEDLE", "-i": true}), "file1900.go")
		}
	})
}

func walkGrep(b *testing.B, dir string, re *regexp.Regexp) (found []string) {
	b.Helper()
	require.NoError(b, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if re.Match(lines.Bytes()) {
				found = append(found, path)
				break
			}
		}
		return nil
	}))
	return found
}

func BenchmarkGlob(b *testing.B) {
	s := source(b)
	for b.Loop() {
		require.Contains(b, s.ok(b, "Glob", in{"pattern": "**/*00.go"}), "file1900.go")
	}
}

func BenchmarkRead(b *testing.B) {
	s := setup(b)
	s.put(b, "f", strings.Repeat("a line of some length, as they are\n", 2000))
	b.SetBytes(70_000)
	for b.Loop() {
		s.ok(b, "Read", in{"file_path": "f"})
	}
}
