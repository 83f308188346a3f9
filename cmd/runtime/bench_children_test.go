package main_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// child is a server in a separate process.
type child struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout io.ReadCloser
	addr   string
}

var address = regexp.MustCompile(`http://(127\.0\.0\.1:\d+)`)

// startChild starts a server on the given cores and waits until it has printed its address.
func startChild(b *testing.B, on *cpuSet, env []string, name string, args ...string) *child {
	b.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = env // nothing of this process's environment: no proxy, no GOGC, no key
	endWithParent(cmd)
	c := &child{cmd: cmd}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	c.stdin = stdin
	if c.stdout, err = cmd.StdoutPipe(); err != nil {
		b.Fatal(err)
	}
	if err := onCores(on, cmd.Start); err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewScanner(c.stdout)
	for c.addr == "" && lines.Scan() {
		if m := address.FindStringSubmatch(lines.Text()); m != nil {
			c.addr = m[1]
		}
	}
	if c.addr == "" {
		_ = cmd.Process.Kill()
		b.Fatalf("%v (%s=%v) ended without an address: %v", cmd.Args, roleVariable, env, cmd.Wait())
	}
	return c
}

// stop ends the child, even if it is busy.
func (c *child) stop() {
	_ = c.cmd.Process.Kill()
	_ = c.stdin.Close()
	_ = c.cmd.Wait()
}

func (c *child) cpu(b *testing.B) time.Duration {
	b.Helper()
	d, err := cpuTime(c.cmd.Process.Pid)
	if err != nil {
		b.Fatal(err)
	}
	return d
}

func (c *child) memory(b *testing.B) float64 {
	b.Helper()
	kib, err := residentKiB(c.cmd.Process.Pid)
	if err != nil {
		b.Fatal(err)
	}
	return kib
}

// startRole starts this binary in another role.
func startRole(b *testing.B, on *cpuSet, role string, env ...string) *child {
	b.Helper()
	// It is killed at the end and does not remove the files of its TestMain.
	env = append(env, roleVariable+"="+role, "TMPDIR="+b.TempDir())
	return startChild(b, on, env, os.Args[0], "-test.run=^TestRole$")
}

// bench has the common parts of all servers of a benchmark.
type bench struct {
	cores    *cores
	upstream *child
	command  string // the runtime as it is released
}

// newBench builds the runtime and starts a model that gives every request the same one of
// [upstreamReplies].
func newBench(b *testing.B, answer string) *bench {
	b.Helper()
	command, err := binary()
	if err != nil {
		b.Fatal(err)
	}
	t := &bench{command: command}
	t.cores = splitCores(b)
	t.upstream = startRole(b, &t.cores.others, "upstream", answerVariable+"="+answer)
	b.Cleanup(t.upstream.stop)
	return t
}

// agentsYAML has an agent for each protocol whose requests are as small as those of the other
// servers, and one with the default tools: 8 KB per request.
const agentsYAML = `
limits:
  maxConcurrentRuns: 5000
agents:
  - id: anthropic
    model: modeltest
    provider: {protocol: anthropic, baseUrl: "http://%[1]s", apiKey: key}
    allowedTools: []
  - id: openai
    model: modeltest
    provider: {protocol: openai, baseUrl: "http://%[1]s/v1", apiKey: key}
    allowedTools: []
  - id: tools
    model: modeltest
    provider: {protocol: anthropic, baseUrl: "http://%[1]s", apiKey: key}
`

// memoryDir is where Linux stores files in memory.
const memoryDir = "/dev/shm"

// startRuntime starts the runtime with a state directory in memory, because the speed of a disk
// varies: ext4, for example, skips the inodes of recently removed files one by one for minutes.
func startRuntime(b *testing.B, t *bench) *child {
	b.Helper()
	home, err := os.MkdirTemp(memoryDir, "agenthost-bench-") // b.TempDir is on a disk
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(home) })
	return startIn(b, t, home, nil)
}

// startObserved starts it with metrics, traces or both.
func startObserved(metrics, traces bool) func(*testing.B, *bench) *child {
	return func(b *testing.B, t *bench) *child {
		b.Helper()
		var env, args []string
		if metrics {
			args = []string{"--metrics-addr", "127.0.0.1:0"}
		}
		if traces {
			env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + t.upstream.addr}
		}
		home, err := os.MkdirTemp(memoryDir, "agenthost-bench-")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = os.RemoveAll(home) })
		return startIn(b, t, home, env, args...)
	}
}

// startOnDisk starts it with a state directory on the disk of temporary files, which is removed
// after the last benchmark.
func startOnDisk(b *testing.B, t *bench) *child {
	b.Helper()
	home, err := os.MkdirTemp(scratch, "home-") // b.TempDir is removed at once, see above
	if err != nil {
		b.Fatal(err)
	}
	return startIn(b, t, home, nil)
}

func startIn(b *testing.B, t *bench, home string, env []string, args ...string) *child {
	b.Helper()
	config := filepath.Join(b.TempDir(), "agents.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, agentsYAML, t.upstream.addr), 0o600); err != nil {
		b.Fatal(err)
	}
	args = append([]string{"--config", config, "--addr", "127.0.0.1:0"}, args...)
	return startChild(b, &t.cores.server, append(env, "HOME="+home), t.command, args...)
}
