package gateway_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/gateway"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

const patience = 30 * time.Second

// counting serves the proxy of a runtime whose runs are counted.
func counting(t *testing.T, url string, runtime http.Handler, change ...func(*gateway.Config)) (*apitest.Server, *usage.Service) {
	t.Helper()
	d := dbtest.Open(t, url)
	st := apitest.NewStore(t, d, store.Config{Audit: apitest.NewAudit(t, d)})
	apitest.Join(t, st)
	counts, err := usage.New(usage.Config{Store: st})
	require.NoError(t, err)
	s, _ := serve(t, runtime, append(change, func(c *gateway.Config) { c.Usage = counts })...)
	return s, counts
}

// counted returns the usage by agent and model.
func counted(t *testing.T, counts *usage.Service) []wire.UsageRow {
	t.Helper()
	report, err := counts.Report(t.Context(), api.Caller{TenantID: "acme", RoleNow: rbac.Admin},
		usage.Query{From: time.Now().AddDate(0, 0, -1), To: time.Now().AddDate(0, 0, 1), By: []string{usage.ByAgent, usage.ByModel, usage.ByUser}},
		api.Page{Number: 1, Size: 100})
	require.NoError(t, err)
	return report.Items
}

// hosted is a real runtime with an agent of an upstream.
func hosted(t *testing.T, scripts ...modeltest.Reply) (http.Handler, *modeltest.Upstream) {
	t.Helper()
	up := modeltest.Start(t, modeltest.Anthropic, scripts...)
	return host(t, agent.Agent{ID: "a", Model: "m", Provider: agent.Provider{Protocol: agent.ProtocolAnthropic, BaseURL: agent.Secret(up.URL), APIKey: "key"}}), up
}

var series = []db.Series{apitest.Audit(), store.Migrations, usage.Migrations}

// Streams and JSON responses at /runtime are counted, without a user, and the hard limit of the
// agent applies.
func TestRunsAtTheRuntimeAreCounted(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		runtime, _ := hosted(t, modeltest.Repeat(modeltest.Stream(modeltest.Usage(model.Usage{InputTokens: 10, OutputTokens: 5}), modeltest.Text("Well."))))
		s, counts := counting(t, url, runtime)
		run := func(in map[string]any) apitest.Response {
			return s.As("", "", "").Do(http.MethodPost, "/runtime/a/v1/agents/a/runs", in, "X-Api-Key", apiKey)
		}
		stream := run(map[string]any{"message": "hello"})
		require.Contains(t, stream.Text, "event: done")
		require.Empty(t, stream.Header.Get(runvalue.UsageHeader))
		require.Len(t, counted(t, counts), 1)
		one := counted(t, counts)[0]
		require.Equal(t, []any{"a", "m", "", int64(1), int64(10), int64(5)}, []any{one.AgentName, one.Model, one.UserID, one.Runs, one.InputTokens, one.OutputTokens})

		id := "22222222-2222-4222-8222-222222222222"
		block := run(map[string]any{"message": "hello", "stream": false, "runId": id})
		block.Want(http.StatusOK)
		require.Empty(t, block.Header.Get(runvalue.UsageHeader))
		run(map[string]any{"message": 1}).Want(http.StatusBadRequest)
		require.EqualValues(t, 2, counted(t, counts)[0].Runs)

		limit(t, counts, 45, 15)
		run(map[string]any{"message": "hello"})
		refused := run(map[string]any{"message": "hello"})
		require.Contains(t, refused.Error(http.StatusTooManyRequests, wire.RateLimited)["message"], "The agent has used all of this month's ")
		require.NotEmpty(t, refused.Header.Get("Retry-After"))
		require.EqualValues(t, 3, counted(t, counts)[0].Runs)
		s.As("", "", "").Do(http.MethodPost, "/runtime/a/v1/runs/"+id+"/cancel", nil, "X-Api-Key", apiKey).Want(http.StatusConflict)
	}, series...)
}

// A client that disconnects cancels its run, whose tokens are counted.
func TestRunsOfClientsThatDisconnectAreCounted(t *testing.T) {
	t.Parallel()
	runtime, _ := hosted(t, modeltest.Repeat(modeltest.Stream(modeltest.Usage(model.Usage{InputTokens: 10, OutputTokens: 5}), modeltest.Text("Half"), modeltest.Hang())))
	s, counts := counting(t, dbtest.SQLite(t, series...), runtime)
	limit(t, counts, 30_000, 15_000)
	ctx, cancel := context.WithCancel(t.Context())
	req := s.As("", "", "").Request(http.MethodPost, "/runtime/a/v1/agents/a/runs", map[string]any{"message": "hello"}, "X-Api-Key", apiKey)
	res, err := http.DefaultClient.Do(req.WithContext(ctx))
	require.NoError(t, err)
	events := bufio.NewReader(res.Body)
	for line := ""; !strings.Contains(line, "Half"); {
		line, err = events.ReadString('\n')
		require.NoError(t, err)
	}
	cancel()
	require.Eventually(t, func() bool { return len(counted(t, counts)) == 1 }, patience, 20*time.Millisecond)
	require.Greater(t, counted(t, counts)[0].InputTokens, int64(10), "an estimate")
	require.NoError(t, res.Body.Close())
	again, err := http.DefaultClient.Do(s.As("", "", "").Request(http.MethodPost, "/runtime/a/v1/agents/a/runs", map[string]any{"message": "hello"}, "X-Api-Key", apiKey))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, again.StatusCode, "the reserve of the first run was released")
	require.NoError(t, again.Body.Close())
}

// A client that wants one JSON response has received nothing when it disconnects. Its run is
// counted as well.
func TestBlockingRunsOfClientsThatDisconnectAreCounted(t *testing.T) {
	t.Parallel()
	runtime, up := hosted(t, modeltest.Repeat(modeltest.Stream(modeltest.Usage(model.Usage{InputTokens: 10, OutputTokens: 5}), modeltest.Text("Half"), modeltest.Hang())))
	s, counts := counting(t, dbtest.SQLite(t, series...), runtime)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		req := s.As("", "", "").Request(http.MethodPost, "/runtime/a/v1/agents/a/runs", map[string]any{"message": "hello", "stream": false}, "X-Api-Key", apiKey)
		res, err := http.DefaultClient.Do(req.WithContext(ctx))
		if err == nil {
			_ = res.Body.Close()
		}
		ended <- err
	}()
	up.Await(t, 1)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Eventually(t, func() bool { return len(counted(t, counts)) == 1 }, patience, 20*time.Millisecond)
	require.EqualValues(t, 1, counted(t, counts)[0].Runs)
}

// A run may have ended in the runtime when its client disconnects, while the rest of the response
// is in transit.
func TestRunsThatEndBeforeTheirClientsDisconnectAreCounted(t *testing.T) {
	t.Parallel()
	conflict := make(chan struct{})
	s, counts := counting(t, dbtest.SQLite(t, series...), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/cancel") {
			w.WriteHeader(http.StatusConflict)
			close(conflict)
			return
		}
		w.Header().Set("X-Run-Id", "run")
		_, _ = io.WriteString(w, "event: result\ndata: {}\n\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-conflict:
		case <-time.After(patience):
			t.Error("the run is not cancelled")
		}
		select {
		case <-r.Context().Done():
			t.Error("the connection is closed before the end of the response")
		case <-time.After(200 * time.Millisecond):
		}
		_, _ = io.WriteString(w, "event: done\ndata: {}\n\n")
		w.Header().Set(http.TrailerPrefix+runvalue.UsageHeader, `{"model":"m","usage":{"output_tokens":10}}`)
	}))
	res, err := http.DefaultClient.Do(s.As("", "", "").Request(http.MethodPost, "/runtime/a/v1/agents/a/runs", nil, "X-Api-Key", apiKey))
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Eventually(t, func() bool { return len(counted(t, counts)) == 1 }, patience, 20*time.Millisecond)
	require.EqualValues(t, 10, counted(t, counts)[0].OutputTokens)
}

// limit gives the agent a hard limit in tokens.
func limit(t *testing.T, counts *usage.Service, hard, reserve float64) {
	t.Helper()
	_, err := counts.SetBudget(t.Context(), api.Caller{TenantID: "acme", UserID: "max", RoleNow: rbac.Admin}, usage.OfAgent, "a",
		wire.BudgetRequest{Period: usage.PerMonth, Unit: usage.InTokens, Hard: new(hard), Reserve: new(reserve)})
	require.NoError(t, err)
}

// Each run in progress holds a reserve of the hard limit in all hubs, until it has ended and is
// counted.
func TestConcurrentRunsHoldReserves(t *testing.T) {
	t.Parallel()
	const admitted, tries = 3, 12
	dbtest.Each(t, func(t *testing.T, url string) {
		end := make(chan struct{})
		endAll := sync.OnceFunc(func() { close(end) })
		t.Cleanup(endAll)
		runtime := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Run-Id", "run")
			_, _ = w.Write([]byte("data: 1\n\n"))
			_ = http.NewResponseController(w).Flush()
			<-end
			w.Header().Set(http.TrailerPrefix+runvalue.UsageHeader, `{"model":"m","usage":{"output_tokens":10}}`)
		})
		a, counts := counting(t, url, runtime)
		b, _ := counting(t, url, runtime)
		limit(t, counts, 20*admitted, 20)
		start := func(s *apitest.Server) (*http.Response, error) {
			res, err := http.DefaultClient.Do(s.As("", "", "").Request(http.MethodPost, "/runtime/a/v1/agents/a/runs", nil, "X-Api-Key", apiKey))
			if err == nil {
				t.Cleanup(func() { _ = res.Body.Close() })
			}
			return res, err
		}
		var mu sync.Mutex
		var open []*http.Response
		var all sync.WaitGroup
		for i := range tries {
			all.Go(func() {
				res, err := start([]*apitest.Server{a, b}[i%2])
				if err != nil {
					t.Error(err)
					return
				}
				if res.StatusCode == http.StatusOK {
					mu.Lock()
					open = append(open, res)
					mu.Unlock()
					return
				}
				text, _ := io.ReadAll(res.Body)
				if res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") != "5" ||
					!strings.Contains(string(text), "reserved by answers in progress") {
					t.Error(res.Status, res.Header, string(text))
				}
			})
		}
		all.Wait()
		require.Len(t, open, admitted)
		endAll()
		for _, res := range open {
			_, err := io.Copy(io.Discard, res.Body)
			require.NoError(t, err)
		}
		third, err := start(b)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, third.StatusCode, "30 of 60 tokens were used")
		_, err = io.Copy(io.Discard, third.Body)
		require.NoError(t, err)
		refused, err := start(a)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, refused.StatusCode, "40 of 60 tokens were used")
		_, err = io.Copy(io.Discard, refused.Body)
		require.NoError(t, err)
		refused, err = start(b)
		require.NoError(t, err)
		require.Equal(t, http.StatusTooManyRequests, refused.StatusCode, "50 of 60 tokens were used")
		require.NotEqual(t, "5", refused.Header.Get("Retry-After"), "the seconds until the reset")
	}, series...)
}

// A run without a report, because its runtime has ended or the connection was lost, counts its
// reserve if the runtime has accepted it: the hard limit stops the next ones. Otherwise the reserve
// is released.
func TestRunsWithoutAReportCountTheirReserves(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		serve http.HandlerFunc
		runs  int // of 5
	}{
		"in the middle": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Run-Id", "run")
			_, _ = w.Write([]byte("data: 1\n\n"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, 3},
		"complete, without a trailer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Run-Id", "run")
			_, _ = io.WriteString(w, "event: done\ndata: {}\n\n")
		}, 3},
		"a report that is no JSON": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Run-Id", "run")
			w.Header().Set(runvalue.UsageHeader, "{")
		}, 3},
		"after it has accepted the run": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Run-Id", "run")
			w.WriteHeader(http.StatusProcessing)
			panic(http.ErrAbortHandler)
		}, 3},
		"before its first byte": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 3},
		"no run":                {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, url string) {
				s, counts := counting(t, url, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					row.serve(w, r)
				}))
				limit(t, counts, 60, 20)
				rejected := 0
				for i := range 5 {
					res, err := http.DefaultClient.Do(s.As("", "", "").Request(http.MethodPost, "/runtime/a/v1/agents/a/runs", "hello", "X-Api-Key", apiKey))
					require.NoError(t, err)
					if res.StatusCode == http.StatusTooManyRequests {
						rejected++
					}
					_, _ = io.Copy(io.Discard, res.Body)
					require.NoError(t, res.Body.Close())
					require.Eventually(t, func() bool { // after the end of the response if that is not complete
						all := counted(t, counts)
						return row.runs == 0 || len(all) == 1 && all[0].Runs == int64(min(i+1, row.runs))
					}, patience, 5*time.Millisecond)
				}
				all := counted(t, counts)
				if row.runs == 0 {
					require.Empty(t, all)
					require.Zero(t, rejected)
					return
				}
				require.Equal(t, []int64{3, 60, 3}, []int64{all[0].Runs, all[0].InputTokens, all[0].Estimates})
				require.Equal(t, 2, rejected)
			}, series...)
		})
	}
}

// A runtime that does not end a run, or reports no tokens, does not delay the hub.
func TestHostileReports(t *testing.T) {
	t.Parallel()
	for name, report := range map[string]string{
		"none": "", "no JSON": "x", "a long one": `{"model":"` + strings.Repeat("m", 3<<10) + `"}`, "negative": `{"usage":{"input_tokens":-5}}`,
		"NUL": `{"model":"a\u0000b","usage":{"output_tokens":5}}`, "a large one": `{"usage":{"output_tokens":9223372036854775807}}`,
	} {
		t.Run(name, func(t *testing.T) {
			s, counts := counting(t, dbtest.SQLite(t, series...), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Run-Id", "../x")
				_, _ = w.Write([]byte("data: 1\n\n"))
				_ = http.NewResponseController(w).Flush()
				w.Header().Set(http.TrailerPrefix+runvalue.UsageHeader, report)
			}))
			got := s.As("", "", "").Do(http.MethodPost, "/runtime/a/v1/agents/a/runs", nil, "X-Api-Key", apiKey)
			require.Equal(t, http.StatusOK, got.Status)
			for _, row := range counted(t, counts) {
				require.Contains(t, []int64{0, 5, 1_000_000_000}, row.OutputTokens)
				require.Zero(t, row.InputTokens)
			}
		})
	}
	ended := make(chan struct{})
	s, _ := counting(t, dbtest.SQLite(t, series...), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/cancel") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("X-Run-Id", "run")
		_, _ = w.Write([]byte("data: 1\n\n"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(ended)
	}))
	ctx, cancel := context.WithCancel(t.Context())
	res, err := http.DefaultClient.Do(s.As("", "", "").Request(http.MethodPost, "/runtime/a/v1/agents/a/runs", nil, "X-Api-Key", apiKey).WithContext(ctx))
	require.NoError(t, err)
	cancel()
	<-ended
	require.NoError(t, res.Body.Close())
}
