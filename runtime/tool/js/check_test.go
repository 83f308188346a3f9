package js_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/tool/js"
)

// check checks a file with time for a busy machine, unless it does not end.
func check(t *testing.T, file, source string, limit time.Duration) (string, error) {
	t.Helper()
	return js.Check(t.Context(), js.Config{Command: []string{workerProgram()}, LoadTime: limit}, file, source)
}

func doubling() string {
	var b strings.Builder
	b.WriteString("enum E{a='xxxxxxxxxxxxxxxx'")
	for c := 'b'; c <= 'z'; c++ {
		fmt.Fprintf(&b, ",%c=%c+%c", c, c-1, c-1)
	}
	b.WriteString(",A=z+z,B=A+A,C=B+B,D=C+C}\n")
	return b.String()
}

const (
	inTime   = "did not load in time: the limit is "
	inStack  = "did not load: the limit of the stack was reached"
	inMemory = "did not load: the limit of memory was reached"
)

// hostile are files that end the process that parses them, or keep it busy. Each is rejected with
// the limit that it reached, and its worker has ended then.
var hostile = []struct {
	name, source string
	want         []string // one of them
}{
	{"a regular expression that looks like a division", "let x\n/'/;" + strings.Repeat("(", 260_000) + "'\n" + fine, []string{inStack}},
	{"parentheses", strings.Repeat("(", 260_000) + fine, []string{inStack}},
	{"brackets", strings.Repeat("[", 1<<20) + fine, []string{inStack}},
	{"braces", strings.Repeat("{", 1<<20) + fine, []string{inStack}},
	{"nested templates", strings.Repeat("`${", 1<<20) + fine, []string{inStack}},
	{"a long chain", "x = " + strings.Repeat("a=>", 1<<20) + fine, []string{inStack}},
	{"else if", strings.Repeat("if(x){}else ", 400_000) + ";" + fine, []string{inStack, inMemory}},
	{"nested types", "type T=" + strings.Repeat("A<", 1<<20) + fine, []string{inStack}},
	{"nested elements of types", "type T=" + strings.Repeat("{a:", 1<<20) + fine, []string{inStack}},
	{"enums that double", doubling() + fine, []string{inMemory}},
	{"arrows after a condition", "x=()=>" + strings.Repeat("a?(b):c=>", 40) + "d\n" + fine, []string{inTime}},
	{"arrows in parentheses", "x=()=>" + strings.Repeat("a?(b):c=>(", 40) + "d" + strings.Repeat(")", 40) + "\n" + fine, []string{inTime}},
	{"arrows with blocks", "x=()=>" + strings.Repeat("a?(b):c=>{", 40) + "d" + strings.Repeat("}", 40) + "\n" + fine, []string{inTime}},
	{"infer extends", "type T=" + strings.Repeat("infer B extends (", 40) + "C" + strings.Repeat(")?D:E", 40) + "\n" + fine, []string{inTime}},
	{"loop", "for (;;);", []string{inTime}},
	{"loop that catches", "for (;;) try { for (;;); } catch {}", []string{inTime}},
	{"native loop", "Array.prototype.indexOf.call({length: 2 ** 53 - 1}, 1)", []string{inTime}},
	{"jobs", "const f = () => { Promise.resolve().then(f) }; f()\n" + fine, []string{inTime}},
	{"getter that loops", `export default {get name() { for (;;); }, description: "d", call() {}}`, []string{inTime}},
	{"toJSON that loops", `export default {name: "a", description: "d", inputSchema: {type: "object", toJSON() { for (;;); }}, call() {}}`, []string{inTime}},
	{"proxy that loops", `export default new Proxy({}, {get() { for (;;); }})`, []string{inTime}},
	{"error that loops", `throw Object.defineProperty(new Error("x"), "stack", {get() { for (;;); }})`, []string{inTime}},
	{"log", `for (;;) console.log("x".repeat(1e6))`, []string{inTime}},
	{"large definition", `const all = []; for (let i = 0; i < 1e5; i++) all.push("x" + i); ` +
		`export default {name: "a", description: "d", inputSchema: {type: "object", all}, call() {}}`, []string{"are larger than 262144 bytes"}},
	{"large description", `export default {name: "a", description: "x".repeat(4e6), call() {}}`, []string{"are larger than 262144 bytes"}},
	{"large message", `throw new Error("x".repeat(4e6))`, []string{"Error: xxx"}},
	{"long lines of a message", "throw new Error('one\\n    at x (/etc/passwd:1:2)\\ngoroutine 1')", []string{"a.ts:1:11: Error: one"}},
	{"definition that is no object in JSON", `Object.prototype.toJSON = () => "text"; ` + fine, []string{"a.ts: name, description and inputSchema cannot be written as JSON"}},
	{"objects", `const all = []; for (;;) all.push({})`, []string{"out of memory"}},
	{"buffers", `const all = []; for (;;) all.push(new Uint8Array(1e6).fill(1))`, []string{"out of memory"}},
	{"deep schema", `let s = {type: "object"}; for (let i = 0; i < 1e6; i++) s = {type: "object", s}; ` +
		`export default {name: "a", description: "d", inputSchema: s, call() {}}`, []string{"RangeError", "out of memory", "InternalError", "did not load: "}},
	{"escapes", "'" + strings.Repeat(`\u{`, 1<<20), []string{"a.ts:1:"}},
	{"5 MiB of escapes", strings.Repeat(`\u{`, 5<<20/3), []string{"a.ts:1:"}},
	{"top-level await", "await new Promise(() => {})\n" + fine, []string{"Top-level await"}},
	{"no export", "", []string{"name of the default export is not a string"}},
	{"not UTF-8", "\xff", []string{"a.ts is not UTF-8"}},
	{"a frame of the protocol", "console.log('\\0\\0\\0\\x0cB\\0\\0\\0\\x02{}'); throw new Error('end')", []string{"Error: end"}},
	{"the host function", "globalThis.__host('definition', '{\"name\":\"forged\"}')\n" + fine, []string{"not a function"}},
}

func TestHostileFiles(t *testing.T) {
	t.Parallel()
	before := resident(t)
	for _, row := range hostile {
		t.Run(row.name, func(t *testing.T) {
			limit := patience
			if row.want[0] == inTime {
				limit = 300 * time.Millisecond
			}
			_, err := check(t, "a.ts", row.source, limit)
			var fault *js.FileError
			require.ErrorAs(t, err, &fault)
			found := false
			for _, want := range row.want {
				found = found || strings.Contains(fault.Reason, want)
			}
			require.True(t, found, fault.Reason)
			require.LessOrEqual(t, len(fault.Reason), 1<<10)
			require.NotContains(t, fault.Reason, "\n")
			require.NotContains(t, fault.Reason, "goroutine")
			require.NotContains(t, fault.Reason, "passwd")
		})
	}
	runtime.GC()
	require.Less(t, resident(t)-before, 256<<20, "bytes that this process grew by")
}

// The name is that of the definition, however the file makes it.
func TestNamesThatAreReported(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		fine: "fine",
		`const parts = ["we", "ath", "er"]; export default defineTool({name: parts.join(""), description: "d", call() {}})`:     "weather",
		`class Base { description = "d"; call() {} }; export default new (class extends Base { name = "of_a_class" })()`:        "of_a_class",
		`export default {name: "../../x", description: "d", call() {}}`:                                                         "../../x",
		`export default {name: "Bash", description: "d", call() {}}`:                                                            "Bash",
		`globalThis.defineTool = () => ({name: "theirs", description: "d", call() {}}); export default globalThis.defineTool()`: "theirs",
		"let x\n/'/; // '\n" + fine: "fine",
	} {
		name, err := check(t, "a.mts", source, patience)
		require.NoError(t, err)
		require.Equal(t, want, name)
	}
}

// A file that is checked reaches nothing: no request leaves this process.
func TestACheckHasNoNetwork(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	t.Cleanup(server.Close)
	_, err := js.Check(t.Context(), js.Config{Command: []string{workerProgram()}, LoadTime: patience, Client: server.Client()}, "a.ts",
		`const f = fetch; fetch(`+quoted(server.URL)+`).catch(() => {}); f(`+quoted(server.URL)+`)
const seen = [typeof process, typeof std, typeof os, typeof WebAssembly]
if (seen.some(kind => kind !== "undefined")) throw new Error(seen.join())`+"\n"+fine)
	require.NoError(t, err)
	require.Zero(t, requests.Load())
}

// The end of the context ends the worker. A command that starts no worker is not a fault of the
// file.
func TestEndsOfChecks(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	began := make(chan struct{})
	go func() {
		<-began
		cancel(context.Canceled)
	}()
	close(began)
	_, err := js.Check(ctx, js.Config{Command: []string{workerProgram()}, LoadTime: patience}, "a.ts", "for (;;);")
	require.ErrorIs(t, err, context.Canceled)
	for _, command := range [][]string{{"/bin/false"}, {"/bin/sh", "-c", "exit 3"}, {"/nowhere/worker"}} {
		_, err = js.Check(t.Context(), js.Config{Command: command}, "a.ts", fine)
		require.Error(t, err)
		var fault *js.FileError
		require.NotErrorAs(t, err, &fault)
	}
}

// The file has taken over its worker, which has read it and writes what it wants.
func TestAWorkerThatIsTakenOver(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"writes without end":      `exec 3<&0; grep -q -m1 fine <&3; cat <&3 >/dev/null & exec cat /dev/zero`,
		"writes valid frames":     `exec 3<&0; grep -q -m1 fine <&3; cat <&3 >/dev/null & exec sh -c 'while :; do printf "\0\0\0\007L\0\0\0\002{}"; done'`,
		"announces a large frame": `exec 3<&0; grep -q -m1 fine <&3; cat <&3 >/dev/null & printf "\377\377\377\377"; sleep 1000`,
		"announces 16 MiB":        `exec 3<&0; grep -q -m1 fine <&3; cat <&3 >/dev/null & printf "\0\377\377\377B"; exec cat /dev/zero`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := js.Check(t.Context(), js.Config{Command: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}, LoadTime: patience}, "a.ts", fine+"\n")
			var fault *js.FileError
			require.ErrorAs(t, err, &fault)
			require.Contains(t, fault.Reason, "a.ts did not load: ")
		})
	}
}
