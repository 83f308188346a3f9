package runtime_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// flood is an upstream that sends a response of any length. The path of the base URL selects it:
// /<kind>/<bytes>. With hold, it waits after hold bytes until gate is closed.
type flood struct {
	hold    int
	gate    chan struct{}
	waiting atomic.Int64
}

func (f *flood) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	parts := strings.Split(r.URL.Path, "/")
	size, err := strconv.Atoi(parts[2])
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, "data: "+format+"\n\n", args...)
		}
	}
	block, delta, chunk := `{"type":"text","text":""}`, `{"type":"text_delta","text":"%s"}`, 64<<10
	switch parts[1] {
	case "thinking":
		block, delta = `{"type":"thinking","thinking":""}`, `{"type":"thinking_delta","thinking":"%s"}`
	case "signature":
		block, delta = `{"type":"thinking","thinking":""}`, `{"type":"signature_delta","signature":"%s"}`
	case "input":
		block, delta = `{"type":"tool_use","id":"t1","name":"x","input":{}}`, `{"type":"input_json_delta","partial_json":"%s"}`
	case "escapes":
		chunk = 32 << 10
	case "large": // events
		chunk = 4 << 20
	case "small":
		chunk = 100
	}
	text := strings.Repeat("x", chunk)
	if parts[1] == "escapes" {
		text = strings.Repeat(`\n`, chunk)
	}
	send(`{"type":"message_start","message":{"usage":{"input_tokens":1,"output_tokens":1}}}`)
	send(`{"type":"content_block_start","index":0,"content_block":` + block + `}`)
	for sent, held := 0, false; sent < size && err == nil; sent += chunk {
		send(`{"type":"content_block_delta","index":0,"delta":`+delta+`}`, text)
		if sent >= f.hold && f.hold > 0 && !held {
			held = true
			_ = http.NewResponseController(w).Flush()
			f.waiting.Add(1)
			select {
			case <-f.gate:
			case <-r.Context().Done():
			}
		}
	}
	send(`{"type":"content_block_stop","index":0}`)
	send(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}`)
	send(`{"type":"message_stop"}`)
}

// flooded returns a runtime with an agent for each path of the upstream.
func flooded(t *testing.T, f *flood, limits agent.Limits, paths ...string) *bench {
	t.Helper()
	up := httptest.NewServer(f)
	t.Cleanup(up.Close)
	return serve(t, nil, func(c *runtime.Config) {
		c.Limits, c.Agents = limits, nil
		for i, path := range paths {
			c.Agents = append(c.Agents, agent.Agent{ID: fmt.Sprintf("a%d", i), Model: "m",
				Provider: agent.Provider{Protocol: agent.ProtocolAnthropic, BaseURL: agent.Secret(up.URL + path), APIKey: "k"}})
		}
	})
}

func (b *bench) complete(t *testing.T, agentID string) wire.RunResponse {
	t.Helper()
	res := b.do(t, "POST", "/v1/agents/"+agentID+"/runs", hello, asJSON...)
	var run wire.RunResponse
	if err := json.Unmarshal([]byte(res.body), &run); err != nil {
		t.Error(err)
	}
	return run
}

func TestResponsesOfAModelAreBounded(t *testing.T) {
	kinds := []string{"text", "thinking", "signature", "input", "escapes", "large", "small"}
	var paths []string
	for _, kind := range kinds {
		paths = append(paths, "/"+kind+"/150000", "/"+kind+"/67108864")
	}
	b := flooded(t, &flood{}, agent.Limits{MaxResponseBytes: 256 << 10}, paths...)
	for i, kind := range kinds {
		fits := b.complete(t, fmt.Sprintf("a%d", 2*i))
		long := b.complete(t, fmt.Sprintf("a%d", 2*i+1))
		if kind != "large" { // its only event is too long
			require.NotContains(t, fits.Error, "exceeds the limit", kind)
		}
		require.Equal(t, wire.StateFailed, long.State, kind)
		require.Equal(t, "server", long.ErrorType, kind)
		require.Equal(t, "the response exceeds the limit of 262144 bytes", long.Error, kind)
	}
}

// Runs with an upstream that sends 64 MiB each end early, with a bounded use of memory.
func TestMemoryOfRunsWithAHostileUpstream(t *testing.T) {
	for _, n := range []int{3, 20} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			const hold = 3 << 18
			f := &flood{hold: hold, gate: make(chan struct{})}
			b := flooded(t, f, agent.Limits{MaxResponseBytes: 1 << 20}, "/text/67108864")
			before := heap()
			var all sync.WaitGroup
			for range n {
				all.Go(func() {
					run := b.complete(t, "a0")
					if run.Error != "the response exceeds the limit of 1048576 bytes" {
						t.Errorf("state %s, error %q", run.State, run.Error)
					}
				})
			}
			require.Eventually(t, func() bool { return f.waiting.Load() == int64(n) }, time.Minute, time.Millisecond)
			require.Eventually(t, func() bool { return heap()-before < n*4*hold+8<<20 }, time.Minute, 10*time.Millisecond,
				"bytes while every response is almost at its limit") // less when the last buffers have grown
			var total goruntime.MemStats
			goruntime.ReadMemStats(&total)
			close(f.gate)
			all.Wait()
			used := total.TotalAlloc
			goruntime.ReadMemStats(&total)
			require.Less(t, int(total.TotalAlloc-used), n*25<<20, "bytes that were ever allocated after that")
			require.Less(t, heap()-before, n*4*hold+8<<20, "the sessions have the beginnings")
		})
	}
}

func heap() int {
	var stats goruntime.MemStats
	goruntime.GC()
	goruntime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

// All runs share one budget. Those of ordinary size do not need it.
func TestMemoryOfAllRunsTogetherIsBounded(t *testing.T) {
	const n = 20
	f := &flood{hold: 3 << 18, gate: make(chan struct{})}
	b := flooded(t, f, agent.Limits{MaxMemoryBytes: 10 << 20}, "/text/1000000", "/small/5000", "/text/500000")
	results := make(chan wire.RunResponse, n)
	for range n {
		go func() { results <- b.complete(t, "a0") }()
	}
	for range n - 2 { // 0.75 MiB count as 3.75
		run := <-results
		require.Equal(t, "overloaded", run.ErrorType)
		require.Equal(t, "the runs of this runtime together use too much memory (maxMemoryBytes): try again later", run.Error)
		require.Less(t, len(run.Text), 1<<20)
	}
	require.Equal(t, wire.StateCompleted, b.complete(t, "a1").State, "a run of ordinary size")
	close(f.gate)
	for range 2 {
		if run := <-results; run.State == wire.StateFailed {
			require.Equal(t, "overloaded", run.ErrorType)
		}
	}
	for range 3 {
		require.Equal(t, wire.StateCompleted, b.complete(t, "a2").State, "everything was released")
	}
	require.Zero(t, b.Reserved())
}
