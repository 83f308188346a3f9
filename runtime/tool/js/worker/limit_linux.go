package worker

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/seed93082962/agenthost/runtime/tool/js/internal/frame"
)

// ownMemory is the memory of a worker in addition to that of scripts, in bytes: the compiler, the
// warm engines, and the Go heap, which grows by 64 MiB. The kernel limits only the address space,
// of which a Go program reserves more than 1 GiB at its start. That amount is added.
const ownMemory = 256 << 20

// limitProcess limits the memory and the processor time of this process in case a script escapes
// from its engine.
func limitProcess(most frame.Limits) error {
	debug.SetMaxStack(64 << 20)
	debug.SetGCPercent(50)
	has, err := addressSpace()
	if err != nil {
		return fmt.Errorf("read memory of the process: %w", err)
	}

	rlimits := map[int]uint64{unix.RLIMIT_AS: has + uint64(most.Memory)*3 + ownMemory}
	if most.CPU > 0 {
		rlimits[unix.RLIMIT_CPU] = most.CPU
	}

	for what, value := range rlimits {
		if err := unix.Setrlimit(what, &unix.Rlimit{Cur: value, Max: value}); err != nil {
			return fmt.Errorf("limit resource %d: %w", what, err)
		}
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
