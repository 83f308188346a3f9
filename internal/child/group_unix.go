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

// goneWithin bounds the wait for a killed group: who hangs in the kernel dies when that lets go.
const goneWithin = 250 * time.Millisecond

func attributes(given *syscall.SysProcAttr) *syscall.SysProcAttr {
	attr := syscall.SysProcAttr{}
	if given != nil {
		attr = *given
	}
	attr.Setsid, attr.Setpgid, attr.Pgid = true, false, 0 // the leader of a session leads a group too, and cannot leave it
	dieWithParent(&attr)
	return &attr
}

func (p *Process) terminate() { p.send(unix.SIGTERM) }

func (p *Process) kill() { p.send(unix.SIGKILL) }

// send has no error to tell: a group that is gone needs no signal, and one under another user takes none.
func (p *Process) send(sig unix.Signal) { _ = unix.Kill(-p.PID(), sig) }

// awaitGone waits until nobody lives in the killed group.
func (p *Process) awaitGone() {
	pause := time.Millisecond
	for end := time.Now().Add(goneWithin); time.Now().Before(end) && populated(p.PID()); pause *= 2 {
		time.Sleep(pause) // nothing tells of the end of processes that are not one's children
	}
}

// SignalName is the name, such as "SIGKILL", of the signal that ended the child of which err was answered; otherwise "".
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
