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

// What a worker may take beside the memory of scripts, in bytes: the compiler, the warm sandboxes, and what the Go heap
// reserves ahead, 64 MiB at a time. A limit on the address space is what the kernel offers; a Go program has more than
// 1 GiB of it reserved when it starts, so that what it has then is added.
const ownMemory = 256 << 20

// limitProcess takes from this process what a script that broke out of its engine would want: memory, files, sockets, new
// programs with more rights. It keeps what is open.
func limitProcess(memory uintptr) error {
	debug.SetMaxStack(64 << 20)
	debug.SetGCPercent(50)
	has, err := addressSpace()
	if err != nil {
		return fmt.Errorf("read own memory: %w", err)
	}
	limits := map[int]uint64{
		unix.RLIMIT_AS:     has + uint64(memory)*3 + ownMemory,
		unix.RLIMIT_CORE:   0,
		unix.RLIMIT_FSIZE:  0,
		unix.RLIMIT_NOFILE: 0, // of new ones
	}
	for what, most := range limits {
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("limit resource %d: %w", what, err)
		}
	}
	// It counts for a thread and those it makes. Where C is linked the Go runtime cannot do it for all that are there.
	_, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)
	if errno == syscall.ENOTSUP {
		return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	}
	if errno != 0 {
		return fmt.Errorf("give up new rights: %w", errno)
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
