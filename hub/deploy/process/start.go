package process

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// start starts the runtime of a configured deployment. The order of the steps leaves no process
// behind if the hub is killed between two of them: the runtime waits until its process is recorded,
// and ends if the hub does before that.
func (d *Driver) start(r revision, s *state, wanted agent.Deployment) error {
	s.reap(r)
	env, err := r.env()
	if err != nil {
		return err
	}

	listener, err := d.reserve(r, s.Addr)
	if err != nil {
		return fmt.Errorf("listen on a loopback port: %w", err)
	}

	port, err := listener.File()
	if err != nil {
		return fmt.Errorf("listen on a loopback port: %w", err)
	}

	defer func() { _ = port.Close() }()
	out, err := r.openLog()
	if err != nil {
		return clean("open log", err)
	}

	defer func() { _ = out.Close() }() // the runtime writes it
	cmd := &exec.Cmd{
		Path:       d.cfg.Command[0],
		Args:       d.cfg.Command,
		Dir:        r.dir,
		Env:        slices.Concat(d.cfg.Env, []string{"HOME=" + r.of.path(homeDir), r.mark()}, env),
		Stdout:     out,
		Stderr:     out,
		ExtraFiles: []*os.File{port}, // agentvalue.DeployedListener
	}
	for name := range d.cfg.Secrets {
		cmd.Env = append(cmd.Env, name+"_FILE="+r.path(secretPrefix+name))
	}

	confirm, err := cmd.StdinPipe()
	if err != nil {
		return err
	}

	started, err := d.confine(r, cmd, wanted)
	if err != nil {
		return err
	}

	err = cmd.Start()
	started()
	if err != nil {
		return clean("start runtime", err)
	}

	s.PID = cmd.Process.Pid
	s.Birth = birth(cmd.Process.Pid)
	s.Addr = listener.Addr().String()
	s.StartedAt = time.Now().UTC().Truncate(time.Microsecond)
	born := s.Birth
	d.exits.Store(r.folder, exit{birth: born, running: true})
	d.waiting.Go(func() { d.wait(cmd, r, born, wanted) })
	if err := r.save(*s); err != nil {
		_ = confirm.Close() // the runtime ends
		return err
	}

	_, _ = io.WriteString(confirm, "\n") // fails if the runtime has ended, which Observe reports
	_ = confirm.Close()
	return nil
}

// exit is how a process ended.
type exit struct {
	birth, note string
	running     bool // it was not waited for yet
}

// wait reaps a process of this hub, whose end is visible to Observe after that.
func (d *Driver) wait(cmd *exec.Cmd, r revision, born string, wanted agent.Deployment) {
	err := cmd.Wait()
	killOrphans(cmd.Process.Pid, born, r.mark())
	d.clear(r, born)
	note := "exit status 0"
	if err != nil {
		note = err.Error()
	}

	if wanted.Memory != "" && strings.Contains(note, "killed") {
		note += ", as if it needed more memory than its limit of " + wanted.Memory
	}

	d.exits.Store(r.folder, exit{birth: born, note: note})
}

// clearWithin bounds the wait for a hub that is frozen in a call.
const clearWithin = 5 * time.Second

// clear kills the processes that one has left, and closes its listener if it was stopped, unless
// the next one was started, which did it.
func (d *Driver) clear(r revision, born string) {
	ctx, cancel := context.WithTimeout(context.Background(), clearWithin)
	defer cancel()
	l, err := d.lock(ctx, filepath.Base(r.of.dir))
	if err != nil {
		return
	}
	defer l.unlock()
	if s, err := r.load(); err == nil && s.Birth == born {
		killLeft(r.mark())
		if !s.StoppedAt.IsZero() {
			d.release(r)
		}
	}
}

// reserve returns the listener of a deployment. It remains open when the runtime crashes, so that
// no other program takes the port before the next runtime has it.
func (d *Driver) reserve(r revision, addr string) (*net.TCPListener, error) {
	if held, ok := d.ports.Load(r.folder); ok {
		if l := held.(*net.TCPListener); l.Addr().String() == addr {
			return l, nil
		}
	}

	d.release(r)
	l, err := listen(addr)
	if err == nil {
		d.ports.Store(r.folder, l)
	}

	return l, err
}

// release closes the listener of a revision that should not run.
func (d *Driver) release(r revision) {
	if held, ok := d.ports.LoadAndDelete(r.folder); ok {
		_ = held.(*net.TCPListener).Close() // it has no other error than of a second call
	}
}

// Close closes the listeners of all deployments. Their runtimes continue.
func (d *Driver) Close() {
	d.ports.Range(func(f, _ any) bool {
		d.release(revision{folder: f.(folder)})
		return true
	})
}

// listen listens on a loopback address, or on another port if it is taken.
func listen(addr string) (*net.TCPListener, error) {
	if addr != "" {
		if at, err := net.ResolveTCPAddr("tcp", addr); err == nil {
			if listener, err := net.ListenTCP("tcp", at); err == nil {
				return listener, nil
			}
		}
	}

	return net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
}

// terminate makes one step to the end of a runtime. The first signal begins to drain it, the second
// one cancels its runs when the patience is over, and then its group is killed. A signal is also
// sent if the step cannot be recorded, as on a full disk.
func (d *Driver) terminate(r revision, s state, patience time.Duration) error {
	now := time.Now()
	over := func(began time.Time, within time.Duration) bool { // a time in the future was stored before the clock was set back
		return now.Sub(began) >= within || now.Before(began)
	}
	switch {
	case s.StoppedAt.IsZero():
		s.StoppedAt = now
	case s.CutAt.IsZero() && over(s.StoppedAt, max(patience, d.cfg.Grace*3/4)):
		s.CutAt = now
	case !s.CutAt.IsZero() && over(s.CutAt, d.cfg.Grace/4):
		signalProcess(s.PID, true)
		killLeft(r.mark())
		return nil
	default:
		return nil
	}

	err := r.save(s)
	signalProcess(s.PID, false)
	return err
}

// Wait waits for the end of all processes that this driver has started. Tests use it after they
// have deleted the deployments.
func (d *Driver) Wait() { d.waiting.Wait() }
