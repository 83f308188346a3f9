package skill_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/skill"
)

func TestScan(t *testing.T) {
	const home, work = "home/.agents/skills/", "work/.agents/skills/"
	for _, tc := range []struct {
		name    string
		files   map[string]string
		sources []string
		extra   []string // relative to work
		want    []string
	}{
		{name: "nothing there", sources: both, extra: []string{"none"}, want: []string{}},
		{
			name:    "both sources, by name",
			files:   map[string]string{home + "z/SKILL.md": named("a"), work + "b/SKILL.md": named("B"), home + "c/SKILL.md": named("c")},
			sources: both,
			want:    []string{"B project " + work + "b/SKILL.md", "a user " + home + "z/SKILL.md", "c user " + home + "c/SKILL.md"},
		},
		{
			name:    "project overrides user",
			files:   map[string]string{home + "a/SKILL.md": named("a"), "x/a/SKILL.md": named("a"), work + "other/SKILL.md": named("a")},
			sources: both, extra: []string{"../x"},
			want: []string{"a project " + work + "other/SKILL.md"},
		},
		{
			name:    "whatever the order of the sources",
			files:   map[string]string{home + "a/SKILL.md": named("a"), work + "a/SKILL.md": named("a")},
			sources: []string{skill.Project, "local", skill.User},
			want:    []string{"a project " + work + "a/SKILL.md"},
		},
		{
			name: "extra directories override home, the later the earlier",
			files: map[string]string{home + "a/SKILL.md": named("a"), "x/a/SKILL.md": named("a"), "y/a/SKILL.md": named("a"),
				"x/b/SKILL.md": named("b")},
			sources: both, extra: []string{"../y", "../x"},
			want: []string{"a user x/a/SKILL.md", "b user x/b/SKILL.md"},
		},
		{
			name:    "an extra directory may be the skill itself",
			files:   map[string]string{"x/SKILL.md": named("a"), "x/b/SKILL.md": named("b")},
			sources: both, extra: []string{"../x"},
			want: []string{"a user x/SKILL.md", "b user x/b/SKILL.md"},
		},
		{
			name:    "extra directories without user",
			files:   map[string]string{home + "a/SKILL.md": named("a"), "x/b/SKILL.md": named("b"), work + "c/SKILL.md": named("c")},
			sources: []string{skill.Project}, extra: []string{"../x"},
			want: []string{"c project " + work + "c/SKILL.md"},
		},
		{
			name:    "user alone",
			files:   map[string]string{home + "a/SKILL.md": named("a"), work + "c/SKILL.md": named("c")},
			sources: []string{skill.User},
			want:    []string{"a user " + home + "a/SKILL.md"},
		},
		{
			name:    "local has no effect",
			files:   map[string]string{home + "a/SKILL.md": named("a"), work + "c/SKILL.md": named("c")},
			sources: []string{"local"},
			want:    []string{},
		},
		{
			name:  "no sources",
			files: map[string]string{home + "a/SKILL.md": named("a"), work + "c/SKILL.md": named("c")},
			extra: []string{"../x"},
			want:  []string{},
		},
		{
			name:    "an empty extra directory is not the project",
			files:   map[string]string{"work/a/SKILL.md": named("a")},
			sources: both, extra: []string{""},
			want: []string{},
		},
		{
			name: "all depths, also below a SKILL.md",
			files: map[string]string{
				work + "1/2/3/4/5/6/7/8/9/SKILL.md": named("deep"), work + ".hidden/SKILL.md": named("hidden"),
				work + "a/SKILL.md":   named("a"),
				work + "a/b/SKILL.md": named("below"), work + "a.md": "", work + "skill.txt": "", "work/SKILL.md": named("outside"),
			},
			sources: both,
			want: []string{
				"a project " + work + "a/SKILL.md", "below project " + work + "a/b/SKILL.md", "deep project " + work + "1/2/3/4/5/6/7/8/9/SKILL.md",
				"hidden project " + work + ".hidden/SKILL.md",
			},
		},
		{
			name:    "a directory called SKILL.md is a directory",
			files:   map[string]string{work + "a/SKILL.md/SKILL.md": "---\ndescription: d\n---", work + "a/b/SKILL.md": named("b")},
			sources: both,
			want:    []string{"SKILL.md project " + work + "a/SKILL.md/SKILL.md", "b project " + work + "a/b/SKILL.md"},
		},
		{
			name: "any letter case",
			files: map[string]string{
				work + "a/skill.md": named("a"), work + "a/b/Skill.MD": named("b"), work + "skill.Md": named("root"),
				work + "c/skill": named("c"), work + "d/skills.md": named("d"), work + "e/ſkill.md": named("e"),
			},
			sources: both,
			want:    []string{"a project " + work + "a/skill.md", "b project " + work + "a/b/Skill.MD", "root project " + work + "skill.Md"},
		},
		{
			name: "SKILL.md before other letter cases, then byte order",
			files: map[string]string{
				work + "a/SKILL.MD": named("upper"), work + "a/SKILL.md": named("usual"), work + "a/skill.md": named("lower"),
				work + "b/skill.md": named("low"), work + "b/Skill.md": named("first"),
			},
			sources: both,
			want:    []string{"first project " + work + "b/Skill.md", "usual project " + work + "a/SKILL.md"},
		},
		{
			name: "one name twice below one root: the later path, in byte order",
			files: map[string]string{work + "a/b/SKILL.md": named("n"), work + "a-b/SKILL.md": named("n") + "Now.",
				work + "Z/SKILL.md": named("n")},
			sources: both,
			want:    []string{"n project " + work + "a/b/SKILL.md"}, // "-" is less than "/"
		},
		{
			name:    "names differ in case",
			files:   map[string]string{work + "a/SKILL.md": named("a"), work + "b/SKILL.md": named("A")},
			sources: both,
			want:    []string{"A project " + work + "b/SKILL.md", "a project " + work + "a/SKILL.md"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newMachine(t, tc.files)
			require.Equal(t, tc.want, m.scan(tc.sources, tc.extra...))
			require.Equal(t, strings.HasPrefix(tc.name, "one name twice") || strings.HasPrefix(tc.name, "SKILL.md before"), m.log() != "", m.log())
		})
	}
}

func TestFilesThatAreNotUsedAreLogged(t *testing.T) {
	m := newMachine(t, map[string]string{"home/.agents/skills/a/SKILL.md": named("n"), "home/.agents/skills/a/skill.md": named("m"), "home/.agents/skills/a/SKILL.MD": named("o")})
	m.scan(both)
	require.Equal(t, "level=WARN msg=\"a directory has several skill files\" source=user path=home/.agents/skills/a used=SKILL.md unused=\"[SKILL.MD skill.md]\"\n", m.log())
}

func TestTwoOfOneNameAreLogged(t *testing.T) {
	m := newMachine(t, map[string]string{"home/.agents/skills/1/SKILL.md": named("n"), "home/.agents/skills/2/SKILL.md": named("n") + "Now.",
		"home/.agents/skills/3/SKILL.md": named("n") + "Now."}) // a copy
	m.scan(both)
	require.Equal(t, "level=WARN msg=\"two skills have one name\" source=user name=n "+
		"unused=home/.agents/skills/1/SKILL.md used=home/.agents/skills/2/SKILL.md\n", m.log())
}

func TestHomeThatIsTheProject(t *testing.T) {
	m := newMachine(t, map[string]string{"work/.agents/skills/a/SKILL.md": named("a")})
	s, err := skill.New(skill.Config{HomeDir: m.path("work"), CWD: m.path("work")})
	require.NoError(t, err)
	m.Scanner = s
	require.Equal(t, []string{"a project work/.agents/skills/a/SKILL.md"}, m.scan(both))
	require.Equal(t, []string{"a user work/.agents/skills/a/SKILL.md"}, m.scan([]string{skill.User}))
}

func TestAgentHome(t *testing.T) {
	m := newMachine(t, map[string]string{"home/.x/y/skills/a/SKILL.md": named("a"), "home/.agents/skills/b/SKILL.md": named("b")})
	s, err := skill.New(skill.Config{HomeDir: m.path("home"), AgentHome: ".x/y"})
	require.NoError(t, err)
	m.Scanner = s
	require.Equal(t, []string{"a user home/.x/y/skills/a/SKILL.md"}, m.scan(both, "relative to nothing"))
}

func TestNewRejects(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  skill.Config
		want string
	}{
		{"relative home", skill.Config{HomeDir: "home"}, `set up skills: directory "home" is not absolute`},
		{"relative project", skill.Config{CWD: "."}, `set up skills: directory "." is not absolute`},
		{"agent home above", skill.Config{AgentHome: "../x"}, `set up skills: agent home "../x" is not a path below another directory`},
		{"absolute agent home", skill.Config{AgentHome: "/x"}, `set up skills: agent home "/x" is not a path below another directory`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := skill.New(tc.cfg)
			require.EqualError(t, err, tc.want)
		})
	}
}

// TestScansOnce checks that the result of a scan is cached, and that Body reads the current file.
func TestScansOnce(t *testing.T) {
	m := newMachine(t, map[string]string{"work/.agents/skills/a/SKILL.md": "---\nname: a\n---\nold"})
	before := m.one()
	require.Equal(t, 1, strings.Count(m.log(), "the description is missing"))

	require.NoError(t, os.WriteFile(before.Location, []byte("---\nname: b\n---\nnew"), 0o600))
	require.NoError(t, os.MkdirAll(m.path("home/.agents/skills/c"), 0o755))
	require.NoError(t, os.WriteFile(m.path("home/.agents/skills/c/SKILL.md"), []byte(named("c")), 0o600))
	require.Equal(t, before, m.one())
	require.Equal(t, 1, strings.Count(m.log(), "the description is missing"), "each warning comes once")

	body, err := before.Body()
	require.NoError(t, err)
	require.Equal(t, "new", body)
}

func TestScanFromManyGoroutines(t *testing.T) {
	m := newMachine(t, map[string]string{"home/.agents/skills/a/SKILL.md": named("a"), "x/b/SKILL.md": named("b"),
		"work/.agents/skills/c/SKILL.md": "x"})
	var all sync.WaitGroup
	results := make([][]skill.Skill, 16)
	for i := range results {
		all.Go(func() { results[i], _ = m.Scan(t.Context(), both, []string{"../x"}, nil) })
	}
	all.Wait()
	for _, got := range results {
		require.Len(t, got, 3)
		require.Equal(t, results[0], got)
	}
	require.Equal(t, 1, strings.Count(m.log(), "skill has problems"))
	results[0][0].Name = "changed"
	require.NotEqual(t, "changed", results[1][0].Name, "callers share no memory")
}

func TestScanEndsWithItsContext(t *testing.T) {
	m := newMachine(t, map[string]string{"work/.agents/skills/a/SKILL.md": named("a")})
	stop := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	for range 32 { // which of two ready cases a select takes is random
		_, err := m.Scan(ctx, both, nil, nil)
		require.ErrorIs(t, err, stop)
	}
	require.Equal(t, []string{"a project work/.agents/skills/a/SKILL.md"}, m.scan(both), "an interrupted scan is not cached")
	require.Empty(t, m.log())
}
