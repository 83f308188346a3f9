package skill_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/usertest"
)

// TestForbidden scans directories and files without permission.
func TestForbidden(t *testing.T) {
	m := newMachine(t, map[string]string{
		"home/.agents/skills/a/SKILL.md": named("a"), "home/.agents/skills/b/c/SKILL.md": named("b"),
		"home/.agents/skills/d/e/SKILL.md": named("d"), "home/.agents/skills/z/SKILL.md": named("z"),
	})
	usertest.Enterable(t, m.dir)
	require.NoError(t, os.Chmod(m.path("home/.agents/skills/z/SKILL.md"), 0o644))
	for path, mode := range map[string]os.FileMode{"a/SKILL.md": 0, "b": 0, "d": 0o444} {
		path = m.path("home/.agents/skills/" + path)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.NoError(t, os.Chmod(path, mode))
		t.Cleanup(func() { _ = os.Chmod(path, info.Mode()) })
	}
	var lines []string
	usertest.AsUnprivileged(t, func() {
		skills, _ := m.Scan(t.Context(), both, nil, nil)
		for _, s := range skills {
			lines = append(lines, s.Name)
		}
	})
	require.Equal(t, []string{"z"}, lines, m.log())
	require.Equal(t, 3, strings.Count(m.log(), "permission denied"), m.log())
}
