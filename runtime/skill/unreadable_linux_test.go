package skill_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestForbidden scans what permissions forbid. They do not hold for root, whose thread is made another user's for it.
func TestForbidden(t *testing.T) {
	m := newMachine(t, map[string]string{
		"home/.agents/skills/a/SKILL.md": named("a"), "home/.agents/skills/b/c/SKILL.md": named("b"),
		"home/.agents/skills/d/e/SKILL.md": named("d"), "home/.agents/skills/z/SKILL.md": named("z"),
	})
	for dir := m.dir; dir != filepath.Dir(os.TempDir()) && strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755)) // not so for others as testing makes it
	}
	require.NoError(t, os.Chmod(m.path("home/.agents/skills/z/SKILL.md"), 0o644))
	for path, mode := range map[string]os.FileMode{"a/SKILL.md": 0, "b": 0, "d": 0o444} {
		path = m.path("home/.agents/skills/" + path)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.NoError(t, os.Chmod(path, mode))
		t.Cleanup(func() { _ = os.Chmod(path, info.Mode()) })
	}
	var lines []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if os.Geteuid() == 0 {
			_ = syscall.Setfsuid(65534) // takes the right to override permissions away as well
		}
		skills, _ := m.Scan(t.Context(), both, nil)
		for _, s := range skills {
			lines = append(lines, s.Name)
		}
	}()
	<-done
	require.Equal(t, []string{"z"}, lines, m.log())
	require.Equal(t, 3, strings.Count(m.log(), "permission denied"), m.log())
}
