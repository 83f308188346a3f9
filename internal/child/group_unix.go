//go:build unix

package child

import (
	"cmp"
	"errors"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// goneWithin bounds the wait for a killed group. Its processes end late on a busy machine, and
// after this time if they are blocked in the kernel.
const goneWithin = 2 * time.Second

func attributes(given *syscall.SysProcAttr) *syscall.SysProcAttr {
	attr := syscall.SysProcAttr{}
	if given != nil {
		attr = *given
	}

	attr.Setsid, attr.Setpgid, attr.Pgid = true, false, 0 // the leader of a session also leads a group, and cannot leave it
	dieWithParent(&attr)
	return &attr
}

func (p *Process) terminate() { p.send(unix.SIGTERM) }

func (p *Process) kill() { p.send(unix.SIGKILL) }

// send signals the group. Errors are ignored: the group is empty, or belongs to another user.
func (p *Process) send(sig unix.Signal) { _ = unix.Kill(-p.PID(), sig) }

// awaitGone waits until the killed group is empty.
func (p *Process) awaitGone() {
	pause := time.Millisecond
	for end := time.Now().Add(goneWithin); time.Now().Before(end) && populated(p.PID()); pause *= 2 {
		time.Sleep(pause) // the end of a process that is not a child has no event
	}
}

// SignalName returns the name of the signal, such as "SIGKILL", that ended the child with the given
// Err, or "".
func SignalName(err error) string {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return ""
	}

	status, ok := exit.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return ""
	}

	return cmp.Or(unix.SignalName(status.Signal()), strconv.Itoa(int(status.Signal())))
}
