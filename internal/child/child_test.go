//go:build unix

package child_test

import (
	"bytes"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/child"
)

func TestErrHasTheExitCode(t *testing.T) {
	a := newActor(t, "exit", "3")
	p := a.start(t)
	<-p.Done()
	exit, ok := p.Err().(*exec.ExitError) //nolint:errorlint // it is the very value
	require.True(t, ok, "%v", p.Err())
	require.Equal(t, 3, exit.ExitCode())
	p.Terminate() // without effect after the end
	p.Kill()
	p.Stop(time.Hour)
}

func TestStartRejects(t *testing.T) {
	a := newActor(t, "exit", "0")
	a.Env = nil
	_, err := child.Start(a.Cmd)
	require.ErrorContains(t, err, "the environment is not set")

	a = newActor(t, "exit", "0")
	a.Path = "/no/such/program"
	_, err = child.Start(a.Cmd)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestChildLeadsItsGroup(t *testing.T) {
	a := newActor(t, "stubborn")
	p := a.start(t)
	a.ready(t)
	group, err := syscall.Getpgid(p.PID())
	require.NoError(t, err)
	require.Equal(t, p.PID(), group)
	require.NoError(t, p.Err(), "before it is done")
}

func TestStop(t *testing.T) {
	t.Run("obedient", func(t *testing.T) {
		a := newActor(t, "obedient")
		p := a.start(t)
		a.ready(t)
		p.Stop(time.Minute)
		require.Equal(t, 7, a.ProcessState.ExitCode())
		require.Empty(t, child.SignalName(p.Err()))
	})
	t.Run("stubborn", func(t *testing.T) {
		a := newActor(t, "stubborn")
		p := a.start(t)
		a.ready(t)
		p.Stop(20 * time.Millisecond)
		require.Equal(t, "SIGKILL", child.SignalName(p.Err()))
	})
	t.Run("group, from several sides", func(t *testing.T) {
		a := newActor(t, "parent")
		p := a.start(t)
		a.ready(t)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { p.Stop(time.Millisecond) })
			all.Go(p.Kill)
		}
		all.Wait()
		a.requireGone(t)
	})
}

func TestGroupEndsWithItsLeader(t *testing.T) {
	a := newActor(t, "parent")
	p := a.start(t)
	a.ready(t) // printed by the grandchild
	require.NoError(t, a.in.Close())
	<-p.Done()
	require.NoError(t, p.Err())
	require.Zero(t, a.out.Buffered())
	raw, err := a.end.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Read(func(fd uintptr) bool {
		var n int
		n, err = syscall.Read(int(fd), make([]byte, 1))
		require.Zero(t, n)
		return true
	}))
	require.NoError(t, err, "no process has the output open after Done")
}

func TestPipesOfARunawayDoNotDelayTheEnd(t *testing.T) {
	a := newActor(t, "runaway")
	a.Stderr = a.Stdout // the runaway's end is seen there
	mine := a.Stdout.(*os.File)
	var output bytes.Buffer
	a.Stdout, a.WaitDelay = &output, 50*time.Millisecond
	p := a.start(t)
	<-p.Done()
	require.ErrorIs(t, p.Err(), exec.ErrWaitDelay)
	require.NoError(t, mine.Close())
	require.NoError(t, a.in.Close()) // ends the runaway
	a.requireGone(t)
}

func TestOutputIsCompleteAtTheEnd(t *testing.T) {
	a := newActor(t, "echo")
	big := bytes.Repeat([]byte("0123456789abcde\n"), 1<<14)
	var output bytes.Buffer
	a.Stdin, a.Stdout = bytes.NewReader(big), &output
	p, err := child.Start(a.Cmd)
	require.NoError(t, err)
	<-p.Done()
	require.NoError(t, p.Err())
	require.True(t, bytes.Equal(big, output.Bytes()), "%d bytes of %d", output.Len(), len(big))
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		p, err := child.Start(&exec.Cmd{Path: "/bin/true", Env: []string{}})
		require.NoError(b, err)
		<-p.Done()
	}
}
