package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// cpuTime returns the CPU time of all threads of a process, including those that have ended. The
// clock of the process counts nanoseconds, /proc/PID/stat hundredths of a second.
func cpuTime(pid int) (time.Duration, error) {
	const sched = 2 // CPUCLOCK_SCHED: bits 0 to 2 of a clock id, above them the complement of the process id
	clock := ^pid<<3 | sched
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, uintptr(clock), uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return 0, fmt.Errorf("read cpu clock of process %d: %w", pid, errno)
	}
	return time.Duration(ts.Nano()), nil
}

// residentKiB returns the resident memory of a process. smaps_rollup counts pages; VmRSS can be
// behind by 64 pages per thread.
func residentKiB(pid int) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "Rss:" {
			return strconv.ParseFloat(fields[1], 64)
		}
	}
	return 0, fmt.Errorf("read memory of process %d: no Rss", pid)
}

// cpuSet is the set of cores of sched_setaffinity(2), for at most 1024 cores.
type cpuSet [16]uint64

func (s *cpuSet) call(number uintptr, tid int) error {
	if _, _, errno := syscall.RawSyscall(number, uintptr(tid), unsafe.Sizeof(*s), uintptr(unsafe.Pointer(s))); errno != 0 {
		return fmt.Errorf("set or read cores of thread %d: %w", tid, errno)
	}
	return nil
}

// onCores runs f on a thread that is bound to these cores, which processes inherit.
func onCores(s *cpuSet, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before cpuSet
	if err := before.call(syscall.SYS_SCHED_GETAFFINITY, 0); err != nil {
		return err
	}
	if err := s.call(syscall.SYS_SCHED_SETAFFINITY, 0); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	return before.call(syscall.SYS_SCHED_SETAFFINITY, 0)
}

// The cores are divided: the last one is for the measured server, the others for the load and the
// upstream. On a machine with one core both are the same.
type cores struct{ server, others cpuSet }

// splitCores binds this process to the other cores until the benchmark ends.
func splitCores(b *testing.B) *cores {
	b.Helper()
	var all cpuSet
	if err := all.call(syscall.SYS_SCHED_GETAFFINITY, 0); err != nil {
		b.Fatal(err)
	}
	c := &cores{others: all}
	last, n := 0, 0
	for i := range len(all) * 64 {
		if all[i/64]>>(i%64)&1 == 1 {
			last, n = i, n+1
		}
	}
	c.server[last/64] = 1 << (last % 64)
	if n > 1 {
		c.others[last/64] &^= c.server[last/64]
	}
	bind(b, &c.others)
	b.Cleanup(func() { bind(b, &all) })
	return c
}

// bind moves every thread of this process. New threads inherit the cores.
func bind(b *testing.B, s *cpuSet) {
	b.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		b.Fatal(err)
	}
	for _, thread := range threads {
		tid, err := strconv.Atoi(thread.Name())
		if err != nil {
			b.Fatal(err)
		}
		if err := s.call(syscall.SYS_SCHED_SETAFFINITY, tid); err != nil {
			b.Fatal(err)
		}
	}
}

// endWithParent makes the kernel kill a child if this process ends first.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
