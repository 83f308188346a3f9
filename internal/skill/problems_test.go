package skill_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/skill"
)

// TestFiles checks that a skill is listed regardless of the content of its SKILL.md.
func TestFiles(t *testing.T) {
	for _, tc := range []struct {
		name              string
		text              string
		as                string // name; "" is dir
		description, body string
		err, hint         string // parts of the one warning; "" is none
	}{
		{name: "good", text: named("a"), as: "a", description: "Does a.", body: "How to do it."},
		{name: "empty", text: "", err: "does not begin with frontmatter", hint: "begin the file with a line ---"},
		{name: "no frontmatter", text: "# How\n", body: "# How", err: "does not begin with frontmatter", hint: "begin the file with a line ---"},
		{name: "not closed", text: "---\nname: a\n", body: "---\nname: a", err: "the frontmatter is not closed by a line ---", hint: "and another line ---"},
		{name: "no name", text: "---\ndescription: d\n---\n", description: "d"},
		{name: "no description", text: "---\nname: a\n---\n", as: "a", err: "the description is missing", hint: "describe in description the purpose"},
		{name: "empty frontmatter", text: "---\n---\nb", body: "b", err: "the description is missing", hint: "describe in description the purpose"},
		{name: "null", text: "---\nname: ~\ndescription:\n---\n", err: "the description is missing", hint: "describe in description the purpose"},
		{name: "blank", text: "---\nname: ' '\ndescription: \"\\n\"\n---\n", err: "the description is missing", hint: "describe in description the purpose"},
		{name: "not YAML", text: "---\nname: a\ndescription: Use this: when\n---\nb", as: "a", description: "Use this: when",
			body: "b"},
		{name: "no name, not YAML", text: "---\ndescription: Flags: --quick\nmetadata: [a\n---\nb", description: "Flags: --quick", body: "b"},
		{
			name: "binary", text: "\x7fELF\x00\x01\xff\xfe---\n", body: "\x7fELF\x00\x01\uFFFD---",
			err: "does not begin with frontmatter", hint: "begin the file with a line ---",
		},
		{
			name: "binary in frontmatter", text: "---\nname: a\xff\x00b\ndescription: \xc3(\n---\n\xff",
			description: "\uFFFD(",
			body:        "\uFFFD", err: "line by line", hint: "quotes or brackets",
		},
		{name: "broken name", text: "---\nname: [broken\ndescription: d\n---\nb", description: "d", body: "b",
			err: "line by line: yaml: ", hint: "quotes or brackets"},
		{name: "broken name alone", text: "---\nname: [broken\n---\n", err: "; the description is missing",
			hint: "quotes or brackets; describe in description the purpose"},
		{
			name: "UTF-16", text: "\xff\xfe-\x00-\x00-\x00\n\x00", body: "\uFFFD-\x00-\x00-\x00\n\x00",
			err: "does not begin with frontmatter", hint: "begin the file with a line ---",
		},
		{
			name: "frontmatter too long", text: "---\nname: a\nx: " + strings.Repeat("x", 64<<10) + "\n---\nb",
			body: "---\nname: a\nx: " + strings.Repeat("x", 64<<10) + "\n---\nb",
			err:  "the frontmatter is not closed by a line --- within 65536 bytes", hint: "and another line ---",
		},
		{name: "long body", text: named("a") + strings.Repeat("x", 900<<10), as: "a", description: "Does a.",
			body: "How to do it.\n" + strings.Repeat("x", 900<<10)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newMachine(t, map[string]string{"work/.agents/skills/dir/SKILL.md": tc.text})
			s := m.one()
			if tc.as == "" {
				tc.as = "dir"
			}
			require.Equal(t, tc.as, s.Name)
			require.Equal(t, tc.description, s.Description)
			require.Equal(t, m.path("work/.agents/skills/dir/SKILL.md"), s.Location)
			require.Equal(t, m.path("work/.agents/skills/dir"), s.Dir())
			body, err := s.Body()
			require.NoError(t, err)
			require.Equal(t, tc.body, body)

			if tc.err == "" {
				require.Empty(t, m.log())
				return
			}
			require.Equal(t, 1, strings.Count(m.log(), "\n"), m.log())
			require.Contains(t, m.log(), "level=WARN")
			require.Contains(t, m.log(), "path=work/.agents/skills/dir/SKILL.md name="+tc.as+" ")
			problem, hint, ok := strings.Cut(m.log(), "hint=")
			require.True(t, ok)
			require.Contains(t, problem, tc.err)
			require.Contains(t, hint, tc.hint)
		})
	}
}

// TestTooLong checks that a skill with a large file is listed, and that Body returns an error.
func TestTooLong(t *testing.T) {
	m := newMachine(t, map[string]string{"work/.agents/skills/a/SKILL.md": named("a")})
	path := m.path("work/.agents/skills/a/SKILL.md")
	require.NoError(t, os.Truncate(path, skill.MaxBytes))
	s := m.one()
	body, err := s.Body()
	require.NoError(t, err)
	require.Len(t, body, skill.MaxBytes-len("---\nname: a\ndescription: Does a.\n---\n"))

	require.NoError(t, os.Truncate(path, 1<<40)) // no disk is taken, and no memory
	_, err = s.Body()
	require.EqualError(t, err, "read skill a: it is longer than 1048576 bytes")
	require.Empty(t, m.log())

	m = newMachine(t, map[string]string{"work/.agents/skills/a/SKILL.md": named("a") + strings.Repeat("x", skill.MaxBytes)})
	require.Equal(t, "Does a.", m.one().Description)
	require.Contains(t, m.log(), "at most 1048576 are read\" hint=\"move")
}

func TestBodyOfADeletedFile(t *testing.T) {
	for _, source := range []string{"home", "work"} {
		m := newMachine(t, map[string]string{source + "/.agents/skills/a/SKILL.md": named("a")})
		s := m.one()
		require.NoError(t, os.RemoveAll(s.Dir()))
		_, err := s.Body()
		require.ErrorIs(t, err, os.ErrNotExist)
		require.ErrorContains(t, err, "read skill a: ")
	}
}

// TestDirectoryNames checks names of directories that are used as names of skills.
func TestDirectoryNames(t *testing.T) {
	for dir, want := range map[string]string{
		"pdf":            "pdf",
		"Größe 3 (neu)":  "Größe 3 (neu)",
		"中文":             "中文",
		"a\nb\t c":       "a b c",
		"\x1b[31mred":    "[31mred",
		"bad \xff bytes": "bad \uFFFD bytes",
		" \n":            "skill",
		"-":              "-",
		"...":            "...",
	} {
		m := newMachine(t, map[string]string{"home/.agents/skills/" + dir + "/SKILL.md": "---\ndescription: d\n---\n"})
		s := m.one()
		require.Equal(t, want, s.Name)
		_, err := s.Body()
		require.NoError(t, err)
	}
}

func TestRootThatIsAFile(t *testing.T) {
	m := newMachine(t, map[string]string{"home/.agents/skills": "x", "work/.agents": "x", "f": "x"})
	require.Empty(t, m.scan(both, "../f"))
	require.Equal(t, 3, strings.Count(m.log(), "level=WARN"), m.log())
}
