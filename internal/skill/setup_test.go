package skill_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/skill"
)

var both = []string{skill.User, skill.Project}

// machine is a directory with a home directory and a project in it, and a scanner of the two.
type machine struct {
	t    testing.TB
	dir  string // free of links
	logs bytes.Buffer
	*skill.Scanner
}

// newMachine writes files by their slash-separated paths, for example below "home" or "work", which
// is the project. A text "-> target" makes a link to a path below the machine, or to the given
// target if it begins with a dot.
func newMachine(t testing.TB, files map[string]string) *machine {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	m := &machine{t: t, dir: dir}
	require.NoError(t, os.Mkdir(m.path("work"), 0o755))
	for path, text := range files {
		path = m.path(path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		target, link := strings.CutPrefix(text, "-> ")
		switch {
		case link && target[0] == '.':
			require.NoError(t, os.Symlink(target, path))
		case link:
			require.NoError(t, os.Symlink(m.path(target), path))
		default:
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		}
	}
	log := slog.New(slog.NewTextHandler(&m.logs, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	m.Scanner, err = skill.New(skill.Config{HomeDir: m.path("home"), CWD: m.path("work"), Logger: log})
	require.NoError(t, err)
	return m
}

func (m *machine) path(slashed string) string {
	return filepath.Join(m.dir, filepath.FromSlash(slashed))
}

// log is what was logged, with paths as newMachine takes them.
func (m *machine) log() string {
	return strings.ReplaceAll(m.logs.String(), m.dir+string(filepath.Separator), "")
}

// scan gives a line for each skill: name, source and location.
func (m *machine) scan(sources []string, extra ...string) []string {
	m.t.Helper()
	skills, err := m.Scan(m.t.Context(), sources, extra, nil)
	require.NoError(m.t, err)
	lines := []string{}
	for _, s := range skills {
		rel, err := filepath.Rel(m.dir, s.Location)
		require.NoError(m.t, err)
		lines = append(lines, fmt.Sprintf("%s %s %s", s.Name, s.Source, filepath.ToSlash(rel)))
	}
	return lines
}

// one scans for the only skill there is.
func (m *machine) one() skill.Skill {
	m.t.Helper()
	skills, err := m.Scan(m.t.Context(), both, nil, nil)
	require.NoError(m.t, err)
	require.Len(m.t, skills, 1)
	return skills[0]
}

func named(name string) string {
	return "---\nname: " + name + "\ndescription: Does " + name + ".\n---\nHow to do it.\n"
}
