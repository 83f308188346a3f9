package launch

import (
	"errors"
	"syscall"
	"unsafe"
)

// first is process 1 of the namespace of the processes of a command. The command is process 2,
// whose parent, the launcher, is outside. So a signal can end it, and the launcher needs not start
// its own program again as process 1.
type first struct {
	pid  int
	life int // a socket, which process 1 reads until the launcher closes it or ends
}

// start creates the namespace, in which the next child of this thread is process 1, and later ones
// are other processes. Process 1 mounts the processes of the namespace at target.
func (f *first) start(target string) error {
	if err := syscall.Unshare(syscall.CLONE_NEWPID); err != nil {
		return err
	}

	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}

	name, err := syscall.BytePtrFromString(target)
	if err != nil {
		return err
	}

	f.life = pair[0]
	pid, errno := forkFirst(name, uintptr(pair[1]))
	if errno != 0 {
		return errno
	}

	f.pid = int(pid)
	if err := syscall.Close(pair[1]); err != nil {
		return err
	}

	var mounted [1]byte
	if n, err := syscall.Read(f.life, mounted[:]); err != nil || n == 0 {
		return wrap("start process 1", syscall.ECHILD)
	}

	return failed(syscall.Errno(mounted[0]))
}

// end ends process 1, and waits until all processes of its namespace have ended.
func (f *first) end() {
	_ = syscall.Close(f.life)
	for {
		if _, err := syscall.Wait4(f.pid, nil, 0, nil); !errors.Is(err, syscall.EINTR) {
			return // with ECHILD, it had ended before the command
		}
	}
}

// forkFirst forks process 1, which ends when all ends of the other socket are closed. After fork,
// the Go runtime has only one thread, and locks of the others may be held. So process 1 only makes
// system calls, on its present stack. It blocks all signals: their handlers are those of the Go
// runtime. It ignores SIGCHLD, so that orphans leave no zombies.
//
//go:norace
//go:noinline
func forkFirst(target *byte, life uintptr) (uintptr, syscall.Errno) {
	var (
		kind    = [...]byte{'p', 'r', 'o', 'c', 0}
		all     = ^uint64(0)
		former  uint64
		ignore  = handler{action: handlerIgnore}
		header  = capabilityHeader{version: capabilityVersion}
		none    [6]uint32
		errno   syscall.Errno
		result  byte
		pid     uintptr
		forking syscall.Errno
	)
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, signalSetMask, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&former)), 8, 0, 0)
	pid, _, forking = syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if pid != 0 || forking != 0 {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, signalSetMask, uintptr(unsafe.Pointer(&former)), 0, 8, 0, 0)
		return pid, forking
	}

	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGCHLD), uintptr(unsafe.Pointer(&ignore)), 0, 8, 0, 0)
	_, _, errno = syscall.RawSyscall6(syscall.SYS_MOUNT, uintptr(unsafe.Pointer(&kind)), uintptr(unsafe.Pointer(target)), uintptr(unsafe.Pointer(&kind)), processFlags, 0, 0)
	_, _, _ = syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none)), 0)
	_, _, _ = syscall.RawSyscall(syscall.SYS_DUP3, life, 0, 0)
	_, _, _ = syscall.RawSyscall(callCloseRange, 1, 1<<31-1, 0) // also its copy of the end of the launcher
	result = byte(errno)
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, 0, uintptr(unsafe.Pointer(&result)), 1)
	_, _, _ = syscall.RawSyscall(syscall.SYS_READ, 0, uintptr(unsafe.Pointer(&result)), 1) // until the end of the launcher
	for {
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
}
