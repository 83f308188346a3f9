//go:build unix

package process

import (
	"errors"
	"os"
	"syscall"
)

func supported() error { return nil }

// ownSession makes a process the leader of a session and a group, so that it outlives the hub and
// its terminal.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// signalProcess requests a process to end, or kills its group.
func signalProcess(pid int, kill bool) {
	if kill {
		_ = syscall.Kill(-pid, syscall.SIGKILL) // it fails only if the group has ended
		return
	}
	_ = syscall.Kill(pid, syscall.SIGTERM)
}

// killOrphans kills the group of a process that has ended. The id of a group that has members is
// not given to a new process: without a process of this id, the members are those of the group.
func killOrphans(pid int, born string) {
	if now := birth(pid); now == "" || now == born {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
}

// flock locks a file exclusively, and reports whether no other file has the lock.
func flock(f *os.File) (bool, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return false, err
	}
	var locked error
	err = conn.Control(func(fd uintptr) {
		for {
			if locked = syscall.Flock(int(fd), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(locked, syscall.EINTR) {
				return
			}
		}
	})
	if errors.Is(locked, syscall.EWOULDBLOCK) {
		return false, err
	}
	return err == nil && locked == nil, errors.Join(err, os.NewSyscallError("flock", locked))
}
