//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package filelock

import (
	"errors"
	"os"
	"syscall"
)

// OpenFlags prevents open from blocking on a FIFO.
const OpenFlags = syscall.O_NONBLOCK

// Lock returns ErrLocked if another open file, of this or another process, has a lock.
func Lock(f *os.File) error {
	err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}

	return err
}

// Unlock releases the lock.
func Unlock(f *os.File) error { return flock(f, syscall.LOCK_UN) }

func flock(f *os.File, how int) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}

	var locked error
	err = conn.Control(func(fd uintptr) {
		for {
			if locked = syscall.Flock(int(fd), how); !errors.Is(locked, syscall.EINTR) {
				return
			}
		}
	})
	if err != nil {
		return err
	}

	return os.NewSyscallError("flock", locked)
}
