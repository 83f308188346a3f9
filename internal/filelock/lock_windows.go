package filelock

import (
	"errors"
	"math"
	"os"
	"syscall"
	"unsafe"
)

// OpenFlags prevents open from blocking on a FIFO.
const OpenFlags = 0

// Constants of winbase.h and winerror.h.
const (
	lockFileExclusive       = 2
	lockFileFailImmediately = 1
	errorLockViolation      = syscall.Errno(33)
	errorNotLocked          = syscall.Errno(158)
)

var (
	kernel32     = syscall.NewLazyDLL("kernel32.dll")
	lockFileEx   = kernel32.NewProc("LockFileEx")
	unlockFileEx = kernel32.NewProc("UnlockFileEx")
)

// Lock returns ErrLocked if another open file, of this or another process, has a lock.
func Lock(f *os.File) error {
	const how = lockFileExclusive | lockFileFailImmediately
	err := control(f, func(handle uintptr, at *syscall.Overlapped) (uintptr, error) {
		ok, _, err := lockFileEx.Call(handle, how, 0, 1, 0, uintptr(unsafe.Pointer(at)))
		return ok, err
	})
	if errors.Is(err, errorLockViolation) {
		return ErrLocked
	}
	return os.NewSyscallError("LockFileEx", err)
}

// Unlock releases the lock.
func Unlock(f *os.File) error {
	err := control(f, func(handle uintptr, at *syscall.Overlapped) (uintptr, error) {
		ok, _, err := unlockFileEx.Call(handle, 0, 1, 0, uintptr(unsafe.Pointer(at)))
		return ok, err
	})
	if errors.Is(err, errorNotLocked) {
		return nil
	}
	return os.NewSyscallError("UnlockFileEx", err)
}

// control locks or unlocks the byte at the largest file offset. A lock on Windows prevents others
// from reading the locked range, so the range must not contain data.
func control(f *os.File, call func(handle uintptr, at *syscall.Overlapped) (uintptr, error)) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(handle uintptr) {
		at := &syscall.Overlapped{Offset: math.MaxUint32, OffsetHigh: math.MaxInt32}
		if ok, err := call(handle, at); ok == 0 {
			failed = err
		}
	})
	return errors.Join(err, failed)
}
