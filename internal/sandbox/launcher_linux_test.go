package sandbox_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed93082962/agenthost/internal/child"
	"github.com/seed93082962/agenthost/internal/sandbox"
)

// A command is started by one launcher, its parent, which is the process of cmd: each launcher
// takes as long as a shell.
func TestOneLauncher(t *testing.T) {
	for kernel, simulate := range kernels {
		t.Run(kernel, func(t *testing.T) {
			simulate(t)
			p, lines := startScript(t, open(t, nil), "echo $$ $PPID; read line")
			require.True(t, lines.Scan())
			if kernel == "namespaces" {
				require.Equal(t, "2 0", lines.Text()) // the launcher is outside
			}
			pid := p.PID()
			children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
			require.NoError(t, err)
			var names []string
			for _, id := range strings.Fields(string(children)) {
				name, err := os.ReadFile("/proc/" + id + "/comm")
				require.NoError(t, err)
				names = append(names, string(name))
			}
			require.Contains(t, names, "bash\n")
			p.Stop(0)
		})
	}
}

// A launcher that is killed takes all processes of its command along.
func TestCommandEndsWithItsLauncher(t *testing.T) {
	for name, simulate := range map[string]func(testing.TB){"landlock": kernels["namespaces"], "no landlock": sandbox.SimulateNoLandlock} {
		t.Run(name, func(t *testing.T) {
			simulate(t)
			p, lines := startScript(t, open(t, nil), "setsid sleep 1000 & (setsid sleep 1000 &); echo started; wait")
			require.True(t, lines.Scan())
			require.NoError(t, unix.Kill(p.PID(), unix.SIGKILL))
			require.False(t, lines.Scan(), "a process has the output open") // until the end of all processes
			<-p.Done()
		})
	}
}

// A command that kills its group ends with all its processes, and cannot reach process 1.
func TestCommandKillsItsGroup(t *testing.T) {
	for name, simulate := range map[string]func(testing.TB){"landlock": kernels["namespaces"], "no landlock": sandbox.SimulateNoLandlock} {
		t.Run(name, func(t *testing.T) {
			simulate(t)
			p, lines := startScript(t, open(t, nil), `setsid sleep 1000 &
				kill -9 1; kill -STOP 1; kill -SEGV 1; cat /proc/1/environ /proc/1/maps; readlink /proc/1/fd/0 /proc/1/exe
				echo survived; kill -9 0; kill -9 $$`)
			require.True(t, lines.Scan())
			require.Equal(t, "survived", lines.Text())
			require.False(t, lines.Scan(), "a process has the output open")
			<-p.Done()
			require.Equal(t, "SIGKILL", child.SignalName(p.Err()))
		})
	}
}

// A command ends by its signal, whatever the signal is, and leaves no zombies while it runs.
func TestSignalsAndOrphans(t *testing.T) {
	s := open(t, nil)
	for _, name := range []string{"TERM", "ABRT", "SEGV", "PIPE", "USR1", "KILL"} {
		p, lines := startScript(t, s, "kill -"+name+" $$")
		require.False(t, lines.Scan())
		<-p.Done()
		require.Equal(t, "SIG"+name, child.SignalName(p.Err()))
	}
	output, err := bash(t, s, `for i in {1..20}; do (true &) ; done
		for i in {1..500}; do zombies=$(cat /proc/[0-9]*/stat 2> /dev/null | grep -c ') Z 1 '); [ $zombies = 0 ] && break; read -t 0.02 < <(sleep 1); done
		echo $zombies`)
	require.NoError(t, err)
	require.Equal(t, "0\n", output)
}

// The start of a command with namespaces does not change whether the memory of its caller is
// protected, with which the launcher shares its memory at first.
func TestMemoryOfTheCaller(t *testing.T) {
	s := open(t, nil)
	for _, protected := range []int{0, 1} {
		require.NoError(t, unix.Prctl(unix.PR_SET_DUMPABLE, uintptr(protected), 0, 0, 0))
		t.Cleanup(func() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) })
		_, err := bash(t, s, ":")
		require.NoError(t, err)
		now, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
		require.NoError(t, err)
		require.Equal(t, protected, now)
	}
}

// startScript starts a script of bash, and returns its output.
func startScript(t *testing.T, s *sandbox.Enforcer, script string) (*child.Process, *bufio.Scanner) {
	t.Helper()
	input, _, err := os.Pipe()
	require.NoError(t, err)
	output, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = input.Close(), output.Close() })
	require.NoError(t, output.SetReadDeadline(time.Now().Add(time.Minute)))
	cmd := &exec.Cmd{Path: "/bin/bash", Args: []string{"bash", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Stdin: input, Stdout: w}
	c, err := s.Confine(cmd)
	require.NoError(t, err)
	p, err := child.Start(cmd)
	c.Started()
	require.NoError(t, err)
	t.Cleanup(func() { p.Stop(0) })
	require.NoError(t, w.Close())
	return p, bufio.NewScanner(output)
}
