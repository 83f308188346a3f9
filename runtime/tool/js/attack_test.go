package js_test

import (
	"context"
	"encoding/json"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/tool/js"
)

const (
	stops   = "stops"   // the call ends with its context
	fails   = "fails"   // with an error result or the end of the worker
	answers = "answers" // with a harmless result
	ends    = "ends"    // in any of these ways
)

// attacks are bodies of call(). The call ends soon after its context, the memory of this process
// does not grow, and the next call is not affected.
var attacks = []struct{ name, want, code string }{
	{"loop", stops, `while (true);`},
	{"loop that catches", stops, `while (true) try { while (true); } catch {} finally { continue }`},
	{"loop in a job", stops, `await null; while (true);`},
	{"loop in a timer", stops, `setTimeout(() => { while (true); }); await new Promise(() => {})`},
	{"jobs that make jobs", stops, `const f = () => { Promise.resolve().then(f) }; f(); await new Promise(() => {})`},
	{"await for ever", stops, `for (;;) await null`},
	{"async iterator", stops, `const g = async function* () { for (;;) yield 1 }; for await (const x of g());`},
	{"generator", stops, `const g = function* () { for (;;) yield 1 }; for (const x of g());`},
	{"iterator that does not end", ends, `return [...{[Symbol.iterator]: () => ({next: () => ({value: 1, done: false})})}]`},
	{"native loop: indexOf", stops, `return Array.prototype.indexOf.call({length: 2 ** 53 - 1}, 1)`},
	{"native loop: includes", stops, `return Array.prototype.includes.call({length: 2 ** 53 - 1}, 1)`},
	{"native loop: join", ends, `return Array.prototype.join.call({length: 2 ** 32 - 1}, "")`},
	{"native loop: sort", ends, `return Array.prototype.sort.call({length: 2 ** 53 - 1})`},
	{"native loop: fill", ends, `new Array(1e7).fill(0).sort(() => 1); for (;;) new Uint8Array(3e7).fill(1).sort()`},
	{"slow expression", stops, `return /^(a+)+$/.test("a".repeat(40) + "b")`},
	{"slow replacement", ends, `return "a".repeat(1e6).replace(/(a*)*b/g, "")`},
	{"big integer", ends, `let x = 3n; for (;;) x = x * x`},
	{"big integer, one step", ends, `return String((10n ** 300000n) ** 20n)`},

	{"large buffer", fails, `return new ArrayBuffer(8e9).byteLength`},
	{"buffers", fails, `const all = []; for (;;) all.push(new Uint8Array(1e6).fill(1))`},
	{"array growth", fails, `const all = []; for (;;) all.push({})`},
	{"array by its length", ends, `const a = []; a.length = 2 ** 32 - 1; return a.fill(0).length`},
	{"string doubling", fails, `let s = "x"; for (;;) s += s`},
	{"string repeat", fails, `return "x".repeat(2 ** 30 - 2) + "é"`},
	{"string padding", fails, `return "x".padEnd(2 ** 30 - 2, "yz")`},
	{"map growth", ends, `const m = new Map(); for (let i = 0; ; i++) m.set(i, "x" + i)`},
	{"closure growth", fails, `let f = () => 0; for (;;) { const g = f; f = () => g }`},
	{"memory that is caught", ends, `for (;;) { try { const all = []; for (;;) all.push(new Uint8Array(1e6)) } catch {} }`},
	{"shared memory", fails, `const all = []; for (;;) all.push(new SharedArrayBuffer(1e7))`},
	{"growing buffer", ends, `return new ArrayBuffer(1, {maxByteLength: 8e9}).resize(4e9)`},

	{"recursion", fails, `const f = () => f() + 1; return f()`},
	{"recursion that catches", ends, `const f = () => { try { f() } catch { f() } }; return f()`},
	{"recursion of proxies", fails, `let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); return p.x`},
	{"recursion of getters", fails, `const o = {get x() { return this.x }}; return o.x`},
	{"recursion in sort", fails, `const f = () => [2, 1].sort(f); return f()`},
	{"recursion in toString", fails, `const o = {toString() { return "" + o }}; return "" + o`},
	{"recursion in replace", fails, `const f = () => "a".replace("a", f); return f()`},
	{"recursion in JSON.parse", fails, `return JSON.parse("[".repeat(1e6))`},
	{"recursion in an expression", fails, `return new RegExp("(".repeat(1e6))`},
	{"recursion in the compiler", fails, `return eval("(".repeat(1e6))`},
	{"recursion in the compiler of arrays", fails, `return eval("[".repeat(1e6))`},
	{"many locals", ends, `let s = ""; for (let i = 0; i < 60000; i++) s += "var a" + i + ";"; const f = new Function("g", s + "return g(g)"); return f(f)`},
	{"many arguments", fails, `const f = (...a) => f(...a, ...a, 1); return f(1)`},
	{"many arguments at once", fails, `return Math.max.apply(null, {length: 2 ** 31})`},
	{"many bound arguments", fails, `let f = Math.max; for (let i = 0; i < 1e5; i++) f = f.bind(null, 1); return f()`},

	{"deep result", fails, `let o = {}; for (let i = 0; i < 1e6; i++) o = {o}; return o`},
	{"wide result", ends, `return Array.from({length: 3e6}, () => 1)`},
	{"large result", answers, `return "x".repeat(3e7)`},
	{"larger result", fails, `return "x".repeat(1e9)`},
	{"JSON that grows", ends, `let o = "xxxxxxxxxxxxxxxx"; for (let i = 0; i < 40; i++) o = [o, o]; return o`},
	{"circle", fails, `const o = {}; o.o = o; return o`},
	{"getter of the result loops", stops, `return {get x() { while (true); }}`},
	{"toJSON of the result loops", stops, `return {toJSON() { while (true); }}`},
	{"toJSON of the result throws", fails, `return {toJSON() { throw null }}`},
	{"proxy as a result", stops, `return new Proxy({}, {ownKeys() { while (true); }})`},
	{"then that loops", stops, `return {then() { while (true); }}`},
	{"then that is a getter", fails, `return Object.defineProperty({}, "then", {get() { throw new Error("no") }})`},
	{"then that is itself", ends, `const p = {then(f) { f(p) }}; return p`},
	{"integer as a result", fails, `return 1n`},
	{"a promise that nothing settles", fails, `return new Promise(() => {})`},
	{"a then that never answers", fails, `return {then() {}}`},
	{"symbol as a result", answers, `return Symbol("x")`},

	{"throws null", fails, `throw null`},
	{"throws nothing", fails, `throw undefined`},
	{"throws a symbol", fails, `throw Symbol("x")`},
	{"throws a proxy", fails, `throw new Proxy({}, {get() { throw 1 }, has() { throw 2 }, getPrototypeOf() { throw 3 }})`},
	{"throws a proxy that loops", stops, `throw new Proxy({}, {get() { while (true); }})`},
	{"throws a stack that loops", stops, `throw Object.defineProperty(new Error("x"), "stack", {get() { while (true); }})`},
	{"throws a large message", fails, `throw new Error("x".repeat(3e7))`},
	{"throws a text that loops", stops, `throw {toString() { while (true); }, toJSON() { while (true); }}`},
	{"converts", stops, `return +{[Symbol.toPrimitive]() { while (true); }}`},
	{"uncaught in a timer", fails, `setTimeout(() => { throw new Error("late") }); await new Promise(() => {})`},

	{"log flood", stops, `for (;;) console.log("x".repeat(1e4), {a: 1})`},
	{"timer flood", ends, `for (;;) setTimeout(() => {}, 1e6)`},
	{"interval after the result", answers, `setInterval(() => {}, 1); return 1`},
	{"job after the result", answers, `setTimeout(() => { while (true); }); Promise.resolve().then(() => 1); return 1`},
	{"import", fails, `const name = ["f", "s"].join(""); return await import(name)`},
	{"import of the engine", fails, `const name = ["st", "d"].join(""); return await import(name)`},
	{"import of a file", fails, `const name = ["", "etc", "passwd"].join("/"); return await import(name)`},
	{"wait", fails, `return Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)`},
	{"WebAssembly", fails, `return WebAssembly`},
	{"eval", answers, `return eval("typeof std + typeof os + typeof require") + new Function("return typeof process")()`},
	{"async function constructor", fails, `return await (async () => {}).constructor("return await import('os' + '')")()`},
	{"prelude overwritten", ends, `JSON.stringify = JSON.parse = Promise.prototype.then = Map.prototype.get = Reflect.apply = () => "faked";
		Array.prototype.push = String.prototype.slice = Function.prototype.call = Function.prototype.apply = () => "faked";
		globalThis.fetch = globalThis.setTimeout = globalThis.URL = null; return {a: 1}`},
	{"prototypes polluted", ends, `Object.prototype.isError = Object.prototype.then = Object.prototype.toJSON = "x"; Array.prototype[0] = "x"; return {a: 1}`},
	{"setter on Object.prototype", ends, `Object.defineProperty(Object.prototype, "value", {set() { while (true); }, get() { while (true); }}); return {a: 1}`},
	{"names frozen", ends, `Object.freeze(globalThis); Object.freeze(Object.prototype); return 1`},
	{"weak references", ends, `for (;;) new FinalizationRegistry(() => { while (true); }).register({})`},
	{"fetch flood", ends, `for (let i = 0; i < 10000; i++) fetch("http://127.0.0.1:1/").catch(() => {}); await fetch("http://127.0.0.1:1/")`},
}

func TestAttacks(t *testing.T) {
	h := newHost(t, js.Config{Workers: 2})
	good := load(t, h, wordCount)
	require.Equal(t, "2", call(t, good, `{"text":"a b"}`).Output)
	state := load(t, h, body(`const seen = [globalThis.mark, typeof fetch, JSON.stringify({a: 1}), [].length, {}.isError]; globalThis.mark = 1; return seen`))
	clean := call(t, state, `{}`)
	before := resident(t)
	for _, row := range attacks {
		t.Run(row.name, func(t *testing.T) {
			bad := load(t, h, body(row.code))
			limit := 100 * time.Millisecond
			if row.want != stops && row.want != ends {
				limit = patience
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			began := time.Now()
			result, err := bad.Call(ctx, tool.Call{Input: json.RawMessage(`{}`)})
			took := time.Since(began)
			require.Less(t, took, limit+patience)
			require.Less(t, len(result.Output), 1<<20+200)
			switch row.want {
			case stops:
				require.ErrorIs(t, err, context.DeadlineExceeded)
			case fails:
				require.True(t, err != nil && ctx.Err() == nil || result.IsError, "%v %v", err, result.Output[:min(len(result.Output), 200)])
			case answers:
				require.NoError(t, err)
				require.False(t, result.IsError, result.Output)
			}
			require.Equal(t, tool.Result{Output: "2"}, call(t, good, `{"text":"a b"}`))
			require.Equal(t, clean, call(t, state, `{}`))
		})
	}
	runtime.GC()
	require.Less(t, resident(t)-before, 64<<20, "bytes that this process grew by")
}

// resident returns the resident memory of this process.
func resident(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	require.NoError(t, err)
	return pages * os.Getpagesize()
}
