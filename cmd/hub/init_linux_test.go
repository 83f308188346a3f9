package main_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/secret"
)

// contained starts a hub as process 1.
func contained(t *testing.T, path string, env []string, args ...string) *daemontest.Process {
	t.Helper()
	return daemontest.Contain(t, path, filepath.Dir(path), env, nil, append([]string{"--addr", "127.0.0.1:0"}, args...)...)
}

// The processes that process 1 of a container is given are removed when they end.
func TestHubAsProcess1(t *testing.T) {
	t.Parallel()
	path := binary(t)
	p := contained(t, path, []string{"HUB_DATA_DIR", t.TempDir()})
	p.Started(t)
	inner := p.RequireOneChild(t)
	ended := filepath.Join(t.TempDir(), "ended")
	p.Inside(t, `for i in 1 2 3 4 5 6 7 8 9 10; do (sh -c 'exit 3' & echo $i >>`+ended+` &); done`)
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(ended)
		return err == nil && strings.Count(string(text), "\n") == 10
	}, daemontest.Patience, 10*time.Millisecond)
	require.Equal(t, inner, p.RequireOneChild(t))

	p.Signal(t, syscall.SIGTERM)
	require.Zero(t, p.Exit(t), "%s", p.Log)
	require.Equal(t, 1, strings.Count(p.Log.String(), `"message":"draining"`))
	require.Contains(t, p.Log.String(), `"message":"stopped"`)
}

func TestExitStatusOfProcess1(t *testing.T) {
	t.Parallel()
	path := binary(t)
	p := contained(t, path, nil, "surplus")
	require.Equal(t, 1, p.Exit(t))
	require.Contains(t, p.Log.String(), `hub: unknown argument "surplus"`)

	for name, row := range map[string]struct {
		signal syscall.Signal
		status int
	}{"killed": {syscall.SIGKILL, 137}, "a signal without a handler": {syscall.SIGQUIT, 2}} {
		t.Run(name, func(t *testing.T) {
			p := contained(t, path, []string{"HUB_DATA_DIR", t.TempDir()})
			p.Started(t)
			require.NoError(t, syscall.Kill(p.RequireOneChild(t), row.signal))
			require.Equal(t, row.status, p.Exit(t), "the container ends")
		})
	}
	t.Run("a relayed signal", func(t *testing.T) {
		p := contained(t, path, []string{"HUB_DATA_DIR", t.TempDir()})
		p.Started(t)
		p.Signal(t, syscall.SIGQUIT)
		require.Equal(t, 2, p.Exit(t))
	})
}

// A runtime that the hub started and that is killed leaves nothing, and is started again.
func TestDeploymentsOfProcess1(t *testing.T) {
	t.Parallel()
	path := binary(t)
	url := dbtest.SQLite(t)
	f := &farm{t: t, path: path, database: url, env: []string{
		"DATABASE_URL", url, "HUB_DATA_DIR", t.TempDir(), "PROVIDER_ENCRYPTION_KEY", secret.Generate(), "PATH", os.Getenv("PATH"),
	}}
	p := contained(t, path, f.env)
	p.Started(t)
	f.setUp(p)
	inner := p.RequireOneChild(t)
	f.do(p, http.MethodPost, "", http.StatusAccepted)
	f.run(f.reach(p, "running"))
	require.NoError(t, syscall.Kill(runtimes(path)[0], syscall.SIGKILL))
	require.Eventually(t, func() bool {
		s := f.do(p, http.MethodGet, "", http.StatusOK)
		return s["state"] == "running" && s["restartCount"] == 1.0
	}, daemontest.Patience, 10*time.Millisecond)
	f.run(f.reach(p, "running"))
	require.Equal(t, inner, p.RequireOneChild(t))
	p.Signal(t, syscall.SIGTERM)
	require.Zero(t, p.Exit(t), "%s", p.Log)
	require.Eventually(t, func() bool { return len(runtimes(path)) == 0 }, daemontest.Patience, 10*time.Millisecond, "the kernel ends what is in the container")

	// The next container continues with the database and the directories.
	p = contained(t, path, f.env)
	p.Started(t)
	require.Eventually(t, func() bool {
		s := f.do(p, http.MethodGet, "", http.StatusOK)
		return s["state"] == "running" && s["restartCount"] == 2.0
	}, daemontest.Patience, 10*time.Millisecond)
	f.run(f.reach(p, "running"))
	f.do(p, http.MethodDelete, "", http.StatusNoContent)
}

// Ctrl+C in a terminal is one signal, not one for each process of the group.
func TestProcess1InATerminal(t *testing.T) {
	t.Parallel()
	path := binary(t)
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	defer terminal.Close()
	fd := int(terminal.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	end, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	defer end.Close()
	p := daemontest.Contain(t, path, filepath.Dir(path), []string{"HUB_DATA_DIR", t.TempDir()}, func(cmd *exec.Cmd) {
		cmd.Stdin, cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = end, true, true
	}, "--addr", "127.0.0.1:0")
	p.Started(t)
	_, err = terminal.WriteString("\x03")
	require.NoError(t, err)
	require.Zero(t, p.Exit(t), "%s", p.Log)
	require.Contains(t, p.Log.String(), `"message":"stopped"`)
}
