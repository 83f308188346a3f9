package child_test

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/child"
)

func TestChildDiesWithItsParent(t *testing.T) {
	a := newActor(t, "middle")
	p := a.start(t)
	a.ready(t)                           // printed by the child of the middle process
	require.NoError(t, a.Process.Kill()) // only the middle process: its child has a group of its own
	<-p.Done()
	a.requireGone(t)
}

// A thread ends with the goroutine that is locked to it. The kernel then sends the parent-death
// signal to the children that were forked on that thread.
func TestChildOutlivesTheThreadOfItsCaller(t *testing.T) {
	const children = 16
	var (
		actors    [children]*actor
		processes [children]*child.Process
		threads   [children]int
		all       sync.WaitGroup
	)
	for i := range actors {
		actors[i] = newActor(t, "echo")
		all.Go(func() {
			runtime.LockOSThread()
			threads[i] = syscall.Gettid()
			processes[i], _ = child.Start(actors[i].Cmd)
		})
	}
	all.Wait()
	for i, p := range processes {
		require.NotNil(t, p)
		t.Cleanup(func() { p.Stop(0) })
		require.NoError(t, actors[i].Stdin.(*os.File).Close())
		require.NoError(t, actors[i].Stdout.(*os.File).Close())
	}
	for _, thread := range threads {
		if thread == os.Getpid() {
			continue // the first thread is parked, not ended
		}
		require.Eventually(t, func() bool {
			_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", thread))
			return os.IsNotExist(err)
		}, time.Minute, time.Millisecond)
	}
	for i, p := range processes {
		_, err := actors[i].in.WriteString("alive\n")
		require.NoError(t, err)
		line, err := actors[i].out.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "alive\n", line)
		require.NoError(t, actors[i].in.Close())
		<-p.Done()
		require.NoError(t, p.Err())
	}
}
