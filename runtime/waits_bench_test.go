package runtime_test

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model"
	demomodel "github.com/seed93082962/agenthost/runtime/model/demo"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// waitingBench is a runtime in this process, with sessions on disk and a tool that reports when it
// starts.
func waitingBench(b *testing.B, mode string) (rt *runtime.Runtime, state string, started chan time.Time) {
	b.Helper()
	state, started = b.TempDir(), make(chan time.Time, 1)
	cwd := b.TempDir()
	files, err := session.NewFiles(session.FilesConfig{Dir: state, CWD: cwd})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, files.Close()) })
	mark := tool.New(tool.Spec{Name: "mark"}, func(context.Context, tool.Call) (tool.Result, error) {
		started <- time.Now()
		return tool.Result{Output: "marked"}, nil
	})
	rt, err = runtime.New(b.Context(), runtime.Config{
		Agents:   []agent.Agent{{ID: "helper", Model: "m", PermissionMode: mode, Provider: agent.Provider{Protocol: agent.ProtocolDemo}}},
		Tools:    []tool.Tool{mark},
		CWD:      cwd,
		Sessions: files,
		NewModel: func(agent.Provider) (model.Model, error) { return demomodel.New(0), nil },
	})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, rt.Close()) })
	return rt, state, started
}

func lastResult(b *testing.B, rt *runtime.Runtime, req wire.RunRequest) *wire.Result {
	b.Helper()
	req.Stream = wire.StreamOff
	var last *wire.Result
	for ev, err := range rt.Run(b.Context(), "helper", req) {
		require.NoError(b, err)
		if p, ok := ev.Payload.(*wire.Result); ok {
			last = p
		}
	}
	require.False(b, last.IsError)
	return last
}

// BenchmarkStartOfTheTool measures the time from a request to the start of the tool: of a message
// to a model without delays, and of an answer, which is on disk before.
func BenchmarkStartOfTheTool(b *testing.B) {
	ask := wire.RunRequest{Message: "/tool mark {}", Inputs: []string{"approval"}}
	for name, mode := range map[string]string{"message": "bypassPermissions", "answer": "default"} {
		b.Run(name, func(b *testing.B) {
			rt, _, started := waitingBench(b, mode)
			var sum time.Duration
			for b.Loop() {
				req := ask
				if name == "answer" {
					waits := lastResult(b, rt, ask)
					req = wire.RunRequest{SessionID: &waits.SessionID, Answers: []wire.Answer{{ID: waits.Pending[0].ID, Decision: "approve"}}}
				}
				begin := time.Now()
				lastResult(b, rt, req)
				sum += (<-started).Sub(begin)
			}
			b.ReportMetric(float64(sum.Microseconds())/float64(b.N), "µs/start")
		})
	}
}

// BenchmarkSessionsThatWait measures what a session that waits takes on disk, in memory, and in
// goroutines, next to one that does not.
func BenchmarkSessionsThatWait(b *testing.B) {
	for name, mode := range map[string]string{"ended": "bypassPermissions", "waiting": "default"} {
		b.Run(name, func(b *testing.B) {
			rt, state, started := waitingBench(b, mode)
			goroutines, heap := measured()
			for i := 0; b.Loop(); i++ {
				lastResult(b, rt, wire.RunRequest{Message: fmt.Sprintf(`/tool mark {"number":%d}`, i), Inputs: []string{"approval"}})
				if name == "ended" {
					<-started
				}
			}
			after, heapAfter := measured()
			var disk int64
			require.NoError(b, filepath.WalkDir(state, func(_ string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				info, err := d.Info()
				disk += info.Size()
				return err
			}))
			b.ReportMetric(float64(disk)/float64(b.N), "diskB/session")
			b.ReportMetric((float64(heapAfter)-float64(heap))/float64(b.N), "heapB/session")
			b.ReportMetric(float64(after-goroutines), "goroutines")
		})
	}
}
