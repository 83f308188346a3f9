package js_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/tool/js"
)

// later is a tool whose file loads within the first moments after it was written, and runs code at
// its top level after that: a file is loaded once before it is loaded in advance.
func later(name, code string) string {
	return fmt.Sprintf(`if (Date.now() > %d) { %s }
export default {name: %q, description: "For tests.", call() { return "late" }}`,
		time.Now().Add(loadsBefore).UnixMilli(), code, name)
}

const loadsBefore = 1500 * time.Millisecond

var topLevels = map[string]string{
	"loop":              `for (;;);`,
	"loop that catches": `for (;;) try { for (;;); } catch {}`,
	"native loop":       `Array.prototype.indexOf.call({length: 2 ** 53 - 1}, 1)`,
	"jobs":              `const f = () => { Promise.resolve().then(f) }; f()`,
	"slow expression":   `/^(a+)+$/.test("a".repeat(40) + "b")`,
	"large buffer":      `globalThis.x = new Uint8Array(60e6)`,
	"memory":            `const all = []; for (;;) all.push(new Uint8Array(1e6).fill(1))`,
	"memory caught":     `for (;;) { try { const all = []; for (;;) all.push(new Uint8Array(1e6)) } catch {} }`,
	"throws":            `throw new Error("no")`,
	"throws a proxy":    `throw new Proxy({}, {get() { for (;;); }})`,
	"big integer":       `let x = 3n; for (;;) x = x * x`,
}

// Files that do not load again take time only from their own calls. Two of them at a time do not
// occupy both workers.
func TestFilesThatDoNotLoadAgain(t *testing.T) {
	for name, code := range topLevels {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var logged logtest.Buffer
			h := newHost(t, js.Config{Workers: 2, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
			good := load(t, h, wordCount)
			bad := []tool.Tool{load(t, h, later("bad0", code)), load(t, h, later("bad1", code))}
			late := time.After(loadsBefore)
			call(t, good, `{"text":"a b"}`)
			<-late
			for i, subject := range bad { // uses the sandbox that was made before; the next one is made now
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				_, _ = subject.Call(ctx, tool.Call{Input: json.RawMessage(`{}`)})
				_, _ = subject.Call(ctx, tool.Call{Input: json.RawMessage(`{}`)})
				cancel()
				for range 20 {
					began := time.Now()
					require.Equal(t, "2", call(t, good, `{"text":"a b"}`).Output)
					require.Less(t, time.Since(began), 5*time.Second)
				}
				eventually(t, "the tool is no longer loaded in advance", func() bool {
					return strings.Contains(logged.String(), fmt.Sprintf(`no longer loaded in advance" tool=bad%d`, i))
				})
			}
			before := strings.Count(logged.String(), "worker of custom tools ended")
			for range 50 { // none of the calls waits for a file that does not load
				began := time.Now()
				require.Equal(t, "2", call(t, good, `{"text":"a b"}`).Output)
				require.Less(t, time.Since(began), 2*time.Second)
			}
			require.Equal(t, before, strings.Count(logged.String(), "worker of custom tools ended"))

			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			began := time.Now()
			_, err := bad[0].Call(ctx, tool.Call{Input: json.RawMessage(`{}`)})
			require.ErrorContains(t, err, "bad0 has no result: ")
			require.NoError(t, ctx.Err())
			require.Less(t, time.Since(began), 10*time.Second)
			require.Equal(t, "2", call(t, good, `{"text":"a b"}`).Output)
		})
	}
}

// A file that takes longer than files may take in advance still works.
func TestSlowFile(t *testing.T) {
	t.Parallel()
	h := newHost(t, js.Config{Workers: 2, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	slow := load(t, h, `const began = Date.now(); while (Date.now() - began < 800);
export default {name: "slow", description: "For tests.", call() { return "done" }}`)
	for range 3 {
		require.Equal(t, "done", call(t, slow, `{}`).Output)
	}
}

// Files that never load do not keep others from being loaded.
func TestManyFilesThatDoNotLoad(t *testing.T) {
	t.Parallel()
	h := newHost(t, js.Config{Workers: 2})
	failed := make(chan error, 4)
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
