//go:build unix

package child_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed93082962/agenthost/internal/child"
)

// The test binary is also the child: with the name of a role as its argument, it runs that role.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && play(os.Args[1:]) {
		return
	}
	goleak.VerifyTestMain(m)
}

// play runs a role. A role waits for the end of its input, which the test holds open, so that no
// process outlives the tests.
func play(part []string) bool {
	switch part[0] {
	case "exit":
		code, _ := strconv.Atoi(part[1])
		os.Exit(code)
	case "echo":
		_, _ = io.Copy(os.Stdout, os.Stdin)
	case "stubborn": // ignores SIGTERM
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		wait()
	case "obedient":
		terminated := make(chan os.Signal, 1)
		signal.Notify(terminated, syscall.SIGTERM)
		fmt.Println("ready")
		<-terminated
		os.Exit(7)
	case "parent": // of a child in its group, which waits for another file
		cmd := inherit(exec.Command(os.Args[0], "stubborn"))
		cmd.Stdin = os.NewFile(3, "in")
		fail(cmd.Start())
		wait()
	case "runaway": // ends, and leaves a child that has a session of its own
		cmd := inherit(exec.Command(os.Args[0], "echo"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		fail(cmd.Start())
	case "middle": // starts a child as the tests do
		_, err := child.Start(inherit(exec.Command(os.Args[0], "stubborn")))
		fail(err)
		wait()
	default:
		return false
	}
	return true
}

// environment makes children that were built with the race detector exit without a delay of one
// second.
func environment() []string { return []string{"GORACE=atexit_sleep_ms=0"} }

func wait() { _, _ = io.Copy(io.Discard, os.Stdin) }

func inherit(cmd *exec.Cmd) *exec.Cmd {
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = environment(), os.Stdin, os.Stdout, os.Stderr
	return cmd
}

func fail(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// actor is a child with a role that is not started yet.
type actor struct {
	*exec.Cmd
	in  *os.File      // the child waits until it is closed
	end *os.File      // the read end of the child's output
	out *bufio.Reader // of end; at EOF when no process has the child's output open
}

func newActor(t *testing.T, part ...string) *actor {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	stdin, in := pipe(t)
	other, _ := pipe(t)
	out, stdout := pipe(t)
	return &actor{
		Cmd: &exec.Cmd{
			Path: self, Args: append([]string{self}, part...), Env: environment(),
			Stdin: stdin, Stdout: stdout, ExtraFiles: []*os.File{other},
		},
		in: in, end: out, out: bufio.NewReader(out),
	}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

// start starts the child and closes the child's ends of the pipes.
func (a *actor) start(t *testing.T) *child.Process {
	t.Helper()
	p, err := child.Start(a.Cmd)
	require.NoError(t, err)
	t.Cleanup(func() { p.Stop(0) })
	require.NoError(t, a.Stdin.(*os.File).Close())
	if out, ok := a.Stdout.(*os.File); ok {
		require.NoError(t, out.Close())
	}
	return p
}

func (a *actor) ready(t *testing.T) {
	t.Helper()
	line, err := a.out.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
}

// requireGone waits until the child and all other processes with its output have ended.
func (a *actor) requireGone(t *testing.T) {
	t.Helper()
	rest, err := io.ReadAll(a.out)
	require.NoError(t, err)
	require.Empty(t, rest)
}
