//go:build unix

package process

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

func supported() error { return nil }

// ownSession makes a process the leader of a session and a group, so that it outlives the hub and
// its terminal.
func ownSession(a *syscall.SysProcAttr) *syscall.SysProcAttr {
	if a == nil {
		a = &syscall.SysProcAttr{}
	}

	a.Setsid = true
	return a
}

// signalProcess requests a runtime to end, or kills it. Its group has the launcher, which ignores
// the request, and the runtime, whose commands have groups of their own. A launcher that begins
// would lose the request, as the first process of a namespace does; there is no run yet.
//
// The first launcher ends by itself when the others are killed: it kills what they leave.
func signalProcess(pid int, kill bool) {
	if !kill && !begins(pid) {
		_ = syscall.Kill(-pid, syscall.SIGTERM) // it fails only if the group has ended
		return
	}

	if !kill || !killMembers(pid) {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
}

// openRegular opens a regular file. It does not follow a link, and does not wait for the other end
// of a pipe.
func openRegular(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENXIO) || errors.Is(err, syscall.EISDIR) {
		return nil, errIrregular
	}

	if err != nil {
		return nil, err
	}

	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(errIrregular, f.Close())
	}

	return f, nil
}

// openLock opens a file for a lock, and moves anything else at its path away.
func openLock(path string) (*os.File, error) {
	for range 2 {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
		switch {
		case err == nil:
			if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
				return f, nil
			}

			_ = f.Close()
		case errors.Is(err, os.ErrNotExist):
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				return nil, err
			}

			continue
		case errors.Is(err, os.ErrPermission):
			if err := os.Chmod(path, 0o600); err != nil {
				return nil, err
			}

			continue
		case !errors.Is(err, syscall.ELOOP) && !errors.Is(err, syscall.EISDIR) && !errors.Is(err, syscall.ENXIO):
			return nil, err
		}

		if err := os.Rename(path, trashOf(filepath.Dir(filepath.Dir(path)), "lock")); err != nil {
			return nil, err
		}
	}

	return os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
}
