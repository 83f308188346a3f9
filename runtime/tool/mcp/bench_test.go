package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/tool/confine"
)

// BenchmarkCall measures a call of a tool that returns immediately, and the same call through a
// session of the SDK.
func BenchmarkCall(b *testing.B) {
	input := json.RawMessage(`{"text":"hello"}`)
	for _, transport := range []string{"stdio", "http"} {
		b.Run(transport, func(b *testing.B) {
			echo := find(b, newWorld(b).open(carried[transport](b)), "echo")
			b.ReportAllocs()
			for b.Loop() {
				if res, err := echo.Call(context.Background(), tool.Call{Input: input}); err != nil || res.IsError {
					b.Fatal(res, err)
				}
			}
		})
		b.Run(transport+" by the SDK", func(b *testing.B) {
			def := carried[transport](b)
			var by sdk.Transport = &sdk.StreamableClientTransport{Endpoint: def.URL}
			if transport == "stdio" {
				cmd := exec.CommandContext(b.Context(), def.Command, def.Args...)
				cmd.Dir = b.TempDir()
				by = &sdk.CommandTransport{Command: cmd}
			}
			client := sdk.NewClient(&sdk.Implementation{Name: "bench"}, nil)
			session, err := client.Connect(b.Context(), by, &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
			require.NoError(b, err)
			b.Cleanup(func() { session.Close() })
			b.ReportAllocs()
			for b.Loop() {
				res, err := session.CallTool(context.Background(), &sdk.CallToolParams{Name: "echo", Arguments: input})
				if err != nil || res.IsError {
					b.Fatal(res, err)
				}
			}
		})
	}
}

// BenchmarkStart measures the start of a server until its tools are listed, plain and confined
// alternately, and the memory of all its processes.
func BenchmarkStart(b *testing.B) {
	w := newWorld(b)
	boxes, err := confine.New(confine.Config{CWD: w.dir, Dir: b.TempDir()})
	require.NoError(b, err)
	def := stdio(b, "tools")
	def.CWD = "."
	policy := agent.Sandbox{Read: []string{def.Command}}.In(w.dir)
	box, _, err := boxes.Open(policy, nil, []string{"PATH=/usr/bin:/bin"})
	require.NoError(b, err)
	b.Cleanup(box.Close)
	took := map[string][]float64{}
	memory := map[string]int{}
	for b.Loop() {
		for kind, box := range map[string]tool.Confiner{"plain": nil, "confined": box} {
			start := time.Now()
			s, err := w.Open("test", def, agent.Limits{}, box)
			require.NoError(b, err)
			list(b, s)
			took[kind] = append(took[kind], time.Since(start).Seconds()*1000)
			memory[kind] = descendants(b, os.Getpid())
			require.NoError(b, s.Close())
		}
	}
	for kind, times := range took {
		slices.Sort(times)
		b.ReportMetric(times[len(times)/2], kind+"-ms")
		b.ReportMetric(float64(memory[kind])/1024, kind+"-MiB")
	}
}

// descendants returns the resident memory of the descendants of a process in KiB, shared pages
// divided among their users.
func descendants(b *testing.B, pid int) (sum int) {
	children, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	require.NoError(b, err)
	for _, file := range children {
		text, _ := os.ReadFile(file) // the thread may have ended
		for id := range strings.FieldsSeq(string(text)) {
			child, err := strconv.Atoi(id)
			require.NoError(b, err)
			rollup, _ := os.ReadFile("/proc/" + id + "/smaps_rollup")
			_, rest, _ := strings.Cut(string(rollup), "\nPss:")
			var size int
			_, _ = fmt.Sscan(rest, &size)
			sum += size + descendants(b, child)
		}
	}
	return sum
}
