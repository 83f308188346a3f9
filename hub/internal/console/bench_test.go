package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/tracing"
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

// task is an event of a trace. Times are in microseconds; that of the processor excludes what other
// programs of the machine took.
type task struct {
	Name, Ph  string
	PID, TID  int64
	Dur, TDur float64
	Args      struct{ Name string }
}

// tasks reports the processor time of the tasks of the page's main thread while f runs.
func (b *tab) tasks(bench *testing.B, f func()) {
	b.t.Helper()
	var mu sync.Mutex // guards events
	var events []task
	complete := make(chan struct{})
	require.NoError(b.t, chromedp.Listen(b.ctx, func(event any) {
		switch event := event.(type) {
		case *tracing.EventDataCollected:
			mu.Lock()
			defer mu.Unlock()
			for _, value := range event.Value {
				var t task
				if json.Unmarshal(value, &t) == nil {
					events = append(events, t)
				}
			}
		case *tracing.EventTracingComplete:
			close(complete)
		}
	}))
	b.do(func(ctx context.Context, t *chromedp.Target) (none chromedp.Void, err error) {
		config := tracing.TraceConfig{IncludedCategories: []string{"disabled-by-default-devtools.timeline"}}
		_, err = cdp.Call(ctx, t, tracing.Start, tracing.StartParams{TransferMode: tracing.StartTransferModeReportEvents, TraceConfig: &config})
		return none, err
	})
	f()
	b.do(func(ctx context.Context, t *chromedp.Target) (none chromedp.Void, err error) {
		_, err = cdp.Call(ctx, t, tracing.End, cdp.Empty{})
		return none, err
	})
	select {
	case <-complete:
	case <-time.After(patience):
		require.Fail(b.t, "the trace has no end")
	}
	mains := map[[2]int64]bool{}
	for _, t := range events {
		if t.Name == "thread_name" && t.Args.Name == "CrRendererMain" {
			mains[[2]int64{t.PID, t.TID}] = true
		}
	}
	var took []float64
	for _, t := range events {
		if t.Name == "RunTask" && mains[[2]int64{t.PID, t.TID}] {
			took = append(took, t.TDur/1000)
		}
	}
	require.NotEmpty(b.t, took)
	slices.Sort(took)
	bench.ReportMetric(float64(len(took)), "tasks")
	bench.ReportMetric(took[len(took)*99/100], "p99-ms")
	bench.ReportMetric(took[len(took)-1], "longest-ms")
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
	b.tasks(bench, func() {
		b.do(chromedp.Evaluate[chromedp.Void](`window.scrolling = setInterval(() => { document.querySelector(".scroll").scrollTop = 0 }, 30)`))
		require.Eventually(bench, func() bool { return eval[int](b, `document.querySelectorAll(".message").length`) == count }, 2*time.Minute, 100*time.Millisecond)
		b.do(chromedp.Evaluate[chromedp.Void](`clearInterval(window.scrolling)`))
	})
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
	b.tasks(bench, func() {
		b.say("Begin")
		b.wait(`document.querySelector(".compose [role=status]:last-child").textContent !== ""`)
	})
	bench.ReportMetric(eval[float64](b, `document.querySelectorAll(".md h4").length`), "headings")
}
