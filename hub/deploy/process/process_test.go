//go:build unix

package process_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
	"github.com/seed93082962/agenthost/hub/deploy/process"
	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime/agent"
)

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "agenthost-process-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(scratch)
		os.Exit(code)
	}), goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

// scratch is the directory of the runtime's executable. It is removed after the tests.
var scratch string

// executable builds the runtime.
var executable = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "runtime")
	build := exec.CommandContext(context.Background(), "go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", path, "github.com/seed93082962/agenthost/cmd/runtime")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build runtime: %w: %s", err, out)
	}
	return path, nil
})

func open(t *testing.T, dir string, change ...func(*process.Config)) *process.Driver {
	t.Helper()
	runtime, err := executable()
	require.NoError(t, err)
	cfg := process.Config{
		Dir: dir, Command: []string{runtime, agentvalue.DeployedArg}, Env: []string{"PATH=" + os.Getenv("PATH")}, Home: os.Getenv("HOME"),
		Users: [2]int{1900000000, 1900000099},
	}
	for _, f := range change {
		f(&cfg)
	}
	d, err := process.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			killAll(t, dir)
		}
		d.Wait()
	})
	require.Empty(t, d.Unconfined())
	return d
}

// killAll kills the runtimes that a failed test has left.
func killAll(t *testing.T, dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "[0-9]*", "state.json"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		var s struct{ PID int }
		if err == nil && json.Unmarshal(text, &s) == nil && s.PID > 1 {
			_ = syscall.Kill(s.PID, syscall.SIGKILL) // an error means that it has ended
		}
	}
}

// pid returns the process of a deployment.
func pid(t *testing.T, dir, key string) int { return pidOf(t, dir, key, 1) }

// pidOf returns the process of a revision.
func pidOf(t *testing.T, dir, key string, revision int64) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, key, strconv.FormatInt(revision, 10), "state.json"))
	require.NoError(t, err)
	var s struct{ PID int }
	require.NoError(t, json.Unmarshal(text, &s))
	return s.PID
}

func TestDriver(t *testing.T) {
	deploytest.Suite(t, func(t *testing.T) deploytest.Harness {
		dir := filepath.Join(t.TempDir(), "deployments")
		return deploytest.Harness{
			Driver: func(t *testing.T) deploy.Driver {
				return open(t, dir, func(c *process.Config) { c.Grace = 2 * time.Second })
			},
			Kill: func(t *testing.T, ref deploy.Ref, revision int64) {
				require.NoError(t, syscall.Kill(pidOf(t, dir, ref.Key+"."+ref.UID, revision), syscall.SIGKILL))
			},
		}
	})
}

const key = "default-helper"

var (
	ref    = deploy.Ref{Key: key}
	demand = deploy.Request{
		Key: key, AgentID: "helper", Config: agent.Agent{Model: "demo", Provider: agent.Provider{Protocol: agent.ProtocolDemo}},
		Env: map[string]agent.Secret{"AGENT_HTTP_API_KEY": "planted-key"},
	}
)

// absent is the phase of no runtime.
const absent deploy.Phase = ""

// until waits for a phase of the last runtime.
func until(t *testing.T, d deploy.Driver, phase deploy.Phase, call func() error) (r deploy.Runtime) {
	t.Helper()
	require.Eventually(t, func() bool {
		o, err := d.Observe(t.Context(), ref)
		require.NoError(t, err)
		if r = (deploy.Runtime{}); len(o.Runtimes) > 0 {
			r = o.Runtimes[len(o.Runtimes)-1]
		}
		if r.Phase != phase && call != nil {
			require.NoError(t, call())
		}
		return r.Phase == phase
	}, 30*time.Second, 5*time.Millisecond, "%v", phase)
	return r
}

func remove(t *testing.T, d deploy.Driver) {
	t.Helper()
	until(t, d, absent, func() error { return d.Delete(t.Context(), ref) })
}

func TestFilesArePrivateAndArgumentsHaveNoSecret(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "deployments")
	d := open(t, dir)
	req := demand
	req.Config.MCPServers = map[string]agent.MCPServer{"x": {Transport: "http", URL: "http://127.0.0.1:1", Headers: map[string]agent.Secret{"X": "planted-header"}}}
	require.NoError(t, d.Apply(t.Context(), ref, 1, req))
	require.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		others := os.FileMode(0o077)
		if info.Sys().(*syscall.Stat_t).Gid == 1900000000 { // the user of the deployment has this group
			others = 0o027
		}
		require.Zero(t, info.Mode().Perm()&others, path)
		return nil
	}))
	args, err := os.ReadFile("/proc/" + strconv.Itoa(pid(t, dir, key)) + "/cmdline")
	require.NoError(t, err)
	require.NotContains(t, string(args), "planted")
	remove(t, d)
	require.NoDirExists(t, filepath.Join(dir, key))
}

func TestTakenPortIsReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, dir)
	require.NoError(t, d.Apply(t.Context(), ref, 1, demand))
	first := until(t, d, deploy.Running, nil)
	until(t, d, deploy.Stopped, func() error { return d.Stop(t.Context(), ref, 1, 0) })
	taken := listen(t, first.URL)
	require.NoError(t, d.Apply(t.Context(), ref, 1, demand))
	second := until(t, d, deploy.Running, nil)
	require.NotEqual(t, first.URL, second.URL)
	taken()
	for tries, before := 1, ""; before != second.URL; tries++ {
		require.Less(t, tries, 10, "the address remains, unless another program takes the port meanwhile")
		before = second.URL
		until(t, d, deploy.Stopped, func() error { return d.Stop(t.Context(), ref, 1, 0) })
		require.NoError(t, d.Apply(t.Context(), ref, 1, demand))
		second = until(t, d, deploy.Running, nil)
	}
	remove(t, d)
}

func TestStubbornRuntimeIsKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, dir, func(c *process.Config) {
		c.Command, c.Grace = []string{"/bin/sh", "-c", "trap '' TERM; sleep 600 & echo ready; wait; wait"}, 200*time.Millisecond
	})
	require.NoError(t, d.Apply(t.Context(), ref, 1, demand))
	require.Eventually(t, func() bool {
		lines, err := d.Logs(t.Context(), ref, 1, 1)
		return err == nil && len(lines) == 1 && lines[0] == "ready"
	}, 30*time.Second, 20*time.Millisecond)
	group := pid(t, dir, key)
	remove(t, d)
	require.Eventually(t, func() bool { return populated(group) == 0 }, 30*time.Second, 20*time.Millisecond)
}

// A runtime starts commands in sessions of their own, and may be killed before it ends them.
func TestNoCommandOutlivesItsRuntime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	seconds := "6" + strconv.Itoa(os.Getpid())
	d := open(t, dir, func(c *process.Config) {
		c.Command = []string{"/bin/sh", "-c", "setsid sh -c 'sleep " + seconds + "; :' & wait; wait"}
	})
	require.NoError(t, d.Apply(t.Context(), ref, 1, demand))
	sleeping := func() bool {
		commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
		require.NoError(t, err)
		for _, file := range commands {
			if text, err := os.ReadFile(file); err == nil && string(text) == "sleep\x00"+seconds+"\x00" {
				return true
			}
		}
		return false
	}
	require.Eventually(t, sleeping, 30*time.Second, 20*time.Millisecond)
	require.NoError(t, syscall.Kill(pid(t, dir, key), syscall.SIGKILL))
	until(t, d, deploy.Exited, nil)
	require.Eventually(t, func() bool { return !sleeping() }, 30*time.Second, 20*time.Millisecond)
	remove(t, d)
}

// The log of a runtime that runs, or ends each time that it is started, has two parts of MaxLog.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]string{"running": "sleep 600", "ended": "exit 1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := open(t, dir, func(c *process.Config) {
				c.Command, c.MaxLog = []string{"/bin/sh", "-c", "read x; i=0; while [ $i -lt 500 ]; do echo line $i; i=$((i+1)); done; " + end}, 1<<10
			})
			for range 2 {
				require.NoError(t, d.Apply(t.Context(), ref, 1, demand))
				if name == "ended" {
					until(t, d, deploy.Exited, nil)
				}
				size := func(part string) int64 {
					info, err := os.Stat(filepath.Join(dir, key, "1", part))
					if err != nil {
						return -1
					}
					return info.Size()
				}
				require.Eventually(t, func() bool {
					_, err := d.Observe(t.Context(), ref)
					require.NoError(t, err)
					return size("log") < 1<<10 && size("log.1") >= 0
				}, 30*time.Second, 20*time.Millisecond)
				require.LessOrEqual(t, size("log.1"), int64(1<<10))
			}
			remove(t, d)
		})
	}
}

// All hubs observe a deployment at the same time. None of them loses its log, or listens in place
// of its runtime.
func TestManyHubsObserve(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hubs := make([]*process.Driver, 4)
	for i := range hubs {
		hubs[i] = open(t, dir, func(c *process.Config) {
			c.Command, c.MaxLog = []string{"/bin/sh", "-c", "read x; sleep 600"}, 64<<10
		})
		t.Cleanup(hubs[i].Close)
	}
	d := hubs[0]
	require.NoError(t, d.Apply(t.Context(), ref, 1, demand))
	running := until(t, d, deploy.Running, nil)
	runtime := pid(t, dir, key)
	defer func() { _ = syscall.Kill(runtime, syscall.SIGKILL) }() // otherwise a failed test would wait for it
	for n := range 10 {
		text := strings.Repeat(strconv.Itoa(n), 64<<10)
		require.NoError(t, os.WriteFile(filepath.Join(dir, key, "1", "log"), []byte(text), 0o600))
		var all sync.WaitGroup
		for _, hub := range append(hubs, hubs...) {
			all.Go(func() { _, _ = hub.Observe(t.Context(), ref) })
		}
		all.Wait()
		require.Eventually(t, func() bool { // a call that finds the deployment busy leaves it to a later one
			_, _ = d.Observe(t.Context(), ref)
			older, err := os.ReadFile(filepath.Join(dir, key, "1", "log.1"))
			return err == nil && string(older) == text
		}, time.Minute, 20*time.Millisecond)
	}
	d.Close()
	require.NoError(t, syscall.Kill(runtime, syscall.SIGKILL))
	for _, hub := range hubs {
		until(t, hub, deploy.Exited, nil)
	}
	listen(t, running.URL)()
	remove(t, d)
}

// The end of a runtime is observed, and is not an error of Apply, also if the runtime ends while
// its process is recorded.
func TestRuntimesThatEndAtOnce(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir(), func(c *process.Config) { c.Command = []string{"/bin/sh", "-c", "exit 3"} })
	results := make(chan error, 32)
	for n := range 32 {
		go func() {
			var err error
			for number := range int64(4) {
				err = errors.Join(err, d.Apply(t.Context(), deploy.Ref{Key: fmt.Sprint("key", n)}, number+1, demand))
			}
			results <- err
		}()
	}
	for range 32 {
		require.NoError(t, <-results)
	}
	require.NoError(t, d.Apply(t.Context(), ref, 1, demand))
	require.Equal(t, "exit status 3", until(t, d, deploy.Exited, nil).Message)
}

func TestFailedDownloadIsTheReason(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	req := demand
	req.CustomTools = []agent.CustomTool{{Name: "count", URL: "http://127.0.0.1:1/count.ts?signature=planted", Hash: "sha256:" + strings.Repeat("0", 64), FileName: "count.ts"}}
	require.NoError(t, d.Apply(t.Context(), ref, 1, req))
	require.Equal(t, "exit status 1", until(t, d, deploy.Exited, nil).Message)
	lines, err := d.Logs(t.Context(), ref, 1, 1)
	require.NoError(t, err)
	require.Contains(t, lines[0], "runtime: agent helper is unavailable: load customTools[0]: ")
	require.NotContains(t, lines[0], "planted")
	remove(t, d)
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	require.NoError(t, d.Apply(t.Context(), ref, 1, demand))
	until(t, d, deploy.Stopped, func() error { return d.Stop(t.Context(), ref, 1, 0) })
	// A file that is too large has the effect of a full disk. The limit is that of this process, so
	// the test is not parallel, and other files are smaller, also that in which go test records opened
	// files.
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 32 << 20, Max: limit.Max}))
	large := demand
	large.Env = map[string]agent.Secret{"LARGE": agent.Secret(strings.Repeat("x", 33<<20))}
	err := d.Apply(t.Context(), ref, 2, large)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	require.EqualError(t, err, "write environment: file too large")
	o, err := d.Observe(t.Context(), ref)
	require.NoError(t, err)
	require.Equal(t, deploy.Stopped, o.Runtime(1).Phase, "the former revision remains")
	require.NoError(t, d.Discard(t.Context(), ref, 2))
	require.NoError(t, d.Apply(t.Context(), ref, 1, demand))
	until(t, d, deploy.Running, nil)
	remove(t, d)
}

func TestKeysThatAreNoNamesAreRejected(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	for _, key := range []string{"", ".", "..", "../x", "a/b", ".locks", "A"} {
		for _, ref := range []deploy.Ref{{Key: key}, {Key: "a", UID: key}} {
			if ref == (deploy.Ref{Key: "a"}) {
				continue
			}
			require.Error(t, d.Apply(t.Context(), ref, 1, demand), key)
			_, err := d.Observe(t.Context(), ref)
			require.Error(t, err, key)
		}
	}
}
