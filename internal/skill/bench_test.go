package skill_test

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/skill"
)

// BenchmarkScan scans skills of 6 kB, ten in each directory, with three supporting files each.
// Other rows measure only the walk, and a scan from the cache.
func BenchmarkScan(b *testing.B) {
	for _, n := range []int{50, 1000} {
		files := map[string]string{}
		for i := range n {
			dir := fmt.Sprintf("/.agents/skills/group-%02d/skill-%d/", i/10, i%10)
			for _, source := range []string{"home", "work"} {
				files[source+dir+"SKILL.md"] = fmt.Sprintf("---\nname: skill-%d\ndescription: >-\n  Does one thing, and does\n  it well.\nlicense: MIT\n---\n", i) + strings.Repeat("Do it.\n", 850)
				for _, name := range []string{"LICENSE.txt", "scripts/run.py", "references/table.md"} {
					files[source+dir+name] = "x"
				}
			}
		}
		m := newMachine(b, files)
		scan := func(b *testing.B, s *skill.Scanner, source string) {
			skills, err := s.Scan(b.Context(), []string{source}, nil, nil)
			require.NoError(b, err)
			require.Len(b, skills, n)
		}
		cfg := skill.Config{HomeDir: m.path("home"), CWD: m.path("work")}
		for _, source := range []string{skill.User, skill.Project} {
			b.Run(fmt.Sprintf("%d/%s", n, source), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					s, err := skill.New(cfg)
					require.NoError(b, err)
					scan(b, s, source)
				}
			})
		}
		b.Run(fmt.Sprintf("%d/again", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				scan(b, m.Scanner, skill.User)
			}
		})
		b.Run(fmt.Sprintf("%d/filepath.WalkDir alone", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				found := 0
				err := filepath.WalkDir(m.path("home"), func(_ string, d fs.DirEntry, err error) error {
					if err == nil && d.Name() == "SKILL.md" {
						found++
					}
					return err
				})
				require.NoError(b, err)
				require.Equal(b, n, found)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	body := strings.Repeat("Do it.\n", 850)
	for name, text := range map[string]string{
		"YAML":         "---\nname: a\ndescription: Does one thing, and does it well.\nlicense: MIT\n---\n" + body,
		"line by line": "---\nname: a\ndescription: Use this: when\nlicense: MIT\n---\n" + body,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				doc, _ := skill.Parse([]byte(text))
				require.Equal(b, "a", doc.Name)
			}
		})
	}
}
