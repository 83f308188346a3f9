package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// pause is the time between two attempts, also between the end of a daemon and its next start.
const pause = 50 * time.Millisecond

// daemon is a server that is started again whenever it ends.
type daemon struct {
	name    string
	command func() *exec.Cmd
	log     string         // the file of its output
	last    syscall.Signal // ends it without a failure

	mu   sync.Mutex // guards the rest
	cmd  *exec.Cmd
	stop bool
	away time.Duration // before the next start
}

// startDaemon starts a daemon until the test ends.
func startDaemon(t *testing.T, dir, name string, command func() *exec.Cmd) *daemon {
	d := &daemon{name: name, command: command, log: filepath.Join(dir, name+".log"), last: syscall.SIGTERM}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for d.run() {
			<-time.After(pause + d.pauseOnce())
		}
	}()
	t.Cleanup(func() {
		d.signal(d.last, true)
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Errorf("%s does not end after %v: %s", name, d.last, d.tail())
			d.signal(syscall.SIGKILL, true)
			<-ended
		}
	})
	return d
}

// run runs the daemon until it ends, and reports whether it has to be started again.
func (d *daemon) run() bool {
	d.mu.Lock()
	if d.stop {
		d.mu.Unlock()
		return false
	}
	cmd := d.command()
	out, err := os.OpenFile(d.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err == nil {
		defer out.Close()
		cmd.Stdout, cmd.Stderr = out, out
		err = cmd.Start()
	}
	d.cmd = cmd
	d.mu.Unlock()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", d.name, err)
		return false
	}
	_ = cmd.Wait() // killed, or it could not start yet
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.stop
}

// signal sends a signal to the process. After the last one, it is not started again.
func (d *daemon) signal(sig syscall.Signal, last bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stop = d.stop || last
	if d.cmd != nil && d.cmd.Process != nil {
		_ = d.cmd.Process.Signal(sig)
	}
}

// pid returns the id of the process.
func (d *daemon) pid() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cmd.Process.Pid
}

func (d *daemon) kill() { d.signal(syscall.SIGKILL, false) }

// killFor kills the process, which starts again after a time.
func (d *daemon) killFor(away time.Duration) {
	d.mu.Lock()
	d.away = away
	d.mu.Unlock()
	d.kill()
}

// pauseOnce returns the time of killFor, once.
func (d *daemon) pauseOnce() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	away := d.away
	d.away = 0
	return away
}

// tail returns the end of the output.
func (d *daemon) tail() string {
	text, _ := os.ReadFile(d.log)
	return string(text[max(0, len(text)-4000):])
}

// failures returns the first errors in the log, and what is not of the logger.
func (d *daemon) failures() string {
	var b strings.Builder
	text, _ := os.ReadFile(d.log)
	for line := range strings.Lines(string(text)) {
		if (strings.Contains(line, `"level":"error"`) || !strings.HasPrefix(line, "{")) && b.Len() < 8000 {
			b.WriteString(line)
		}
	}
	return b.String()
}

// eventually repeats an operation until it succeeds or is denied, at most for a time.
func eventually(ctx context.Context, limit time.Duration, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := do(ctx)
		if err == nil || errors.Is(err, errDenied) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %v: %w", limit, err)
		case <-time.After(pause):
		}
	}
}

// processes returns the ids of the processes of a program with these first arguments.
func processes(program string, args ...string) (pids []int) {
	prefix := program + "\x00"
	for _, arg := range args {
		prefix += arg + "\x00"
	}
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		var pid int
		text, err := os.ReadFile(file)
		if _, scanned := fmt.Sscanf(file, "/proc/%d/cmdline", &pid); err == nil && scanned == nil && len(text) >= len(prefix) && string(text[:len(prefix)]) == prefix {
			pids = append(pids, pid)
		}
	}
	return pids
}

// must returns the value of a step that cannot fail on a working machine.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
