// Package child starts child processes that leave nothing behind: a child has a process group of its own, which ends
// with it, and on Linux it dies with the process that started it, however that ended.
//
//	cmd := &exec.Cmd{Path: bash, Args: []string{"bash", "-c", command}, Env: env, Stdout: &output}
//	p, err := child.Start(cmd)
//	if err != nil {
//		return err
//	}
//	select {
//	case <-p.Done():
//	case <-ctx.Done():
//		p.Stop(200 * time.Millisecond)
//	}
//	return p.Err()
//
// What it cannot reach: a descendant that made a group of its own (setsid, or the job control of a shell) is not ended
// with the group, and a kill -9 of the parent ends the child but not the child's children. On systems that are neither
// Linux nor Windows a child outlives a parent that is killed. On Windows there is no group, so that the child alone is
// ended, and Terminate is Kill.
package child

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// waitDelay is how long pipes may stay open after the child has ended, where the command does not say.
const waitDelay = 2 * time.Second

var errEnv = errors.New("the environment is not set: nil would pass on that of the parent")

// Process is a child that was started, and its group. It is safe for concurrent use.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // written before done is closed

	mu    sync.Mutex // guards ended, and is held while the group is signalled
	ended bool       // the id of the group may belong to others from now on
}

// Start starts cmd in a session and so in a process group of its own: it has no terminal to ask anything on.
// cmd.Env must not be nil, and cmd.WaitDelay defaults to 2 s, so that a descendant that holds the pipes cannot hold up
// the end. Give cmd.Stdout a writer, or a pipe made by os.Pipe: what cmd.StdoutPipe answers is closed when the child ends,
// read or not. The caller leaves cmd alone until Done.
//
// Each child costs a thread. The kernel sends the parent-death signal when the thread that forked ends, and the Go
// scheduler may end a thread at any time, so that one is kept for as long as the child lives.
func Start(cmd *exec.Cmd) (*Process, error) {
	if cmd.Env == nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, errEnv)
	}
	if cmd.WaitDelay == 0 {
		cmd.WaitDelay = waitDelay
	}
	cmd.SysProcAttr = attributes(cmd.SysProcAttr)
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.wait()
	close(p.done)
}

// PID is the id of the child, and where there are groups that of its group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the child has been waited for and the rest of its group is gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is what cmd.Wait answered, an *exec.ExitError for instance; nil before Done.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Terminate asks the whole group to end: SIGTERM.
func (p *Process) Terminate() { p.signal(p.terminate) }

// Kill ends the whole group: SIGKILL. It does nothing when the child has ended, also when its id is used again.
func (p *Process) Kill() { p.signal(p.kill) }

// Stop ends the group, by Kill if it is there after grace, and waits for Done.
func (p *Process) Stop(grace time.Duration) {
	if grace > 0 {
		p.Terminate()
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-p.done:
			return
		case <-timer.C:
		}
	}
	p.Kill()
	<-p.done
}

func (p *Process) signal(send func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		send()
	}
}

// end kills what is left of the group, if it is known to be that of the child. From then on it is not signalled any more.
func (p *Process) end(known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known {
		p.kill()
	}
	p.ended = true
}
