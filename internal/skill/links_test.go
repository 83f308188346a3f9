package skill_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/skill"
)

func TestLinks(t *testing.T) {
	const home, work = "home/.agents/skills/", "work/.agents/skills/"
	const left = "is left out"
	// The link itself is left out: the scan does not read its target.
	const noWay = "link or directory is left out of the scan for skills\" source=project path=work/.agents/skills/b err=\"leads outside the project"
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  []string
		log   string // part of it; "" is none
	}{
		{
			name:  "user skill linked in from elsewhere",
			files: map[string]string{"src/a/SKILL.md": named("a"), home + "b": "-> src/a"},
			want:  []string{"a user " + home + "b/SKILL.md"},
		},
		{
			name:  "user SKILL.md linked in from elsewhere",
			files: map[string]string{"src/x.md": named("a"), home + "b/SKILL.md": "-> src/x.md"},
			want:  []string{"a user " + home + "b/SKILL.md"},
		},
		{
			name:  "the root is a link",
			files: map[string]string{"src/a/SKILL.md": named("a"), "home/.agents": "-> dot", "dot/skills": "-> src"},
			want:  []string{"a user " + home + "a/SKILL.md"},
		},
		{
			name:  "links on links, below links",
			files: map[string]string{home + "1": "-> 1", "1/2": "-> 2", "2/3": "-> 3", "3": "-> 4", "4/SKILL.md": named("a")},
			want:  []string{"a user " + home + "1/2/3/SKILL.md"},
		},
		{
			name:  "a directory counts once, under its own path",
			files: map[string]string{home + "a": "-> " + home + "z", home + "z/SKILL.md": named("s")},
			want:  []string{"s user " + home + "z/SKILL.md"},
		},
		{
			name:  "twice from elsewhere: the first path",
			files: map[string]string{home + "b": "-> src", home + "a": "-> src", "src/s/SKILL.md": named("s")},
			want:  []string{"s user " + home + "a/s/SKILL.md"},
		},
		{
			name: "loops",
			files: map[string]string{
				home + "self": "-> ./self/../../skills", home + "up": "-> ..", home + "a/up": "-> " + home, home + "a/s/SKILL.md": named("s"),
			},
			want: []string{"s user " + home + "a/s/SKILL.md"}, log: left, // self cannot be resolved
		},
		{
			name: "directories that all lead to each other", // n! paths
			files: map[string]string{
				home + "a/b": "-> " + home + "b", home + "a/c": "-> " + home + "c", home + "b/a": "-> " + home + "a",
				home + "b/c": "-> " + home + "c",
				home + "c/a": "-> " + home + "a", home + "c/b": "-> " + home + "b", home + "c/s/SKILL.md": named("s"),
			},
			want: []string{"s user " + home + "c/s/SKILL.md"},
		},
		{
			name:  "broken links",
			files: map[string]string{home + "a": "-> none", home + "s/SKILL.md": named("s")},
			want:  []string{"s user " + home + "s/SKILL.md"}, log: left,
		},
		{
			name:  "broken SKILL.md",
			files: map[string]string{home + "a/SKILL.md": "-> none", home + "a/b/SKILL.md": named("below")},
			want:  []string{"below user " + home + "a/b/SKILL.md"},
			log:   left,
		},
		{
			name:  "SKILL.md that leads to a directory",
			files: map[string]string{home + "a/SKILL.md": "-> src", "src/SKILL.md": named("s")},
			log:   "is not a regular file",
		},
		{
			name:  "links to files are no directories",
			files: map[string]string{home + "a": "-> src.md", "src.md": named("s")},
		},
		{
			name: "project skill linked in from inside",
			files: map[string]string{"work/src/a/SKILL.md": named("a"), work + "b": "-> work/src/a",
				work + "c/SKILL.md": "-> ../../../x.md", "work/x.md": named("c")},
			want: []string{"a project " + work + "b/SKILL.md", "c project " + work + "c/SKILL.md"},
		},
		{
			name:  "project whose agent home is a link inside",
			files: map[string]string{"work/sub/skills/a/SKILL.md": named("a"), "work/.agents": "-> work/sub"},
			want:  []string{"a project " + work + "a/SKILL.md"},
		},
		{
			name:  "project: out and in again is inside",
			files: map[string]string{"work/src/SKILL.md": named("a"), work + "b": "-> hop", "hop": "-> work/src"},
			want:  []string{"a project " + work + "b/SKILL.md"},
		},
		{
			name:  "project directory linked in from outside",
			files: map[string]string{"src/a/SKILL.md": named("a"), work + "b": "-> src/a", work + "c/SKILL.md": named("c")},
			want:  []string{"c project " + work + "c/SKILL.md"}, log: noWay,
		},
		{
			name:  "project SKILL.md linked in from outside",
			files: map[string]string{"id_rsa": named("key"), work + "b/SKILL.md": "-> id_rsa"},
			log:   "skill is left out\" source=project path=work/.agents/skills/b/SKILL.md err=\"leads outside the project",
		},
		{
			name:  "project directory beside it with a name that begins alike",
			files: map[string]string{"work2/SKILL.md": named("a"), work + "b": "-> work2"},
			log:   noWay,
		},
		{
			name:  "project whose agent home is elsewhere",
			files: map[string]string{"dot/skills/a/SKILL.md": named("a"), "work/.agents": "-> dot"},
			log:   "path=work/.agents/skills err=\"leads outside the project",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newMachine(t, tc.files)
			require.Equal(t, append([]string{}, tc.want...), m.scan(both))
			if tc.log == "" {
				require.Empty(t, m.log())
			} else {
				require.Contains(t, m.log(), tc.log)
			}
		})
	}
}

// TestUserLinksOutside uses the links that TestLinks rejects for a project: as user skills they
// work.
func TestUserLinksOutside(t *testing.T) {
	m := newMachine(t, map[string]string{"id_rsa": named("key"), "work/x/SKILL.md": "-> id_rsa"})
	require.Equal(t, []string{"key user work/x/SKILL.md"}, m.scan(both, "x"))
}

func TestProjectThatIsALink(t *testing.T) {
	m := newMachine(t, map[string]string{"real/.agents/skills/a/SKILL.md": named("a"), "w": "-> real"})
	s, err := skill.New(skill.Config{CWD: m.path("w")})
	require.NoError(t, err)
	m.Scanner = s
	require.Equal(t, []string{"a project w/.agents/skills/a/SKILL.md"}, m.scan(both))
	body, err := m.one().Body()
	require.NoError(t, err)
	require.Equal(t, "How to do it.", body)
}

func TestBodyStaysInTheProject(t *testing.T) {
	for _, tc := range []struct{ name, source, want string }{
		{"project", "work", "read skill a: leads outside the project"},
		{"user", "home", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newMachine(t, map[string]string{"id_rsa": "secret", tc.source + "/.agents/skills/a/SKILL.md": named("a")})
			s := m.one()
			require.NoError(t, os.Remove(s.Location))
			require.NoError(t, os.Symlink(m.path("id_rsa"), s.Location))
			body, err := s.Body()
			if tc.want == "" {
				require.NoError(t, err)
				require.Equal(t, "secret", body)
				return
			}
			require.EqualError(t, err, tc.want)
			require.Empty(t, body)
		})
	}
}

// TestBodyDuringSwaps swaps the skill's directory and a link to one outside while the body is read.
func TestBodyDuringSwaps(t *testing.T) {
	m := newMachine(t, map[string]string{"out/SKILL.md": "secret", "work/.agents/skills/a/SKILL.md": named("a"),
		"work/link": "-> out"})
	s := m.one()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		dir, link, aside := s.Dir(), m.path("work/link"), m.path("work/aside")
		for {
			for _, move := range [][2]string{{dir, aside}, {link, dir}, {dir, link}, {aside, dir}} {
				_ = os.Rename(move[0], move[1])
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	bodies := map[string]int{}
	for range 10_000 {
		body, _ := s.Body()
		bodies[body]++
	}
	close(stop)
	<-done
	require.NotContains(t, bodies, "secret")
	require.Contains(t, bodies, "How to do it.")
}
