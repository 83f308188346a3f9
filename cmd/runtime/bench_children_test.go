package main_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"
)

// child is a server in a process of its own.
type child struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout io.ReadCloser
	addr   string
}

var address = regexp.MustCompile(`http://(127\.0\.0\.1:\d+)`)

// startChild starts a server on the given cores and waits until it has said where it listens.
func startChild(b *testing.B, on *cpuSet, env []string, name string, args ...string) *child {
	b.Helper()
	cmd := exec.Command(name, args...)
	// Nothing of this process's environment: no proxy, no GOGC, no key.
	cmd.Env = append([]string{"HOME=" + os.TempDir()}, env...)
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

// stop ends the child, also in the middle of what it does.
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

// startRole starts this binary again as something else.
func startRole(b *testing.B, on *cpuSet, role string, env ...string) *child {
	b.Helper()
	return startChild(b, on, append(env, roleVariable+"="+role), os.Args[0])
}

// startUpstream starts a model that gives the answer of that name, see [answers], to all.
func startUpstream(b *testing.B, c *cores, answer string) *child {
	b.Helper()
	up := startRole(b, &c.others, "upstream", answerVariable+"="+answer)
	b.Cleanup(up.stop)
	return up
}

// command is the command as it is shipped, built once for all benchmarks.
var command = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "agenthost-bench-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "runtime")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return path, fmt.Errorf("build command: %w\n%s", err, out)
	}
	built = dir
	return path, nil
})

var built string // the directory of command, once it was made

func removeCommand() {
	if built != "" {
		_ = os.RemoveAll(built)
	}
}

const agentsYAML = `
limits:
  maxConcurrentRuns: 5000
agents:
  - id: anthropic
    model: modeltest
    provider: {protocol: anthropic, baseUrl: "http://%[1]s", apiKey: key}
  - id: openai
    model: modeltest
    provider: {protocol: openai, baseUrl: "http://%[1]s/v1", apiKey: key}
`

// startRuntime starts the command with an agent for each protocol.
func startRuntime(b *testing.B, on *cpuSet, upstream string) *child {
	b.Helper()
	path, err := command()
	if err != nil {
		b.Fatal(err)
	}
	config := filepath.Join(b.TempDir(), "agents.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, agentsYAML, upstream), 0o600); err != nil {
		b.Fatal(err)
	}
	return startChild(b, on, nil, path, "--config", config, "--addr", "127.0.0.1:0")
}
