package chat_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/chat"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/secret"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	runtimesession "github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/sse"
)

// roleVariable makes the test binary a hub or a runtime of a benchmark, so that its CPU time and
// memory can be measured apart from those of the clients.
const roleVariable = "CHAT_BENCH_ROLE"

// lateHub is the role of a hub that stores no answer in progress.
const lateHub = "late hub"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := serveRole(role, os.Getenv("CHAT_BENCH_TARGET"), os.Getenv("CHAT_BENCH_DATABASE")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if err := dbtest.Parallel(2); err != nil { // most of a test is waiting
		panic(err)
	}
	dbtest.Main(m)
}

// userHeader has the user of a request to the hub.
const userHeader = "User"

// serveRole serves until the standard input is closed. It prints its URL, and then for each line of
// the input how many KiB its live memory has: the heap after a collection, and the stacks.
func serveRole(role, target, database string) error {
	var h http.Handler
	switch role {
	case "proxy":
		runtime, err := url.Parse(target)
		if err != nil {
			return err
		}
		proxy := &httputil.ReverseProxy{
			Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(runtime) },
			FlushInterval: -1, // at once, as for a stream
			Transport:     &http.Transport{MaxIdleConnsPerHost: 256},
		}
		h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body) // the server closes it when the response begins
			r.Body = io.NopCloser(bytes.NewReader(body))
			proxy.ServeHTTP(w, r)
		})
	case "runtime":
		cfg := runtime.Config{CWD: os.TempDir(), Limits: agent.Limits{MaxConcurrentRuns: 10_000}, Agents: []agent.Agent{{
			ID: "helper", Model: "m", Provider: agent.Provider{Protocol: agent.ProtocolAnthropic, BaseURL: agent.Secret(target), APIKey: "key"},
		}}}
		if database != "" { // a directory: the runtime continues after its end
			files, err := runtimesession.NewFiles(runtimesession.FilesConfig{Dir: filepath.Join(database, "state"), CWD: database})
			if err != nil {
				return err
			}
			cfg.CWD, cfg.Sessions = database, files
		}
		rt, err := runtime.New(context.Background(), cfg)
		if err != nil {
			return err
		}
		h = rt
	default:
		d, err := db.Open(context.Background(), db.Config{URL: database})
		if err != nil {
			return err
		}
		if err := d.Migrate(context.Background(), apitest.Audit(), store.Migrations, chat.Migrations); err != nil {
			return err
		}
		audit, err := sqlaudit.New(sqlaudit.Config{Write: d.Write(), Read: d.Read(), Engine: string(d.Engine())})
		if err != nil {
			return err
		}
		keyring, err := secret.Parse(secret.Generate())
		if err != nil {
			return err
		}
		all, err := store.New(store.Config{DB: d, Audit: audit, Keyring: keyring, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
		if err != nil {
			return err
		}
		saveEvery := time.Duration(0) // the default
		if role == lateHub {
			saveEvery = time.Hour
		}
		s, err := newBench(all, target, saveEvery)
		if err = errors.Join(err, all.Join(context.Background())); err != nil {
			return err
		}
		authenticate := func(r *http.Request) (api.Caller, error) {
			caller := ada
			caller.UserID = cmp.Or(r.Header.Get(userHeader), ada.UserID)
			return caller, nil
		}
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

// benchAgents has the agent helper of every tenant, at one runtime.
type benchAgents struct{ url string }

func (benchAgents) AgentEnabled(context.Context, api.Caller, string) (bool, error) { return true, nil }

func (b benchAgents) Endpoint(context.Context, string, string) (deployment.Endpoint, error) {
	return deployment.Endpoint{URL: b.url, AgentID: "helper"}, nil
}

func (benchAgents) Replicas(context.Context, string) ([]string, error) { return nil, nil }

func newBench(s *store.Store, runtimeURL string, saveEvery time.Duration) (*chat.Service, error) {
	agents := benchAgents{runtimeURL}
	limits := relay.Config{UserAnswers: 1000, AgentAnswers: 10_000, SaveEvery: saveEvery}
	return chat.New(chat.Config{Store: s, Catalog: agents, Deployments: agents, Relay: limits})
}

func benchService(b *testing.B, url string) *chat.Service {
	b.Helper()
	joined := apitest.NewStore(b, dbtest.Open(b, url, apitest.Audit(), store.Migrations, chat.Migrations), store.Config{})
	apitest.Join(b, joined)
	s, err := newBench(joined, "", 0)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	return s
}

// measured has the times of one answer, from the client.
type measured struct {
	first  time.Duration
	tokens int
	err    error
}

// post sends a message of a user.
func post(ctx context.Context, client *http.Client, url, user string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"message":"hello"}`))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set(userHeader, user)
	return client.Do(req)
}

// receive sends a message and reads the answer to its end.
func receive(ctx context.Context, client *http.Client, url, user string) (a measured) {
	begin := time.Now()
	res, err := post(ctx, client, url, user)
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

// upstream is a model API that sends n tokens in each response, each in a write of its own. began
// and gone have an element for each request that arrives and that ends.
func upstream(b *testing.B, n int, pace time.Duration) (url string, began, gone <-chan struct{}) {
	b.Helper()
	token := []byte("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" token\"}}\n\n")
	first := "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\"," +
		"\"content\":[],\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n" +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
	last := "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":9}}\n\n" +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	arrived, left := make(chan struct{}, 1<<16), make(chan struct{}, 1<<16)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { left <- struct{}{} }()
		arrived <- struct{}{}
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		flush := http.NewResponseController(w)
		_, _ = io.WriteString(w, first)
		tick := time.NewTicker(max(pace, 1))
		defer tick.Stop()
		for range n {
			_, _ = w.Write(token)
			_ = flush.Flush()
			if pace == 0 {
				continue
			}
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
		_, _ = io.WriteString(w, last)
	}))
	b.Cleanup(srv.Close)
	return srv.URL, arrived, left
}

// userOf returns the user of a chat. Users have a few chats, as most do.
func userOf(chat int) string { return fmt.Sprint("id-", chat) }

// at starts receiving an answer from each URL within the time, and returns the first-token times
// and the number of tokens.
func at(b *testing.B, urls []string, within time.Duration) (first []time.Duration, tokens int) {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: len(urls)}}
	defer client.CloseIdleConnections()
	results := make([]measured, len(urls))
	var running sync.WaitGroup
	for i, url := range urls {
		running.Go(func() {
			<-time.After(time.Duration(i) * within / time.Duration(len(urls)))
			results[i] = receive(b.Context(), client, url, userOf(i))
		})
	}
	running.Wait()
	for _, r := range results {
		require.NoError(b, r.err)
		first, tokens = append(first, r.first), tokens+r.tokens
	}
	slices.Sort(first)
	return first, tokens
}

func newSessions(b *testing.B, hub string, n int) (urls []string) {
	b.Helper()
	for i := range n {
		req, err := http.NewRequest(http.MethodPost, hub+sessions, strings.NewReader(`{}`))
		require.NoError(b, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set(userHeader, userOf(i))
		res, err := http.DefaultClient.Do(req)
		require.NoError(b, err)
		var created struct{ ID string }
		require.NoError(b, json.NewDecoder(res.Body).Decode(&created))
		res.Body.Close()
		urls = append(urls, hub+sessions+"/"+created.ID+"/messages")
	}
	return urls
}

// benchRelay starts a hub and a runtime, each on one core, in front of an upstream.
func benchRelay(b *testing.B, upstream string) (hub, rt *process) {
	b.Helper()
	rt = startRole(b, "runtime", upstream, "")
	return startRole(b, "hub", rt.url, dbtest.SQLite(b)), rt
}

// BenchmarkChats runs chats through a hub and a runtime, each in its own process on one core, and
// the same runs directly with the runtime. CPU is that of the process, system time included.
func BenchmarkChats(b *testing.B) {
	for name, load := range map[string]struct {
		chats, tokens int
		pace          time.Duration
	}{"full speed": {8, 20_000, 0}, "paced": {256, 100, 40 * time.Millisecond}} {
		b.Run(name, func(b *testing.B) {
			url, _, _ := upstream(b, load.tokens, load.pace)
			hub, rt := benchRelay(b, url)
			direct := slices.Repeat([]string{rt.url + "/v1/agents/helper/runs"}, load.chats)
			at(b, direct[:2], 0)
			at(b, newSessions(b, hub.url, 2), 0)
			var alone, hubCPU, memory float64
			var tokens int
			for b.Loop() {
				before := rt.cpu()
				_, n := at(b, direct, time.Duration(load.tokens)*load.pace/8)
				alone += float64((rt.cpu() - before).Microseconds())
				urls := newSessions(b, hub.url, load.chats)
				idle, before := hub.memory(), hub.cpu()
				during := make(chan float64, 1)
				if load.pace > 0 {
					time.AfterFunc(time.Duration(load.tokens)*load.pace*2/3, func() { during <- hub.memory() })
				}
				at(b, urls, time.Duration(load.tokens)*load.pace/8)
				hubCPU += float64((hub.cpu() - before).Microseconds())
				if load.pace > 0 {
					memory = (<-during - idle) / float64(load.chats)
				}
				tokens += n
			}
			b.ReportMetric(hubCPU/float64(tokens), "hub-cpu-µs/token")
			b.ReportMetric(alone/float64(tokens), "runtime-cpu-µs/token")
			b.ReportMetric(memory, "hub-live-KiB/chat")
		})
	}
	b.Run("disconnects", func(b *testing.B) {
		url, began, gone := upstream(b, 100_000, time.Second)
		hub, rt := benchRelay(b, url)
		const n = 256
		disconnect := func(urls []string) time.Duration {
			ctx, cancel := context.WithCancel(b.Context())
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}}
			defer client.CloseIdleConnections()
			for i, url := range urls {
				res, err := post(ctx, client, url, userOf(i))
				require.NoError(b, err)
				b.Cleanup(func() { res.Body.Close() })
				<-began
			}
			start := time.Now()
			cancel()
			for range urls {
				<-gone
			}
			return time.Since(start)
		}
		var direct, through time.Duration
		for b.Loop() {
			direct += disconnect(slices.Repeat([]string{rt.url + "/v1/agents/helper/runs"}, n))
			through += disconnect(newSessions(b, hub.url, n))
		}
		b.ReportMetric(float64(direct.Milliseconds())/float64(b.N), "runtime-ms")
		b.ReportMetric(float64(through.Milliseconds())/float64(b.N), "hub-ms")
	})
}
