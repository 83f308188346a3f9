package js_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/tool/js"
)

// loadUntil loads a tool whose file runs code at its top level from the returned time on: it loads
// when it is built, and not when it is loaded in advance later.
func loadUntil(t *testing.T, h *js.Host, name, code string) (tool.Tool, time.Time) {
	t.Helper()
	for wait := time.Second; ; wait *= 2 {
		begin := time.Now().Add(wait).Truncate(time.Millisecond)
		loaded, err := h.Load(t.Context(), write(t, name+".ts", fmt.Sprintf(`if (Date.now() > %d) { %s }
export default {name: %q, description: "For tests.", call() { return "late" }}`, begin.UnixMilli(), code, name)))
		if err == nil || wait > patience {
			require.NoError(t, err)
			return loaded, begin
		}
	}
}

var topLevels = map[string]string{
	"loop that catches": `for (;;) try { for (;;); } catch {}`,
	"native loop":       `Array.prototype.indexOf.call({length: 2 ** 53 - 1}, 1)`,
	"jobs":              `const f = () => { Promise.resolve().then(f) }; f()`,
	"memory":            `const all = []; for (;;) all.push(new Uint8Array(1e6).fill(1))`,
	"memory caught":     `for (;;) { try { const all = []; for (;;) all.push(new Uint8Array(1e6)) } catch {} }`,
	"large buffer":      `globalThis.x = new Uint8Array(60e6)`,
	"throws":            `throw new Error("no")`,
	"throws a proxy":    `throw new Proxy({}, {get() { for (;;); }})`,
}

// Files that do not load again take time only from their own calls. Two of them at a time do not
// occupy both workers.
func TestFilesThatDoNotLoadAgain(t *testing.T) {
	for name, code := range topLevels {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var logged logtest.Buffer
			h := newHost(t, js.Config{Workers: 2, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
			h.SetLimits(patience, 2*time.Second, 500*time.Millisecond, 3*time.Second)
			good := load(t, h, wordCount)
			bad0, _ := loadUntil(t, h, "bad0", code)
			bad1, late := loadUntil(t, h, "bad1", code)
			call(t, good, `{"text":"a b"}`)
			<-time.After(time.Until(late))
			for i, subject := range []tool.Tool{bad0, bad1} { // uses the engine that was made before; the next one is made now
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				_, _ = subject.Call(ctx, tool.Call{Input: json.RawMessage(`{}`)})
				cancel()
				for range 10 {
					require.Equal(t, "2", call(t, good, `{"text":"a b"}`).Output)
				}
				eventually(t, "the tool is no longer loaded in advance", func() bool {
					if strings.Contains(logged.String(), fmt.Sprintf(`no longer loaded in advance" tool=bad%d`, i)) {
						return true
					}
					_, _ = subject.Call(t.Context(), tool.Call{Input: json.RawMessage(`{}`)}) // another worker may have an engine from before
					return false
				})
			}
			before := strings.Count(logged.String(), "worker of custom tools ended")
			for range 20 { // none of the calls waits for a file that does not load
				require.Equal(t, "2", call(t, good, `{"text":"a b"}`).Output)
			}
			require.Equal(t, before, strings.Count(logged.String(), "worker of custom tools ended"))

			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var err error
			for err == nil { // the other worker may have an engine from before
				_, err = bad0.Call(ctx, tool.Call{Input: json.RawMessage(`{}`)})
			}
			require.ErrorContains(t, err, "bad0 has no result: ")
			require.NoError(t, ctx.Err())
			require.Equal(t, "2", call(t, good, `{"text":"a b"}`).Output)
		})
	}
}

// A file that takes longer than files may take in advance still works.
func TestSlowFile(t *testing.T) {
	t.Parallel()
	h := newHost(t, js.Config{Workers: 2, Logger: slog.New(slog.DiscardHandler)})
	h.SetLimits(patience, patience, 100*time.Millisecond, patience)
	slow := load(t, h, `const began = Date.now(); while (Date.now() - began < 200);
export default {name: "slow", description: "For tests.", call() { return "done" }}`)
	for range 3 {
		require.Equal(t, "done", call(t, slow, `{}`).Output)
	}
}

// Files that never load do not keep others from being loaded.
func TestManyFilesThatDoNotLoad(t *testing.T) {
	t.Parallel()
	h := newHost(t, js.Config{Workers: 2})
	h.SetLimits(patience, time.Second, patience, patience)
	failed := make(chan error, 3)
	for i := range cap(failed) {
		def := write(t, "bad.ts", fmt.Sprintf("for (;;); // %d", i))
		go func() {
			_, err := h.Load(t.Context(), def)
			failed <- err
		}()
	}
	loaded, err := h.Load(t.Context(), write(t, "fine.ts", fine))
	require.NoError(t, err)
	require.Empty(t, call(t, loaded, `{}`).Output)
	for range cap(failed) {
		require.ErrorContains(t, <-failed, "bad.ts did not load in time")
	}
}

// Any number of calls of tools that do not load, or did not end before, leaves a worker to others.
func TestFaultyToolsLeaveAWorker(t *testing.T) {
	t.Parallel()
	h := newHost(t, js.Config{Workers: 2})
	h.SetLimits(patience, 2*time.Second, 500*time.Millisecond, patience)
	good, loop := load(t, h, wordCount), load(t, h, body(`for (;;);`))
	unloadable, late := loadUntil(t, h, "unloadable", `for (;;);`)
	<-time.After(time.Until(late))
	input := tool.Call{Input: json.RawMessage(`{}`)}
	for _, bad := range []tool.Tool{loop, unloadable} {
		for stopped := 0; stopped < 2; stopped++ { // the first calls have engines from before
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := bad.Call(ctx, input); err == nil {
				stopped = 0
			}
			cancel()
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	for range 2 {
		for _, bad := range []tool.Tool{loop, unloadable} {
			calls.Go(func() {
				_, err := bad.Call(ctx, input)
				require.ErrorIs(t, err, context.Canceled)
			})
		}
	}
	for range 20 {
		require.Equal(t, "2", call(t, good, `{"text":"a b"}`).Output)
	}
	cancel()
	calls.Wait()
}
