package chat_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// process is a role of a benchmark.
type process struct {
	b   testing.TB
	pid int
	url string
	in  io.WriteCloser
	out *bufio.Reader
}

func startRole(b testing.TB, role, target, database string) *process {
	b.Helper()
	return startOn(b, "", role, target, database)
}

// startOn starts a process on one core, which is a certain one unless core is "".
func startOn(b testing.TB, core, role, target, database string) *process {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	if core != "" {
		cmd = exec.Command("taskset", "-c", core, os.Args[0])
	}
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", roleVariable+"="+role, "CHAT_BENCH_TARGET="+target, "CHAT_BENCH_DATABASE="+database)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	p := &process{b, cmd.Process.Pid, "", in, bufio.NewReader(out)}
	p.url = p.line()
	return p
}

func (p *process) line() string {
	line, err := p.out.ReadString('\n')
	require.NoError(p.b, err)
	return strings.TrimSpace(line)
}

// cpu returns the CPU time in clock ticks of 10 ms.
func (p *process) cpu() time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	require.NoError(p.b, err)
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+2:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// memory returns the live memory in KiB.
func (p *process) memory() float64 {
	_, err := io.WriteString(p.in, "\n")
	require.NoError(p.b, err)
	kib, err := strconv.Atoi(p.line())
	require.NoError(p.b, err)
	return float64(kib)
}

// resident returns the resident memory in KiB.
func (p *process) resident() int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.pid))
	require.NoError(p.b, err)
	pages, err := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	require.NoError(p.b, err)
	return pages * int64(os.Getpagesize()) >> 10
}
