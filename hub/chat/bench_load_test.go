package chat_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/api/apitest"
	"github.com/seed93082962/agenthost/hub/chat"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/db/dbtest"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/sse"
)

// roleVariable makes the test binary a hub or a runtime of a benchmark, so that its CPU time and
// memory can be measured apart from those of the clients.
const roleVariable = "CHAT_BENCH_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := serveRole(role, os.Getenv("CHAT_BENCH_TARGET"), os.Getenv("CHAT_BENCH_DATABASE")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	dbtest.Main(m)
}

// serveRole serves until the standard input is closed. It prints its URL, and then for each line of
// the input how many KiB its live memory has: the heap after a collection, and the stacks.
func serveRole(role, target, database string) error {
	var h http.Handler
	if role == "runtime" {
		rt, err := runtime.New(context.Background(), runtime.Config{CWD: os.TempDir(), Agents: []agent.Agent{{
			ID: "helper", Model: "m", Provider: agent.Provider{Protocol: agent.ProtocolAnthropic, BaseURL: agent.Secret(target), APIKey: "key"},
		}}})
		if err != nil {
			return err
		}
		h = rt
	} else {
		d, err := db.Open(context.Background(), db.Config{URL: database})
		if err != nil {
			return err
		}
		if err := d.Migrate(context.Background(), apitest.Audit(), chat.Migrations); err != nil {
			return err
		}
		audit, err := sqlaudit.New(sqlaudit.Config{Write: d.Write(), Read: d.Read(), Engine: string(d.Engine())})
		if err != nil {
			return err
		}
		s, err := newBench(d, audit, target)
		if err != nil {
			return err
		}
		authenticate := func(r *http.Request) (api.Caller, error) { return ada, nil }
		if h, err = api.New(api.Config{Authenticate: authenticate}, s.Routes()...); err != nil {
			return err
		}
	}
	fmt.Println(httptest.NewServer(h).URL)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var m goruntime.MemStats
		goruntime.GC()
		goruntime.ReadMemStats(&m)
		fmt.Println((m.HeapAlloc + m.StackInuse) >> 10)
	}
	return nil
}

func newBench(d *db.DB, audit chat.Audit, runtimeURL string) (*chat.Service, error) {
	return chat.New(chat.Config{
		UserAnswers: 1000, AgentAnswers: 1000,
		DB: d, Audit: audit, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Agent: func(context.Context, string, string) (bool, error) { return true, nil },
		Endpoint: func(context.Context, string, string) (chat.Endpoint, error) {
			return chat.Endpoint{URL: runtimeURL, AgentID: "helper"}, nil
		},
	})
}

func benchService(b *testing.B, url string) *chat.Service {
	b.Helper()
	d := dbtest.Open(b, url, apitest.Audit(), chat.Migrations)
	s, err := newBench(d, apitest.NewAudit(b, d), "")
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	return s
}

// process is a role of a benchmark.
type process struct {
	b   *testing.B
	pid int
	url string
	in  io.WriteCloser
	out *bufio.Reader
}

func startRole(b *testing.B, role, target, database string) *process {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role, "CHAT_BENCH_TARGET="+target, "CHAT_BENCH_DATABASE="+database)
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

// measured has the times of one answer, from the client.
type measured struct {
	first  time.Duration
	tokens int
	err    error
}

// receive sends a request and reads the answer to its end.
func receive(ctx context.Context, client *http.Client, url, body string) (a measured) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return measured{err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	begin := time.Now()
	res, err := client.Do(req)
	if err != nil {
		return measured{err: err}
	}
	defer res.Body.Close()
	done := false
	for ev, err := range sse.NewDecoder(res.Body).Events() {
		if err != nil {
			return measured{err: err}
		}
		if ev.Type == "partial_message" {
			if a.tokens++; a.tokens == 1 {
				a.first = time.Since(begin)
			}
		}
		done = ev.Type == "done"
	}
	if !done {
		a.err = fmt.Errorf("%d without done", res.StatusCode)
	}
	return a
}

// round runs n chats at once, which begin within a second, and returns the first-token times, and
// the number of tokens.
func round(b *testing.B, urls []string) (first []time.Duration, tokens int) {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: len(urls)}}
	defer client.CloseIdleConnections()
	results := make([]measured, len(urls))
	var running sync.WaitGroup
	for i, url := range urls {
		running.Go(func() {
			start := time.NewTimer(time.Duration(i) * time.Second / time.Duration(len(urls)))
			<-start.C
			results[i] = receive(b.Context(), client, url, `{"message":"hello"}`)
		})
	}
	running.Wait()
	for _, r := range results {
		require.NoError(b, r.err)
		first, tokens = append(first, r.first), tokens+r.tokens
	}
	return first, tokens
}

func newSessions(b *testing.B, hub string, n int) (urls []string) {
	b.Helper()
	for range n {
		res, err := http.Post(hub+sessions, "application/json", strings.NewReader(`{}`))
		require.NoError(b, err)
		var created struct{ ID string }
		require.NoError(b, json.NewDecoder(res.Body).Decode(&created))
		res.Body.Close()
		urls = append(urls, hub+sessions+"/"+created.ID+"/messages")
	}
	return urls
}

// percentile returns a percentile of times in order.
func percentile(times []time.Duration, n int) time.Duration { return times[len(times)*n/100] }

// BenchmarkChats runs chats at once through a hub and a runtime, each in its own process, and the
// same number directly with the runtime. It reports percentiles and sums of all rounds.
func BenchmarkChats(b *testing.B) {
	for n, pace := range map[int]time.Duration{100: 10 * time.Millisecond, 500: 40 * time.Millisecond} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			const tokensEach = 300
			text := make([]string, tokensEach)
			for i := range text {
				text[i] = " token"
			}
			up := modeltest.Start(b, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Wait(200*time.Millisecond), modeltest.Pace(pace), modeltest.Text(text...))))
			rt := startRole(b, "runtime", up.URL, "")
			hub := startRole(b, "hub", rt.url, dbtest.SQLite(b))
			direct := slices.Repeat([]string{rt.url + "/v1/agents/helper/runs"}, n)
			round(b, direct[:10])
			round(b, newSessions(b, hub.url, 10))
			var without, with []time.Duration
			var hubCPU, rtCPU time.Duration
			var tokens int
			var memory []float64
			for b.Loop() {
				first, _ := round(b, direct)
				without = append(without, first...)
				urls := newSessions(b, hub.url, n)
				idle, hubBefore, rtBefore := hub.memory(), hub.cpu(), rt.cpu()
				during := make(chan float64, 1)
				time.AfterFunc(tokensEach*pace*2/3, func() { during <- hub.memory() })
				first, received := round(b, urls)
				require.Equal(b, n*tokensEach, received)
				with, tokens = append(with, first...), tokens+received
				hubCPU, rtCPU = hubCPU+hub.cpu()-hubBefore, rtCPU+rt.cpu()-rtBefore
				memory = append(memory, (<-during-idle)/float64(n))
			}
			slices.Sort(without)
			slices.Sort(with)
			slices.Sort(memory)
			for _, p := range []int{50, 99} {
				added := percentile(with, p) - percentile(without, p)
				b.ReportMetric(added.Seconds()*1e3, fmt.Sprintf("first-token-added-p%d-ms", p))
			}
			b.ReportMetric(float64(hubCPU.Microseconds())/float64(tokens), "hub-cpu-µs/token")
			b.ReportMetric(float64(rtCPU.Microseconds())/float64(tokens), "runtime-cpu-µs/token")
			b.ReportMetric(memory[len(memory)/2], "hub-live-KiB/chat")
		})
	}
}
