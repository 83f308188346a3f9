package console_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model"
)

// long is a model whose answers have many tokens.
type long struct{ tokens int }

// Stream implements model.Model.
func (l long) Stream(ctx context.Context, _ *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		parts := []string{"## Part\n\n", "A ", "sentence ", "with ", "**bold** ", "and ", "`code` ", "words", ".\n\n", "- item ", "one\n", "- item ", "two\n\n", "```go\n", "func ", "main() {\n", "}\n", "```\n\n"}
		for i := range l.tokens {
			if i%100 == 0 && i > 0 {
				select {
				case <-time.After(10 * time.Millisecond):
				case <-ctx.Done():
					yield(model.Part{}, context.Cause(ctx))
					return
				}
			}
			if !yield(model.Part{Kind: model.KindText, Text: parts[i%len(parts)]}, nil) {
				return
			}
		}
		yield(model.Part{Kind: model.KindStop, StopReason: model.StopEndTurn}, nil)
	}
}

// observeTasks records the durations of tasks of more than 50 ms from now on.
func (b *tab) observeTasks() {
	b.do(chromedp.Evaluate[chromedp.Void](`window.tasks = []; new PerformanceObserver((l) => { for (const e of l.getEntries()) window.tasks.push(e.duration) }).observe({ type: "longtask" })`))
}

// reportTasks reports the longest task, and the number of those of more than 50 ms.
func (b *tab) reportTasks(bench *testing.B) {
	bench.ReportMetric(eval[float64](b, "Math.max(0, ...window.tasks)"), "longest-ms")
	bench.ReportMetric(eval[float64](b, "window.tasks.length"), "tasks>50ms")
}

// BenchmarkFirstLoad loads the first page without a cache.
func BenchmarkFirstLoad(bench *testing.B) {
	s := serve(bench)
	s.setUp()
	for bench.Loop() {
		b := newTab(bench)
		b.open(s.url + "/console/login")
		b.see("Sign in to agenthost")
		bench.ReportMetric(eval[float64](b, `performance.now()`), "visible-ms")
		bench.ReportMetric(eval[float64](b, `performance.getEntriesByType("navigation")[0].loadEventEnd`), "load-ms")
	}
}

// BenchmarkLongChat scrolls through a chat with 5,000 messages.
func BenchmarkLongChat(bench *testing.B) {
	s := serve(bench)
	root := s.setUp()
	s.deployed(root, "helper", nil)
	const count = 5000
	messages := make([]any, count)
	now := time.Now().UTC().Format(time.RFC3339)
	for i := range messages {
		role := []string{"user", "assistant"}[i%2]
		messages[i] = map[string]any{"id": fmt.Sprint(i), "role": role, "content": fmt.Sprintf("Message **%d**\n\n- one\n- two\n\n```go\nfunc f() {}\n```\n", i), "created_at": now}
	}
	s.call("POST", "/api/v1/chat/push", root, map[string]any{"sessions": []any{map[string]any{"id": "long", "agent_name": "helper", "title": "Long", "created_at": now, "updated_at": now, "messages": messages}}}, http.StatusOK)
	b := newTab(bench)
	b.open(s.url + "/console/chat/helper")
	b.signIn("root", password)
	b.see("Long")
	b.click(".sessions a")
	b.see("Message 4999")
	b.observeTasks()
	for bench.Loop() {
		b.do(chromedp.Evaluate[chromedp.Void](`window.scrolling = setInterval(() => { document.querySelector(".scroll").scrollTop = 0 }, 30)`))
		require.Eventually(bench, func() bool { return eval[int](b, `document.querySelectorAll(".message").length`) == count }, 2*time.Minute, 100*time.Millisecond)
		b.do(chromedp.Evaluate[chromedp.Void](`clearInterval(window.scrolling)`))
	}
	b.reportTasks(bench)
}

// BenchmarkLongAnswer streams an answer of 20,000 tokens.
func BenchmarkLongAnswer(bench *testing.B) {
	s := serve(bench)
	s.model = long{tokens: 20_000}
	root := s.setUp()
	s.deployed(root, "helper", nil)
	b := newTab(bench)
	b.open(s.url + "/console/chat/helper")
	b.signIn("root", password)
	b.see("Chat with helper")
	b.observeTasks()
	for bench.Loop() {
		b.say("Begin")
		require.Eventually(bench, func() bool { return strings.Contains(b.text(), "The answer is complete.") }, 2*time.Minute, 200*time.Millisecond)
	}
	bench.ReportMetric(eval[float64](b, `document.querySelectorAll(".md h4").length`), "headings")
	b.reportTasks(bench)
}
