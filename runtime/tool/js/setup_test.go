package js_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/tool/js"
	"github.com/seed93082962/agenthost/runtime/tool/js/worker"
)

// Most workers of these tests are the program in testdata/worker; some are the test binary.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == js.WorkerArg {
		if err := worker.Run(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 1 && modes[os.Args[1]] != nil {
		if err := modes[os.Args[1]](os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(programs)
		os.Exit(code)
	}))
}

// modes are what the test binary does instead of the tests, by its first argument.
var modes = map[string]func(args []string) error{hostArg: hostForOrphans, withoutSeccompArg: workWithoutSeccomp}

const withoutSeccompArg = "worker-without-seccomp"

// workerProgram builds a worker without the race detector, once, below a directory that TestMain
// removes.
var workerProgram = sync.OnceValue(func() string {
	program := filepath.Join(programs, "worker")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", program, "./testdata/worker")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("build worker: %v\n%s", err, out))
	}
	return program
})

var programs = filepath.Join(os.TempDir(), fmt.Sprintf("js-test-%d", os.Getpid()))

// patience bounds the time that a test waits for an expected event. It is long because the machine
// may be busy.
const patience = 2 * time.Minute

func newHost(t testing.TB, cfg js.Config) *js.Host {
	t.Helper()
	if cfg.Command == nil {
		cfg.Command = []string{workerProgram()}
	}
	h, err := js.New(cfg)
	require.NoError(t, err)
	h.SetLimits(patience, patience, patience, patience)
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	return h
}

// write writes the file of a tool.
func write(t testing.TB, name, source string) agent.CustomTool {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(source), 0o600))
	return agent.CustomTool{Path: path}
}

func load(t testing.TB, h *js.Host, source string) tool.Tool {
	t.Helper()
	loaded, err := h.Load(t.Context(), write(t, "subject.ts", source))
	require.NoError(t, err)
	return loaded
}

// body returns the file of a tool whose call() has the given body.
func body(code string) string {
	return `export default {name: "subject", description: "For tests.", async call(input: any, context: any) {` + code + `}}`
}

func call(t testing.TB, subject tool.Tool, input string) tool.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result, err := subject.Call(ctx, tool.Call{ID: "1", Input: json.RawMessage(input), RunID: "run-1", SessionID: "session-1"})
	require.NoError(t, err)
	return result
}

func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(b)
}
