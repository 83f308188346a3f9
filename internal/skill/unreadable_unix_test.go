//go:build unix

package skill_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFIFO would block if a FIFO were opened like a file.
func TestFIFO(t *testing.T) {
	for _, source := range []string{"home", "work"} {
		t.Run(source, func(t *testing.T) {
			m := newMachine(t, map[string]string{source + "/.agents/skills/a/SKILL.md": named("a"), source + "/.agents/skills/b/x": ""})
			require.NoError(t, syscall.Mkfifo(m.path(source+"/.agents/skills/b/SKILL.md"), 0o600))
			s := m.one()
			require.Contains(t, m.log(), "is not a regular file")

			require.NoError(t, os.Remove(s.Location))
			require.NoError(t, syscall.Mkfifo(s.Location, 0o600))
			_, err := s.Body()
			require.EqualError(t, err, "read skill a: is not a regular file")
			require.Equal(t, filepath.Dir(s.Location), s.Dir())
		})
	}
}

// TestUnreadable has a directory whose path is longer than the system permits, so that no user can
// read it.
func TestUnreadable(t *testing.T) {
	m := newMachine(t, map[string]string{"home/.agents/skills/z/SKILL.md": named("z"), "home/.agents/skills/a/x": ""})
	at, err := os.OpenRoot(m.path("home/.agents/skills/a"))
	require.NoError(t, err)
	name := strings.Repeat("d", 200)
	for range 22 {
		require.NoError(t, at.Mkdir(name, 0o755))
		below, err := at.OpenRoot(name)
		require.NoError(t, err)
		require.NoError(t, at.Close())
		at = below
	}
	require.NoError(t, at.WriteFile("SKILL.md", []byte(named("deep")), 0o600))
	require.NoError(t, at.Close())
	require.Equal(t, []string{"z user home/.agents/skills/z/SKILL.md"}, m.scan(both))
	require.Equal(t, 1, strings.Count(m.log(), "\n"))
	require.Contains(t, m.log(), "directory is left out of the scan for skills")
	require.Contains(t, m.log(), syscall.ENAMETOOLONG.Error())
}
