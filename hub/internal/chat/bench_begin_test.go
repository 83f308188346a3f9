package chat_test

import (
	"slices"
	"testing"
	"time"
)

// BenchmarkChatsThatBegin runs chats of one token, as [BenchmarkChats] does.
func BenchmarkChatsThatBegin(b *testing.B) {
	b.Run("one after another", func(b *testing.B) {
		url, _, _ := upstream(b, 1, 0)
		hub, rt := benchRelay(b, url)
		run := rt.url + "/v1/agents/helper/runs"
		const n = 100
		var added time.Duration
		var cpu, alone time.Duration
		for b.Loop() {
			var direct, through []time.Duration
			for _, chat := range newSessions(b, hub.url, n) {
				before := rt.cpu()
				first, _ := at(b, []string{run}, 0)
				alone += rt.cpu() - before
				direct = append(direct, first...)
				before = hub.cpu()
				first, _ = at(b, []string{chat}, 0)
				cpu += hub.cpu() - before
				through = append(through, first...)
			}
			slices.Sort(direct)
			slices.Sort(through)
			added += through[n/2] - direct[n/2]
		}
		b.ReportMetric(float64(added.Microseconds())/float64(b.N), "first-token-added-µs")
		b.ReportMetric(float64(cpu.Microseconds())/float64(b.N*n), "hub-cpu-µs/chat")
		b.ReportMetric(float64(alone.Microseconds())/float64(b.N*n), "runtime-cpu-µs/run")
	})
	b.Run("at once", func(b *testing.B) {
		url, _, _ := upstream(b, 1, 0)
		hub, rt := benchRelay(b, url)
		const n, rounds = 64, 10
		direct := slices.Repeat([]string{rt.url + "/v1/agents/helper/runs"}, n)
		var first, firstAlone []time.Duration
		var cpu, alone time.Duration
		for b.Loop() {
			for range rounds {
				before := rt.cpu()
				some, _ := at(b, direct, 0)
				alone += rt.cpu() - before
				firstAlone = append(firstAlone, some...)
				urls := newSessions(b, hub.url, n)
				before = hub.cpu()
				some, _ = at(b, urls, 0)
				cpu += hub.cpu() - before
				first = append(first, some...)
			}
		}
		slices.Sort(first)
		slices.Sort(firstAlone)
		b.ReportMetric(float64(first[len(first)/2].Microseconds()), "first-token-p50-µs")
		b.ReportMetric(float64(firstAlone[len(first)/2].Microseconds()), "runtime-first-token-p50-µs")
		b.ReportMetric(float64(cpu.Microseconds())/float64(b.N*n*rounds), "hub-cpu-µs/chat")
		b.ReportMetric(float64(alone.Microseconds())/float64(b.N*n*rounds), "runtime-cpu-µs/run")
	})
}
