// Package daemontest runs server commands in tests: in the process of the test, or as a binary.
package daemontest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/logtest"
)

// Patience bounds the time that a test waits for an expected event. It is long because the machine
// may be busy.
const Patience = 2 * time.Minute

// Instance is a running server, in this process or in another.
type Instance struct {
	URL         string // set by Started
	Stdout, Log *logtest.Buffer

	ended chan struct{} // closed when the server has ended; then:
	err   error
}

// Serve runs a command in this process until the test ends, and waits for its banner. The command
// must end without an error.
func Serve(t testing.TB, run func(ctx context.Context, in *Instance) error) *Instance {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	in := newInstance()
	go func() {
		defer close(in.ended)
		in.err = run(ctx, in)
	}()
	t.Cleanup(func() {
		stop()
		in.Wait(t)
		require.NoError(t, in.err)
	})
	in.Started(t)
	return in
}

func newInstance() *Instance {
	return &Instance{Stdout: &logtest.Buffer{}, Log: &logtest.Buffer{}, ended: make(chan struct{})}
}

// Getenv returns a function for the os.Getenv of a command that knows only the given pairs.
func Getenv(pairs []string) func(string) string {
	return func(name string) string {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}

		return ""
	}
}

// Process is a running binary.
type Process struct {
	*Instance
	Cmd *exec.Cmd
}

// Spawn starts a binary in the directory dir, which is also its home, with the environment in
// pairs. It is killed at the end of the test if it is still running.
func Spawn(t testing.TB, binary, dir string, env []string, args ...string) *Process {
	t.Helper()
	return start(t, exec.CommandContext(t.Context(), binary, args...), dir, env)
}

func start(t testing.TB, cmd *exec.Cmd, dir string, env []string) *Process {
	t.Helper()
	p := &Process{Instance: newInstance(), Cmd: cmd}
	p.Cmd.Dir, p.Cmd.Env = dir, []string{"HOME=" + dir}
	for i := 0; i+1 < len(env); i += 2 {
		p.Cmd.Env = append(p.Cmd.Env, env[i]+"="+env[i+1])
	}

	p.Cmd.Stdout, p.Cmd.Stderr = p.Stdout, p.Log
	acceptHangup()
	require.NoError(t, p.Cmd.Start())
	go func() {
		defer close(p.ended)
		p.err = p.Cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.Cmd.Process.Kill() // an error means that it has ended
		p.Wait(t)
	})
	return p
}

// acceptHangup makes children start with the default action of SIGHUP, also if the tests run under
// nohup: a signal that has a handler is not ignored by a child.
var acceptHangup = sync.OnceFunc(func() { signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) })

// Signal sends a signal to the process.
func (p *Process) Signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, p.Cmd.Process.Signal(sig))
}

// Exit waits for the end and returns the exit code.
func (p *Process) Exit(t testing.TB) int {
	t.Helper()
	p.Wait(t)
	return p.Cmd.ProcessState.ExitCode()
}

var listening = regexp.MustCompile(`listening on (http://\S+)\n`)

// Started waits for the banner and reads the address from it.
func (in *Instance) Started(t testing.TB) {
	t.Helper()
	in.URL = in.Await(t, in.Stdout, listening)[1]
}

// Wait waits for the end.
func (in *Instance) Wait(t testing.TB) {
	t.Helper()
	select {
	case <-in.ended:
	case <-time.After(Patience):
		require.FailNow(t, "the server does not end", "stdout: %s\nlog: %s", in.Stdout, in.Log)
	}
}

// Await waits until an output of the instance matches.
func (in *Instance) Await(t testing.TB, o *logtest.Buffer, pattern *regexp.Regexp) []string {
	t.Helper()
	late := time.NewTimer(Patience)
	defer late.Stop()
	ended := in.ended
	for {
		text, wrote := o.Now()
		if match := pattern.FindStringSubmatch(text); match != nil {
			return match
		}

		if ended == nil {
			require.FailNow(t, "the server ended before "+pattern.String(), "stdout: %s\nlog: %s\nerror: %v", in.Stdout, in.Log, in.err)
		}

		select {
		case <-wrote:
		case <-ended:
			ended = nil // check once more
		case <-late.C:
			require.FailNow(t, "the server does not write "+pattern.String(), "stdout: %s\nlog: %s", in.Stdout, in.Log)
		}
	}
}

// Build builds the command in the current directory as the file path, like the released binary
// except for -trimpath, with which every dependency would be compiled again.
func Build(path string) error {
	build := exec.CommandContext(context.Background(), "go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the command: %w\n%s", err, out)
	}

	return nil
}
