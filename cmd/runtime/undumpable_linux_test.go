package main_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/usertest"
)

// The files of a process in /proc belong to its user, and to root if it is undumpable: then other
// processes of the user can read neither its environment nor its memory.
func TestEnvironmentIsReadableOnlyByRoot(t *testing.T) {
	path, err := binary()
	require.NoError(t, err)
	dir := t.TempDir()
	usertest.Enterable(t, scratch)
	usertest.Enterable(t, dir)
	require.NoError(t, os.Chmod(dir, 0o777))
	user := os.Getuid()
	if user == 0 { // /proc does not show the difference for root
		user = usertest.Unprivileged
	}
	for name, row := range map[string]struct {
		command []string
		said    string
		want    int
	}{
		"the command": {[]string{path, "--addr", "127.0.0.1:0"}, "listening on", 0},
		"another":     {[]string{"/bin/sh", "-c", "echo started; read line"}, "started", user},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := os.CreateTemp(dir, "")
			require.NoError(t, err)
			defer out.Close()
			cmd := exec.CommandContext(t.Context(), row.command[0], row.command[1:]...)
			cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, []string{"HOME=/nowhere", "AGENT_STATE_DIR=" + dir + "/state"}, out, out
			if os.Getuid() == 0 {
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: usertest.Unprivileged, Gid: usertest.Unprivileged}}
			}
			input, err := cmd.StdinPipe()
			require.NoError(t, err)
			defer input.Close()
			require.NoError(t, cmd.Start())
			defer func() {
				require.NoError(t, cmd.Process.Kill())
				require.Error(t, cmd.Wait())
			}()
			require.Eventually(t, func() bool {
				text, err := os.ReadFile(out.Name())
				return err == nil && bytes.Contains(text, []byte(row.said))
			}, patience, 20*time.Millisecond)
			info, err := os.Stat(fmt.Sprintf("/proc/%d/environ", cmd.Process.Pid))
			require.NoError(t, err)
			require.EqualValues(t, row.want, info.Sys().(*syscall.Stat_t).Uid)
		})
	}
}
