package js

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownMemory is the memory of a worker in addition to that of scripts, in bytes: the compiler, the
// warm sandboxes, and the Go heap, which grows by 64 MiB. The kernel limits only the address space,
// of which a Go program reserves more than 1 GiB at its start. That amount is added.
const ownMemory = 256 << 20

// limitProcess limits this process in case a script escapes from its engine: memory, new files and
// sockets, programs with more privileges. Open files remain open.
func limitProcess(most limits) error {
	debug.SetMaxStack(64 << 20)
	debug.SetGCPercent(50)
	has, err := addressSpace()
	if err != nil {
		return fmt.Errorf("read memory of the process: %w", err)
	}
	rlimits := map[int]uint64{
		unix.RLIMIT_AS:     has + uint64(most.Memory)*3 + ownMemory,
		unix.RLIMIT_CORE:   0,
		unix.RLIMIT_FSIZE:  0,
		unix.RLIMIT_NOFILE: 0, // of new ones
	}
	if most.CPU > 0 {
		rlimits[unix.RLIMIT_CPU] = most.CPU
	}
	for what, value := range rlimits {
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: value, Max: value}); err != nil {
			return fmt.Errorf("limit resource %d: %w", what, err)
		}
	}
	// It applies to a thread and its new threads. With cgo, the Go runtime cannot set it for all
	// threads.
	_, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)
	if errno == syscall.ENOTSUP {
		return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	}
	if errno != 0 {
		return fmt.Errorf("give up new privileges: %w", errno)
	}
	return nil
}

func addressSpace() (uint64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) == 0 {
		return 0, errors.New("statm is empty")
	}
	pages, err := strconv.ParseUint(fields[0], 10, 64)
	return pages * uint64(max(os.Getpagesize(), 0)), err
}
