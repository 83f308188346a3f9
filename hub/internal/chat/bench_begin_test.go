package chat_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/sse"
)

// way is a way to run an agent: through a hub, at its runtime, or through a proxy that only copies.
type way struct {
	name  string
	to    *process
	urls  func(n int) []string // of the requests of n clients
	first []time.Duration
	cpu   time.Duration
	n     int
}

// ways starts a hub, a runtime and a proxy, each on one core, or all on a certain one.
func ways(b *testing.B, database, core string) []*way {
	b.Helper()
	url, _, _ := upstream(b, 1, 0)
	rt := startOn(b, core, "runtime", url, "")
	hub := startOn(b, core, "hub", rt.url, database)
	proxy := startOn(b, core, "proxy", rt.url, "")
	runs := func(p *process) func(int) []string {
		return func(n int) []string { return slices.Repeat([]string{p.url + "/v1/agents/helper/runs"}, n) }
	}
	return []*way{
		{name: "hub", to: hub, urls: func(n int) []string { return newSessions(b, hub.url, n) }},
		{name: "runtime", to: rt, urls: runs(rt)},
		{name: "proxy", to: proxy, urls: runs(proxy)},
	}
}

// run runs the agent for some clients, which begin within the time.
func (w *way) run(b *testing.B, clients int, within time.Duration) {
	b.Helper()
	urls := w.urls(clients)
	before := w.to.cpu()
	first, _ := at(b, urls, within)
	w.cpu += w.to.cpu() - before
	w.first, w.n = append(w.first, first...), w.n+clients
}

func (w *way) report(b *testing.B) {
	b.Helper()
	slices.Sort(w.first)
	b.ReportMetric(float64(w.cpu.Microseconds())/float64(w.n), w.name+"-cpu-µs")
	for _, percent := range []int{50, 99} {
		b.ReportMetric(float64(w.first[len(w.first)*percent/100].Microseconds()), fmt.Sprintf("%s-first-token-p%d-µs", w.name, percent))
	}
}

// BenchmarkChatsThatBegin runs chats of one token, as [BenchmarkChats] does, next to the same runs
// without a hub. CPU is that of the named process for each of them.
func BenchmarkChatsThatBegin(b *testing.B) {
	for name, load := range map[string]struct {
		clients, rounds int
		within          time.Duration
		core            string
	}{
		"one after another": {1, 100, 0, ""},
		"64 at once":        {64, 10, 0, ""},
		"200 a second":      {1000, 1, 5 * time.Second, "0"}, // all servers on one core
	} {
		b.Run(name, func(b *testing.B) {
			engines(b, func(b *testing.B, database string) {
				all := ways(b, database, load.core)
				for b.Loop() {
					for range load.rounds {
						for _, w := range all {
							w.run(b, load.clients, load.within)
						}
					}
				}
				for _, w := range all {
					w.report(b)
				}
			})
		})
	}
	b.Run("sessions", func(b *testing.B) {
		engines(b, func(b *testing.B, database string) {
			hub := startRole(b, "hub", "http://127.0.0.1:1", database)
			const n = 500
			before := hub.cpu()
			for b.Loop() {
				newSessions(b, hub.url, n)
			}
			b.ReportMetric(float64((hub.cpu()-before).Microseconds())/float64(b.N*n), "hub-cpu-µs")
		})
	})
}

// firstToken sends a message and reads up to the first token. The answer ends with ctx.
func firstToken(ctx context.Context, client *http.Client, url, user string) error {
	res, err := post(ctx, client, url, user)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = res.Body.Close() })
	for ev, err := range sse.NewDecoder(res.Body).Events() {
		if err != nil || ev.Type == "partial_message" {
			return err
		}
	}
	return fmt.Errorf("%d without a token", res.StatusCode)
}

// BenchmarkOpenAnswers has as many open answers as a limit of 20,000 files permits, which begin at
// the same moment.
func BenchmarkOpenAnswers(b *testing.B) {
	const n = 9900
	engines(b, func(b *testing.B, database string) {
		url, _, gone := upstream(b, 2, time.Hour)
		rt := startRole(b, "runtime", url, "")
		hub := startRole(b, "hub", rt.url, database)
		var took time.Duration
		var memory float64
		for b.Loop() {
			urls := newSessions(b, hub.url, n)
			idle := hub.memory()
			ctx, cancel := context.WithCancel(b.Context())
			client := &http.Client{Transport: &http.Transport{}}
			began := make(chan error, n)
			begin := time.Now()
			for i, url := range urls {
				go func() { began <- firstToken(ctx, client, url, userOf(i)) }()
			}
			for range urls {
				require.NoError(b, <-began)
			}
			took += time.Since(begin)
			memory += (hub.memory() - idle) / n
			cancel()
			for range urls {
				<-gone
			}
		}
		b.ReportMetric(took.Seconds()/float64(b.N), "until-all-first-tokens-s")
		b.ReportMetric(memory/float64(b.N), "hub-live-KiB/chat")
	})
}

// BenchmarkMemoryAfterChats reports how much memory of a hub is resident after 10,000 chats, and
// after those of all iterations, which have 10,000 each.
func BenchmarkMemoryAfterChats(b *testing.B) {
	const n, clients = 10_000, 50
	engines(b, func(b *testing.B, database string) {
		url, began, gone := upstream(b, 1, 0)
		rt := startRole(b, "runtime", url, "")
		hub := startRole(b, "hub", rt.url, database)
		var first int64
		for b.Loop() {
			for range n / clients {
				at(b, newSessions(b, hub.url, clients), 0)
				for range clients {
					<-began
					<-gone
				}
			}
			first = cmp.Or(first, hub.resident())
		}
		b.ReportMetric(float64(first), "KiB-after-10,000")
		b.ReportMetric(float64(hub.resident()), "KiB-after-all")
		b.ReportMetric(hub.memory(), "live-KiB-after-all")
	})
}
