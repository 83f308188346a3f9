package chat_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/db/pgtest"
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
		for engine, database := range map[string]func() string{"postgres": func() string { return pgtest.URL(b) }, "sqlite": func() string { return dbtest.SQLite(b) }} {
			b.Run(name+"/"+engine, func(b *testing.B) {
				all := ways(b, database(), load.core)
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
		}
	}
	b.Run("sessions", func(b *testing.B) {
		for engine, database := range map[string]func() string{"postgres": func() string { return pgtest.URL(b) }, "sqlite": func() string { return dbtest.SQLite(b) }} {
			b.Run(engine, func(b *testing.B) {
				hub := startRole(b, "hub", "http://127.0.0.1:1", database())
				const n = 500
				before := hub.cpu()
				for b.Loop() {
					newSessions(b, hub.url, n)
				}
				b.ReportMetric(float64((hub.cpu()-before).Microseconds())/float64(b.N*n), "hub-cpu-µs")
			})
		}
	})
}
