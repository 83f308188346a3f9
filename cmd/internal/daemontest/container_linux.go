package daemontest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Contain is Spawn in a new process namespace, where the binary is process 1. It takes root.
// change, if set, changes the command.
func Contain(t testing.TB, binary, dir string, env []string, change func(*exec.Cmd), args ...string) *Process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"-c", `mount -t proc proc /proc && exec "$0" "$@"`, binary}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS}
	if change != nil {
		change(cmd)
	}

	return start(t, cmd, dir, env)
}

// Inside runs a shell script in the process namespace of the process. Its orphans belong to
// process 1 there.
func (p *Process) Inside(t testing.TB, script string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "nsenter", "--target", strconv.Itoa(p.Cmd.Process.Pid), "--pid", "--", "/bin/sh", "-c", script).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// Children returns the ids of the children of the process, ended ones included.
func (p *Process) Children(t testing.TB) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}

		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if fields[1] == strconv.Itoa(p.Cmd.Process.Pid) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			require.NoError(t, err)
			pids = append(pids, pid)
		}
	}

	return pids
}

// RequireOneChild waits until the process has one child, and returns its id.
func (p *Process) RequireOneChild(t testing.TB) int {
	t.Helper()
	var pids []int
	require.Eventually(t, func() bool {
		pids = p.Children(t)
		return len(pids) == 1
	}, Patience, 10*time.Millisecond, "children: %v", &pids)
	return pids[0]
}
