package runtime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

const outOfMemory = `{"error":"Out of memory","reason":"the requests and runs of this runtime together have reached maxMemoryBytes: try again later"}`

// limited serves a runtime with a budget of memory.
func limited(t *testing.T, limit int64, change func(*runtime.Config), replies ...modeltest.Reply) *bench {
	t.Helper()
	return serve(t, modeltest.Start(t, modeltest.Anthropic, replies...), func(c *runtime.Config) {
		c.Limits.MaxMemoryBytes = limit
		if change != nil {
			change(c)
		}
	})
}

// many sends a request n times at once, and returns how often its response has each status. The
// heap grows by at most most bytes while the runs wait.
func (b *bench) many(t *testing.T, n, most int, body string) map[int]int {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	before := heap()
	var mu sync.Mutex
	var all sync.WaitGroup
	statuses := map[int]int{}
	for range n {
		all.Go(func() {
			res := b.request(ctx, t, http.MethodPost, runs, body)
			t.Cleanup(func() { _ = res.Body.Close() })
			mu.Lock()
			defer mu.Unlock()
			statuses[res.StatusCode]++
		})
	}
	all.Wait()
	require.Less(t, heap()-before, most, "%v", statuses)
	leave()
	require.Eventually(t, func() bool { return b.Reserved() == 0 }, time.Minute, time.Millisecond, "everything is released")
	return statuses
}

// The metadata of a run, of whatever shape, is in the budget.
func TestMetadataIsInTheMemoryBudget(t *testing.T) {
	const limit = 32 << 20
	metadata := map[string]string{}
	for i := range 100_000 {
		metadata[fmt.Sprint(i)] = ""
	}
	body, err := json.Marshal(map[string]any{"message": "hello", "metadata": metadata})
	require.NoError(t, err)
	b := limited(t, limit, nil, modeltest.Repeat(modeltest.Stream(modeltest.Text("a"), modeltest.Hang())))
	statuses := b.many(t, 30, 2*limit, string(body))
	require.Positive(t, statuses[http.StatusServiceUnavailable])
	require.Positive(t, statuses[http.StatusOK])
	res := b.do(t, http.MethodPost, runs, `{"message":"hello","timeoutMs":1}`, "Accept", "application/json")
	require.NotEqual(t, http.StatusServiceUnavailable, res.status)
}

// Each run holds a long system prompt, such as one with many skills, while it calls the model.
func TestPromptsAreInTheMemoryBudget(t *testing.T) {
	b := limited(t, 8<<20, func(c *runtime.Config) { c.Agents[0].SystemPrompt = strings.Repeat("x", 1<<20) },
		modeltest.Repeat(modeltest.Stream(modeltest.Text("a"), modeltest.Hang())))
	var mu sync.Mutex
	var all sync.WaitGroup
	faults := map[string]int{}
	for range 12 {
		all.Go(func() {
			_, run := b.blocking(t, `{"message":"hello","timeoutMs":2000}`)
			mu.Lock()
			defer mu.Unlock()
			faults[run.ErrorType]++
		})
	}
	all.Wait()
	require.GreaterOrEqual(t, faults["overloaded"], 8, "each holds almost 2 MiB: %v", faults)
	require.Positive(t, faults["timeout"])
	require.Zero(t, b.Reserved())
}

// The prompt of a subagent of ordinary size is in the budget: a run has many of them.
func TestSubagentsAreInTheMemoryBudget(t *testing.T) {
	const n, size = 8, 100 << 10
	calls := make([]modeltest.Step, n)
	for i := range calls {
		calls[i] = modeltest.ToolCall(fmt.Sprint("t", i), "Task", `{"description":"d","prompt":"p","subagent_type":"s"}`)
	}
	b := limited(t, 8<<20, func(c *runtime.Config) {
		c.Agents[0].AllowedTools = []string{"Task"}
		c.Agents[0].Subagents = map[string]agent.Subagent{"s": {Description: "d", Prompt: strings.Repeat("x", size)}}
	}, modeltest.Stream(calls...), modeltest.Repeat(modeltest.Stream(modeltest.Text("a"), modeltest.Hang())))
	ctx, leave := context.WithCancel(t.Context())
	res := b.request(ctx, t, http.MethodPost, runs, hello)
	require.Eventually(t, func() bool { return b.Reserved() >= n*size }, time.Minute, time.Millisecond)
	leave()
	require.NoError(t, res.Body.Close())
	require.Eventually(t, func() bool { return b.Reserved() == 0 }, time.Minute, time.Millisecond)
}

// A body that is not complete has memory too.
func TestUnfinishedBodiesAreInTheMemoryBudget(t *testing.T) {
	const limit, size = 8 << 20, 3 << 20
	b := limited(t, limit, nil, modeltest.Stream(modeltest.Text("a")))
	var open []net.Conn
	for range 6 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
		require.NoError(t, err)
		open = append(open, conn)
		_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", runs, size+1, strings.Repeat("x", size))
	}
	require.Eventually(t, func() bool { return b.Reserved() > limit-size }, time.Minute, time.Millisecond)
	res := b.do(t, http.MethodPost, runs, `{"message":"`+strings.Repeat("x", size)+`"}`)
	require.Equal(t, http.StatusServiceUnavailable, res.status)
	require.JSONEq(t, outOfMemory, res.body)
	require.NotEmpty(t, res.header.Get("Retry-After"))
	require.LessOrEqual(t, b.Reserved(), int64(limit))
	b.blocking(t, hello) // of ordinary size
	for _, conn := range open {
		require.NoError(t, conn.Close())
	}
	require.Eventually(t, func() bool { return b.Reserved() == 0 }, time.Minute, time.Millisecond)
}

// A session is in the budget before it is read.
func TestSessionsAreInTheMemoryBudget(t *testing.T) {
	store, err := session.NewFiles(session.FilesConfig{Dir: t.TempDir(), CWD: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	b := limited(t, 64<<20, func(c *runtime.Config) { c.Sessions = store },
		modeltest.Stream(modeltest.Text("a")), modeltest.Repeat(modeltest.Stream(modeltest.Text("a"), modeltest.Hang())))
	_, run := b.blocking(t, `{"message":"`+strings.Repeat("x", 3<<20)+`"}`)
	require.Equal(t, wire.StateCompleted, run.State)
	const limit = 8 << 20
	small := limited(t, limit, func(c *runtime.Config) { c.Sessions = store }, modeltest.Stream(modeltest.Text("a")))
	res := small.do(t, http.MethodPost, runs, `{"message":"hello","sessionId":"`+run.SessionID+`"}`)
	require.Equal(t, http.StatusServiceUnavailable, res.status)
	require.JSONEq(t, outOfMemory, res.body)
	require.Zero(t, small.Reserved())
	ended, again := b.blocking(t, `{"message":"hello","timeoutMs":500,"sessionId":"`+run.SessionID+`"}`)
	require.Equal(t, run.SessionID, again.SessionID, ended.body)
	require.Zero(t, b.Reserved())
}

// The results of many calls in one response are in the budget before the calls are made.
func TestToolResultsAreInTheMemoryBudget(t *testing.T) {
	const limit, calls, size = 4 << 20, 200, 90_000
	var steps []modeltest.Step
	for i := range calls {
		steps = append(steps, modeltest.ToolCall(fmt.Sprint("t", i), "large", `{}`))
	}
	var b *bench
	var mu sync.Mutex
	most := int64(0)
	large := tool.New(tool.Spec{Name: "large", ReadOnly: true}, func(context.Context, tool.Call) (tool.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		most = max(most, b.Reserved())
		return tool.Result{Output: strings.Repeat("x", size)}, nil
	})
	b = limited(t, limit, func(c *runtime.Config) {
		c.Tools = []tool.Tool{large}
		c.Agents[0].PermissionMode = "bypassPermissions"
	}, modeltest.Stream(steps...), modeltest.Stream(modeltest.Text("Done.")))
	all := b.open(t.Context(), t, hello).rest()
	made, left := 0, 0
	for _, e := range all {
		if e.name != "tool_result" {
			continue
		}
		switch output := e.data["result"].(map[string]any)["output"].(string); {
		case len(output) == size:
			made++
		case strings.Contains(output, "maxMemoryBytes"):
			left++
		}
	}
	require.Equal(t, calls, made+left)
	require.Greater(t, made, 10)
	require.Less(t, made*2*size, limit+1<<20)
	require.LessOrEqual(t, most, int64(limit))
	require.Zero(t, b.Reserved())
}

// A listing is in the budget as long as its client has not read it.
func TestListingsAreInTheMemoryBudget(t *testing.T) {
	const limit, files = 24 << 20, 25_000
	cwd := t.TempDir()
	for i := range files {
		name := fmt.Sprintf("large/%05d%s", i, strings.Repeat("x", 245))
		writeFile(t, cwd, name, "")
	}
	writeFile(t, cwd, "small/a", "")
	b := limited(t, limit, func(c *runtime.Config) { c.CWD = cwd })
	const large = "/v1/files?path=large"
	for _, path := range []string{large, "/v1/files?recursive=true"} {
		require.Equal(t, http.StatusOK, b.do(t, http.MethodGet, path, "").status)
		require.Zero(t, b.Reserved())
	}
	var open []net.Conn
	for range 2 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
		require.NoError(t, err)
		require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
		open = append(open, conn)
		_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", large)
	}
	require.Eventually(t, func() bool { return b.Reserved() > 18<<20 }, time.Minute, time.Millisecond)
	for _, path := range []string{large, "/v1/files?recursive=true&path=large"} {
		res := b.do(t, http.MethodGet, path, "")
		require.Equal(t, http.StatusServiceUnavailable, res.status)
		require.JSONEq(t, outOfMemory, res.body)
		require.NotEmpty(t, res.header.Get("Retry-After"))
	}
	require.Equal(t, http.StatusOK, b.do(t, http.MethodGet, "/v1/files?path=small", "").status)
	require.LessOrEqual(t, b.Reserved(), int64(limit))
	for _, conn := range open {
		require.NoError(t, conn.Close())
	}
	require.Eventually(t, func() bool { return b.Reserved() == 0 }, time.Minute, time.Millisecond)
}

// The provider has the values of the effort.
func TestAnyEffortIsSent(t *testing.T) {
	up := modeltest.Start(t, modeltest.OpenAI, modeltest.Stream(modeltest.Text("a")))
	b := serve(t, up, func(c *runtime.Config) {
		c.Agents[0].Provider.Protocol = agent.ProtocolOpenAI
		c.Agents[0].Thinking = agent.Thinking{Type: agentvalue.ThinkingAdaptive, Effort: "xhigh"}
	})
	b.blocking(t, hello)
	require.Contains(t, string(up.Requests()[0].Body), `"reasoning_effort":"xhigh"`)
}
