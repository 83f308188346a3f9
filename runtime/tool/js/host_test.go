package js_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/logquota"
	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/tool/js"
)

// noted returns a worker command that writes the id of each worker to a file.
func noted(t testing.TB) (command []string, workers func() []int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "workers")
	return []string{"/bin/sh", "-c", `echo $$ >> "$0"; exec "$@"`, file, workerProgram()}, func() (pids []int) {
		text, err := os.ReadFile(file)
		if !os.IsNotExist(err) {
			require.NoError(t, err)
		}
		for line := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(line)
			require.NoError(t, err)
			pids = append(pids, pid)
		}
		return pids
	}
}

// alive reports whether a process is running and is not a zombie.
func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(text), ") ")
	return err == nil && !strings.HasPrefix(state, "Z")
}

// stopped reports whether all threads of a process are stopped. A signal stops each when it is
// scheduled next: until then a thread can read its input.
func stopped(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	require.NoError(t, err)
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		require.NoError(t, err)
		if _, state, _ := strings.Cut(string(text), ") "); !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return len(threads) > 0
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, patience, time.Millisecond, what)
}

func TestWorkersComeAndGo(t *testing.T) {
	t.Parallel()
	command, workers := noted(t)
	h, err := js.New(js.Config{Command: command, Workers: 2})
	require.NoError(t, err)
	h.SetLimits(patience, patience, patience, patience)
	require.Empty(t, workers(), "nothing is started before it is needed")
	subject := load(t, h, body(`if (input.wait) await new Promise(() => setTimeout(() => {}, 1e6)); return "yes"`))
	eventually(t, "a spare one", func() bool { return len(workers()) == 2 })

	killed := make(chan error, 1)
	go func() {
		_, err := subject.Call(t.Context(), tool.Call{Input: json.RawMessage(`{"wait":true}`)})
		killed <- err
	}()
	var struck []int
	for ended := false; !ended; { // one of them has the call
		struck = workers()
		for _, pid := range struck {
			process, err := os.FindProcess(pid)
			require.NoError(t, err)
			_ = process.Kill()
		}
		select {
		case err := <-killed:
			require.ErrorContains(t, err, "subject has no result: ")
			require.ErrorContains(t, err, "the worker ended: signal: killed")
			ended = true
		case <-time.After(10 * time.Millisecond):
		}
	}
	for _, pid := range struck {
		eventually(t, "what was struck is gone", func() bool { return !alive(pid) })
	}
	require.Equal(t, "yes", call(t, subject, `{}`).Output)
	all := workers()
	require.NoError(t, h.Close())
	for _, pid := range all {
		require.False(t, alive(pid))
	}
	_, err = subject.Call(t.Context(), tool.Call{Input: json.RawMessage(`{}`)})
	require.ErrorIs(t, err, js.ErrClosed)
	_, err = h.Load(t.Context(), write(t, "other.ts", fine))
	require.ErrorIs(t, err, js.ErrClosed)
	require.NoError(t, h.Close())
}

// An idle worker that is killed is replaced, also if it was never used. No call fails.
func TestIdleWorkersAreKilled(t *testing.T) {
	t.Parallel()
	command, workers := noted(t)
	h := newHost(t, js.Config{Command: command, Workers: 2})
	subject := load(t, h, body(`return "yes"`))
	signal := func(pid int, s os.Signal) {
		process, err := os.FindProcess(pid)
		require.NoError(t, err)
		require.NoError(t, process.Signal(s))
	}
	for n := 2; n < 4; n++ {
		eventually(t, "a spare one", func() bool { return len(workers()) == n })
		signal(workers()[n-1], syscall.SIGKILL)
	}
	eventually(t, "another spare one", func() bool { return len(workers()) == 4 })

	living := []int{workers()[0], workers()[3]}
	for _, pid := range living { // they never read their input
		signal(pid, syscall.SIGSTOP)
		eventually(t, "the stop of all its threads", func() bool { return stopped(t, pid) })
	}
	called := make(chan string, 1)
	go func() {
		result, err := subject.Call(t.Context(), tool.Call{Input: json.RawMessage(`{}`)})
		called <- fmt.Sprint(result.Output, err)
	}()
	<-time.After(50 * time.Millisecond) // usually the call waits for its answer now; otherwise its worker is dead before
	for _, pid := range living {
		signal(pid, syscall.SIGKILL)
	}
	require.Equal(t, "yes<nil>", <-called)
}

// Workers that end immediately are not started again and again.
func TestABrokenCommandIsGivenUp(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "starts")
	script := `[ -e "$0" ]; again=$?; echo >> "$0"; [ $again = 0 ] && exit 3; exec "$@"`
	h := newHost(t, js.Config{Command: []string{"/bin/sh", "-c", script, file, workerProgram()}, Workers: 2})
	subject := load(t, h, body(`return "yes"`))
	starts := func() int {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return len(text)
	}
	eventually(t, "some tries", func() bool { return starts() == 5 })
	require.Never(t, func() bool { return starts() > 5 }, 100*time.Millisecond, time.Millisecond)
	eventually(t, "a result from the first worker, which may still load the file in advance", func() bool {
		result, err := subject.Call(t.Context(), tool.Call{Input: json.RawMessage(`{}`)})
		return err == nil && result.Output == "yes"
	})
}

func TestCloseEndsCalls(t *testing.T) {
	t.Parallel()
	h := newHost(t, js.Config{Workers: 1})
	subject := load(t, h, body(`while (true);`))
	ended := make(chan error, 2)
	for range 2 { // one runs, one waits
		go func() {
			_, err := subject.Call(t.Context(), tool.Call{Input: json.RawMessage(`{}`)})
			ended <- err
		}()
	}
	require.NoError(t, h.Close())
	require.Error(t, <-ended)
	require.Error(t, <-ended)
}

// A worker ends with the process of its host, even if that is killed.
func TestNoOrphans(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	def := write(t, "loop.ts", `export default {name: "loop", description: "Loops.", call() { Array.prototype.indexOf.call({length: 2 ** 53 - 1}, 1) }}`)
	command, workers := noted(t)
	middle := exec.Command(self, append([]string{hostArg, def.Path}, command...)...)
	out, err := middle.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, middle.Start())
	line := make([]byte, 8)
	_, err = io.ReadAtLeast(out, line, 3)
	require.NoError(t, err)
	require.NoError(t, middle.Process.Kill())
	_ = middle.Wait()
	require.NotEmpty(t, workers())
	for _, pid := range workers() {
		eventually(t, "the worker ends", func() bool { return !alive(pid) })
	}
}

// hostArg makes the test binary a program that loads and calls the tool at a path, with a worker
// command.
const hostArg = "host-of-the-tests"

func hostForOrphans(args []string) error {
	h, err := js.New(js.Config{Command: args[1:]})
	if err != nil {
		return err
	}
	subject, err := h.Load(context.Background(), agent.CustomTool{Path: args[0]})
	if err != nil {
		return err
	}
	fmt.Println("up")
	_, err = subject.Call(context.Background(), tool.Call{Input: json.RawMessage(`{}`)})
	return err
}

func TestNoWorker(t *testing.T) {
	t.Parallel()
	sh := func(script string) []string { return []string{"/bin/sh", "-c", script} }
	for name, row := range map[string]struct {
		command []string
		want    string
	}{
		"absent":         {[]string{"/nowhere/worker"}, "start worker: "},
		"ends":           {sh("exit 3"), "the worker ended: exit status 3"},
		"ends well":      {sh("exit 0"), "the worker ended"},
		"another answer": {sh("cat"), "malformed frame"},
		"garbage":        {sh("cat > /dev/null & head -c 100000 /dev/zero; wait"), "malformed frame"},
		"text":           {sh("yes"), "malformed frame"},
		"silent":         {sh("exec sleep 1000"), "a.ts did not load in time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, js.Config{Command: row.command})
			limit := patience
			if name == "silent" {
				limit = 300 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			for range 2 {
				_, err := h.Load(ctx, write(t, "a.ts", fine))
				require.ErrorContains(t, err, row.want)
				if ctx.Err() != nil {
					break
				}
			}
		})
	}
	for name, cfg := range map[string]js.Config{
		"memory": {MemoryLimit: 1}, "more memory": {MemoryLimit: 1 << 40}, "output": {MaxOutput: -1}, "workers": {Workers: -1},
	} {
		_, err := js.New(cfg)
		require.Error(t, err, name)
	}
}

func TestCallsWaitTheirTurn(t *testing.T) {
	t.Parallel()
	command, workers := noted(t)
	h := newHost(t, js.Config{Command: command, Workers: 2})
	subject := load(t, h, body(`if (globalThis.seen) throw new Error("not mine"); globalThis.seen = true
		await new Promise(done => setTimeout(done, input.n % 3)); return context.sessionId + input.n`))
	other := load(t, h, wordCount)
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			for n := range 5 {
				input := json.RawMessage(fmt.Sprintf(`{"n":%d,"text":"a b"}`, n))
				result, err := subject.Call(t.Context(), tool.Call{Input: input, SessionID: fmt.Sprintf("s%d-", i)})
				if err != nil || result.Output != fmt.Sprintf("s%d-%d", i, n) {
					t.Error(result, err)
				}
				if result, err = other.Call(t.Context(), tool.Call{Input: input}); err != nil || result.Output != "2" {
					t.Error(result, err)
				}
			}
		})
	}
	group.Wait()
	require.Len(t, workers(), 2)

	loop := load(t, h, body(`while (true);`))
	ctx, cancel := context.WithCancelCause(t.Context())
	for range 2 {
		group.Go(func() {
			_, err := loop.Call(ctx, tool.Call{Input: json.RawMessage(`{}`)})
			if !strings.HasPrefix(err.Error(), "subject was stopped: enough") {
				t.Error(err)
			}
		})
	}
	eventually(t, "both are taken", func() bool {
		soon, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		_, err := other.Call(soon, tool.Call{Input: json.RawMessage(`{}`)})
		return err != nil && strings.Contains(err.Error(), "wait for a worker") || soon.Err() != nil
	})
	cancel(fmt.Errorf("enough"))
	group.Wait()
	require.Equal(t, "2", call(t, other, `{"text":"a b"}`).Output)
}

// Files with the same content are compiled once. Their top level logs once.
func TestAgentsShareFiles(t *testing.T) {
	t.Parallel()
	var logged logtest.Buffer
	h := newHost(t, js.Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	source := "console.warn('compiled', {a: 1}); " + fine
	var group sync.WaitGroup
	for range 50 {
		def := write(t, "fine.ts", source)
		group.Go(func() {
			loaded, err := h.Load(t.Context(), def)
			if err != nil || loaded.Spec().Name != "fine" {
				t.Error(err)
			}
		})
	}
	group.Wait()
	require.Equal(t, 1, strings.Count(logged.String(), `console=warn line="compiled {\"a\":1}"`), logged.String())

	call(t, load(t, h, body(`context.log("from", input, new Error("e")); for (let i = 0; i < 1000; i++) console.log("x".repeat(10000))`)), `{"a":1}`)
	text := logged.String()
	require.Contains(t, text, `line="from {\"a\":1} Error: e"`)
	require.Contains(t, text, "run_id=run-1 session_id=session-1")
	require.Equal(t, 1, strings.Count(text, "a custom tool wrote too much"))
	require.Less(t, len(text), 600_000)

	// The calls of a run share a quota.
	many := load(t, h, body(`for (let i = 0; i < 50; i++) console.log("y".repeat(1000))`))
	quota := logquota.New(64_000)
	for range 3 {
		_, err := many.Call(t.Context(), tool.Call{Input: []byte(`{}`), RunID: "run-2", Log: quota})
		require.NoError(t, err)
	}
	require.Equal(t, 64, strings.Count(logged.String(), strings.Repeat("y", 1000)))
}
