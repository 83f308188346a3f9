// Package child starts child processes that leave no processes behind. A child has its own process
// group, which is killed when the child ends. On Linux the child is also killed when its parent
// ends for any reason.
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
// Limits: a descendant in another group (setsid, or the job control of a shell) is not killed. A
// kill -9 of the parent kills the child but not the children of the child. On systems other than
// Linux and Windows, a child survives a parent that is killed. Windows has no process groups: only
// the child is killed, and Terminate is Kill.
package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// waitDelay is the default of exec.Cmd.WaitDelay: the time that pipes may stay open after the child
// has ended.
const waitDelay = 2 * time.Second

var errEnv = errors.New("the environment is not set: nil would be that of the parent")

// Process is a started child and its group. It is safe for concurrent use.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // written before done is closed

	mu    sync.Mutex // guards ended; held while the group is signalled
	ended bool       // the id of the group may be in use by another group
}

// Start starts cmd in a new session, and therefore in a new process group and without a terminal.
// cmd.Env must not be nil. cmd.WaitDelay defaults to 2 s, so that a descendant that holds the pipes
// does not delay Done further. cmd.Stdout should be a writer or a pipe of os.Pipe: the pipe of
// cmd.StdoutPipe is closed when the child ends, whether it was read or not. The caller must not use
// cmd until Done is closed.
//
// Each child occupies a thread. The kernel sends the parent-death signal when the thread that
// forked the child ends, and the Go scheduler may end an unlocked thread at any time.
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

// PID returns the id of the child, which is also the id of its group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the child has been waited for and its group is empty.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns the error of cmd.Wait, such as an *exec.ExitError. It returns nil until Done is
// closed.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Terminate sends SIGTERM to the group.
func (p *Process) Terminate() { p.signal(p.terminate) }

// Kill sends SIGKILL to the group. It does nothing after the child has ended, since its id may be
// in use again.
func (p *Process) Kill() { p.signal(p.kill) }

// Stop terminates the group, kills it after the grace period, and waits for Done.
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

// end kills the rest of the group, if its id cannot be in use by another group yet. The group is
// not signalled any more afterwards.
func (p *Process) end(ours bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ours {
		p.kill()
	}

	p.ended = true
}

// LookPath finds an executable in the PATH of env, the environment of the child. It returns a name
// with a separator unchanged. Relative directories of PATH are skipped, since they depend on the
// working directory of the child. If there is no such executable, the error wraps exec.ErrNotFound.
func LookPath(name string, env []string) (string, error) {
	if name == "" {
		return "", fmt.Errorf("find executable: no name: %w", exec.ErrNotFound)
	}

	if strings.ContainsRune(name, '/') || strings.ContainsRune(name, filepath.Separator) {
		return name, nil
	}

	endings := []string{""}
	if runtime.GOOS == "windows" {
		endings = []string{".com", ".exe", ".bat", ".cmd", ""}
	}

	for _, dir := range filepath.SplitList(variable(env, "PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}

		for _, ending := range endings {
			path := filepath.Join(dir, name+ending)
			if executable(path) {
				return path, nil
			}
		}
	}

	return "", fmt.Errorf("find executable %q: %w", name, exec.ErrNotFound)
}

// variable returns the last value of a variable, which overrides the earlier ones.
func variable(env []string, name string) string {
	for _, entry := range slices.Backward(env) {
		key, value, _ := strings.Cut(entry, "=")
		if key == name || runtime.GOOS == "windows" && strings.EqualFold(key, name) {
			return value
		}
	}

	return ""
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && (runtime.GOOS == "windows" || info.Mode()&0o111 != 0)
}
