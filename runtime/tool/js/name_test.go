package js_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/runtime/tool/js"
)

// nameOf parses a file with time for a busy machine, unless that does not end.
func nameOf(t *testing.T, file, source string, limit time.Duration) (string, error) {
	t.Helper()
	return js.Config{Command: []string{workerProgram()}, LoadTime: limit}.NameOf(t.Context(), file, source)
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
	{"escapes", "'" + strings.Repeat(`\u{`, 1<<20), []string{"a.ts:1:"}},
	{"5 MiB of escapes", strings.Repeat(`\u{`, 5<<20/3), []string{"a.ts:1:"}},
	{"top-level await", "await new Promise(() => {})\n" + fine, []string{"Top-level await"}},
	{"another module", "import 'fs'\n" + fine, []string{`cannot import "fs"`}},
	{"another module, as an export", "export * from 'fs'\n" + fine, []string{`cannot import "fs"`}},
	{"brackets that end", "x = " + strings.Repeat("[", 5000) + "1" + strings.Repeat("]", 5000) + "\n" + fine, []string{"too many nested"}},
	{"not UTF-8", "\xff", []string{"a.ts is not UTF-8"}},
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
			_, err := nameOf(t, "a.ts", row.source, limit)
			var fault fileFault
			require.ErrorAs(t, err, &fault)
			found := false
			for _, want := range row.want {
				found = found || strings.Contains(fault.FileFault(), want)
			}
			require.True(t, found, fault.FileFault())
			require.LessOrEqual(t, len(fault.FileFault()), 1<<10)
			require.NotContains(t, fault.FileFault(), "\n")
			require.NotContains(t, fault.FileFault(), "goroutine")
			require.NotContains(t, fault.FileFault(), "passwd")
		})
	}
	runtime.GC()
	require.Less(t, resident(t)-before, 256<<20, "bytes that this process grew by")
}

// The name is the literal text in the default export.
func TestNamesThatAreLiterals(t *testing.T) {
	t.Parallel()
	const rest = `description: "d", call() {}`
	for source, want := range map[string]string{
		fine: "fine",
		`export default {name: "../../x", ` + rest + `}`:                                                            "../../x",
		`export default {'name': 'Bash', ` + rest + `}`:                                                             "Bash",
		`export default {name: ` + "`weather`" + `, ` + rest + `}`:                                                  "weather",
		`export default ({name: ("weather"), ` + rest + `})`:                                                        "weather",
		`export default {name: "weather", ` + rest + `} as const satisfies object`:                                  "weather",
		`const tool: any = {name: "weather", ` + rest + `}; export default tool`:                                    "weather",
		`const tool = {name: "weather", ` + rest + `} as const; export {tool as default}`:                           "weather",
		`export const tool = defineTool<{a: string}>({name: "weather", ` + rest + `}); export default tool`:         "weather",
		`const inner = {name: "weather", ` + rest + `}, outer = defineTool(inner); export default outer`:            "weather",
		`import {defineTool} from "agenthost"; export default defineTool({name: "weather", ` + rest + `})`:          "weather",
		`import {defineTool as d} from "agenthost"; export default d({name: "weather", ` + rest + `})`:              "weather",
		`const NAME = "weather" as const; export default {name: NAME, ` + rest + `}`:                                "weather",
		`const name = "weather"; export default defineTool({name, ` + rest + `})`:                                   "weather",
		`export const a = "weather"; const b = a; export default {name: b, ` + rest + `}`:                           "weather",
		`const base = {` + rest + `}; export default {...base, name: "weather"}`:                                    "weather",
		`const k = "x"; export default {[k]: 1, name: "first", ` + rest + `, name: "weather"}`:                      "weather",
		`export default tool; const tool = {name: "weather", ` + rest + `}`:                                         "weather",
		`for (;;); export default {name: "weather", ` + rest + `}`:                                                  "weather",
		`while (true) { console.log(new Date()) }; export default {name: "weather", get description() { throw 1 }}`: "weather",
		`enum E {A = "weather"}; export default {name: E.A, ` + rest + `}`:                                          "weather",
		"let x\n/'/; // '\n" + fine: "fine",
	} {
		name, err := nameOf(t, "a.mts", source, patience)
		require.NoError(t, err, source)
		require.Equal(t, want, name, source)
	}
}

func TestNamesThatAreNoLiterals(t *testing.T) {
	t.Parallel()
	const rest = `description: "d", call() {}`
	for _, source := range []string{
		"", "export const a = 1", `export default "weather"`, `export default function name() {}`, `export default class { static name = "weather" }`,
		`export default {` + rest + `}`,
		`export default {name: "wea" + "ther", ` + rest + `}`,
		`export default {name: "we\u0061ther", ` + rest + `}`,
		`export default {name: ["wea", "ther"].join(""), ` + rest + `}`,
		"const x = 1; export default {name: `weather${x}`, " + rest + "}",
		"export default {name: String.raw`weather`, " + rest + "}",
		`let name = "weather"; export default {name, ` + rest + `}`,
		`var tool = {name: "weather", ` + rest + `}; export default tool`,
		`const {name} = {name: "weather"}; export default {name, ` + rest + `}`,
		`const [name] = ["weather"]; export default {name, ` + rest + `}`,
		`const a = b, b = a; export default {name: a, ` + rest + `}`,
		`export default {name: "weather", ` + rest + `, ...{name: "other"}}`,
		`const k = "name"; export default {name: "weather", ` + rest + `, [k]: "other"}`,
		`export default {name: "weather", get name() { for (;;); }, ` + rest + `}`,
		`export default {name() {}, ` + rest + `}`,
		`export default {name: 1, ` + rest + `}`, `export default {name: true, ` + rest + `}`, `export default {name: /weather/, ` + rest + `}`,
		`export default {name: globalThis.name, ` + rest + `}`,
		`export default new (class { name = "weather" })()`,
		`export default new Proxy({name: "weather"}, {})`,
		`export default Object.freeze({name: "weather", ` + rest + `})`,
		`export default defineTool({name: "weather", ` + rest + `}, 1)`, `export default defineTool(...[{name: "weather"}])`, `export default defineTool()`,
		`export default true ? {name: "weather"} : {name: "other"}`,
		`const tool = {name: "weather"}; export {tool}`,
		`if (true) { const tool = {name: "weather"} }; export default tool`,
	} {
		_, err := nameOf(t, "a.ts", source, patience)
		var fault fileFault
		require.ErrorAs(t, err, &fault, source)
		require.Contains(t, fault.FileFault(), "the name must be a literal", source)
	}
}

// Nothing of a file runs: neither its top level nor anything that it exports.
func TestNothingRunsForAName(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	t.Cleanup(server.Close)
	var log logtest.Buffer
	cfg := js.Config{
		Command: []string{workerProgram()}, LoadTime: patience, Client: server.Client(), Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}
	name, err := cfg.NameOf(t.Context(), "a.ts", `console.log("it runs", new Date())
fetch(`+quoted(server.URL)+`).catch(() => {})
throw new Error("it runs")
export default {name: "weather", get description() { throw new Error("it runs") }, call() {}}`)
	require.NoError(t, err)
	require.Equal(t, "weather", name)
	require.Zero(t, requests.Load())
	require.NotContains(t, log.String(), "it runs")
}

// The runtime rejects a file whose name is another one when it runs.
func TestTheRuntimeRejectsAnotherName(t *testing.T) {
	t.Parallel()
	source := `const tool = {name: "weather", description: "d", call() {}}; tool.name = "other"; export default tool`
	name, err := nameOf(t, "a.ts", source, patience)
	require.NoError(t, err)
	def := write(t, "a.ts", source)
	def.Name = name
	_, err = newHost(t, js.Config{}).Load(t.Context(), def)
	require.ErrorContains(t, err, `the name in a.ts is "other"`)
}

// endless is a file whose parser does not end.
var endless = "x=()=>" + strings.Repeat("a?(b):c=>", 40) + "d\n" + fine

// The end of the context ends the worker. A command that starts no worker is not a fault of the
// file.
func TestEndsOfNameOf(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	began := make(chan struct{})
	go func() {
		<-began
		cancel(context.Canceled)
	}()
	close(began)
	_, err := js.Config{Command: []string{workerProgram()}, LoadTime: patience}.NameOf(ctx, "a.ts", endless)
	require.ErrorIs(t, err, context.Canceled)
	for _, command := range [][]string{{"/bin/false"}, {"/bin/sh", "-c", "exit 3"}, {"/nowhere/worker"}} {
		_, err = js.Config{Command: command}.NameOf(t.Context(), "a.ts", fine)
		require.Error(t, err)
		var fault fileFault
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
			_, err := js.Config{Command: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}, LoadTime: patience}.NameOf(t.Context(), "a.ts", fine+"\n")
			var fault fileFault
			require.ErrorAs(t, err, &fault)
			require.Contains(t, fault.FileFault(), "a.ts did not load: ")
		})
	}
}

// fileFault is an error that describes a fault of the file.
type fileFault interface{ FileFault() string }
