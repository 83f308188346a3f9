package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// workerCalls are the system calls of a Go program that only computes, and communicates through
// open descriptors. Those after rt_sigaction are made by programs with cgo.
var workerCalls = []string{
	"futex", "nanosleep", "read", "write", "epoll_pwait", "epoll_ctl", "close", "pread64",
	"madvise", "munmap", "mincore", "brk", "sched_yield",
	"getpid", "gettid", "clock_gettime", "clock_nanosleep", "getrandom", "restart_syscall", "exit", "exit_group",
	"rt_sigreturn", "rt_sigprocmask", "sigaltstack", "rt_sigaction",
	"set_robust_list", "rseq", "mremap", "membarrier", "gettimeofday",
}

// ConfineWorker confines all threads of the calling process for the rest of its life. It can
// compute, start threads, and use the descriptors 0, 1 and 2 and those that it has opened. It
// cannot open files or sockets, start programs, reach other processes or execute new memory.
// Inherited descriptors are closed. If a restriction fails, the others are in force. The error is
// errors.ErrUnsupported if the kernel has no seccomp.
func ConfineWorker() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	time.AfterFunc(time.Hour, func() {}).Stop() // the Go runtime opens its poller for the first timer
	err := errors.Join(closeInherited(), restrictThreads())
	for _, resource := range []int{unix.RLIMIT_CORE, unix.RLIMIT_FSIZE, unix.RLIMIT_NOFILE} { // of new descriptors
		err = errors.Join(err, os.NewSyscallError("setrlimit", unix.Setrlimit(resource, &unix.Rlimit{})))
	}

	return errors.Join(err, filterThreads())
}

// closeInherited closes the descriptors that this process has not opened: they have no
// close-on-exec flag, because they would not be open otherwise. The Go runtime sets the flag of its
// own ones.
func closeInherited() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}

	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd <= 2 {
			continue
		}

		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}

	return nil
}

// restrictThreads sets no_new_privs and a Landlock ruleset without rules for all threads. Programs
// with cgo cannot do so: there, seccomp sets no_new_privs.
func restrictThreads() error {
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno == unix.ENOTSUP {
		return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	} else if errno != 0 {
		return fmt.Errorf("set no_new_privs: %w", errno)
	}

	abi := kernel.landlock()
	if abi == 0 {
		return nil
	}

	ruleset, err := newRuleset(abi, nil, nil, nil, false)
	if err != nil {
		return err
	}

	defer func() { _ = ruleset.Close() }()
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset.Fd(), 0, 0); errno != 0 {
		return fmt.Errorf("restrict with Landlock: %w", errno)
	}

	return nil
}

// filterThreads installs the filter in all threads.
func filterThreads() error {
	filter, err := newWorkerFilter()
	if err != nil {
		return err
	}

	program := unix.SockFprog{
		Len:    uint16(len(filter) / unix.SizeofSockFilter),    // the kernel checks it
		Filter: (*unix.SockFilter)(unsafe.Pointer(&filter[0])), // the kernel reads it
	}
	thread, _, errno := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program))) // the kernel reads it
	switch {
	case errno == unix.ENOSYS || errno == unix.EINVAL:
		return fmt.Errorf("restrict with seccomp: %w by the kernel: %w", errors.ErrUnsupported, errno)
	case errno != 0:
		return fmt.Errorf("restrict with seccomp: %w", errno)
	case thread != 0: // the call has failed without an error number
		return fmt.Errorf("restrict with seccomp: thread %d has another filter", thread)
	}

	return nil
}

// newWorkerFilter returns the seccomp program of ConfineWorker. Calls that it does not know return
// EPERM, also all calls of other architectures.
func newWorkerFilter() ([]byte, error) {
	info, err := arch.GetInfo("")
	if err != nil {
		return nil, fmt.Errorf("find the architecture: %w", err)
	}

	own := uint64(os.Getpid()) // positive
	allowed := seccomp.SyscallGroup{Action: seccomp.ActionAllow, Names: known(info, workerCalls)}
	for _, call := range []seccomp.NameWithConditions{
		{Name: "mmap", Conditions: seccomp.ArgumentConditions{{Argument: 2, Operation: seccomp.BitsNotSet, Value: unix.PROT_EXEC}}},
		{Name: "mprotect", Conditions: seccomp.ArgumentConditions{{Argument: 2, Operation: seccomp.BitsNotSet, Value: unix.PROT_EXEC}}},
		{Name: "clone", Conditions: seccomp.ArgumentConditions{
			{Argument: 0, Operation: seccomp.BitsSet, Value: unix.CLONE_THREAD}, {Argument: 0, Operation: seccomp.BitsNotSet, Value: newNamespaces},
		}},
		{Name: "tgkill", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.Equal, Value: own}}},
		{Name: "kill", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.Equal, Value: own}}},
		{Name: "sched_getaffinity", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.Equal, Value: 0}}},
		{Name: "prctl", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.Equal, Value: unix.PR_SET_VMA}}},
		{Name: "arch_prctl", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.Equal, Value: archSetFS}}},
	} {
		if len(known(info, []string{call.Name})) > 0 {
			allowed.NamesWithCondtions = append(allowed.NamesWithCondtions, call)
		}
	}

	// The C library starts threads with clone if clone3 does not exist.
	missing := seccomp.SyscallGroup{Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS), Names: known(info, []string{"clone3"})}
	return assemble(seccomp.Policy{DefaultAction: seccomp.ActionErrno, Syscalls: []seccomp.SyscallGroup{allowed, missing}})
}

// archSetFS sets the address of the data of a thread.
const archSetFS = 0x1002
