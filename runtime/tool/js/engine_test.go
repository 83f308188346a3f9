package js_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/tool/js"
)

// TestEnvironment runs small scripts that use the environment of tools.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	h := newHost(t, js.Config{})
	rows := []struct{ name, code, want string }{
		{"a string is the result", `return "a\u0000b é 😀"`, "a\x00b é 😀"},
		{"anything else is JSON", `return {a: [1, null, "x"], at: new Date(0)}`, `{"a":[1,null,"x"],"at":"1970-01-01T00:00:00.000Z"}`},
		{"undefined is nothing", `return`, ""},
		{"null", `return null`, "null"},
		{"a function is nothing", `return () => 1`, ""},
		{"half a character", `return "a\ud800b"`, "a\uFFFDb"},
		{"input and context", `return [input.a, context.sessionId, context.runId, context.signal.aborted]`,
			`[1,"session-1","run-1",false]`},
		{"this", `return this.name`, "subject"},
		{"await and timers", `
			const order = []
			const sleep = (ms: number) => new Promise(done => setTimeout(done, ms))
			setTimeout((x: string) => order.push(x), 0, "t0"); queueMicrotask(() => order.push("micro"))
			const gone = setTimeout(() => order.push("gone"), 1); clearTimeout(gone)
			let n = 0; const every = setInterval(() => { if (++n == 3) clearInterval(every) }, 1)
			order.push("sync"); await null; while (n < 3) await sleep(1); await sleep(5); order.push(n)
			return order.join()`, "sync,micro,t0,3"},
		{"a promise of a promise", `return Promise.resolve({then(f) { f(Promise.resolve(7)) }})`, "7"},
		{"newer syntax", `class A { static #x = 1; static y; static { A.y = A.#x + 1 } accessor z = 3 }; return [A.y, new A().z, [1,2,3].at(-1), Object.groupBy([1], x => "k").k]`, "[2,3,3,[1]]"},
		{"enums and namespaces", `enum E { A = 2, B }; return E[E.B] satisfies string`, "B"},
		{"using", `let closed = ""; { using x = {[Symbol.dispose]() { closed = "yes" }} }; return closed`, "yes"},
		{"text", `const b = new TextEncoder().encode("é😀\ud800"); return [b.length, [...b].join(), new TextDecoder().decode(b), new TextDecoder().decode(new Uint8Array([0xc0, 0x80, 0xed, 0xa0, 0x80, 0xf0, 0x9f]))]`,
			`[9,"195,169,240,159,152,128,239,191,189","é😀�","������"]`},
		{"base64", `return [btoa("a"), btoa("ab"), btoa("abc"), btoa("\xff\xfe"), atob("YWI="), atob(" YWJj "), atob("YQ"), atob("//4=") == "\xff\xfe"]`, `["YQ==","YWI=","YWJj","//4=","ab","abc","a",true]`},
		{"clone", `const a: any = {d: new Date(5), m: new Map([[1, {x: 1}]]), s: new Set([1]), u: new Uint8Array([1,2]), e: new TypeError("no")}; a.self = a
			const b = structuredClone(a); return [b !== a, b.self === b, +b.d, b.m.get(1), [...b.s], b.u[1], b.e.message, b.m.get(1) !== a.m.get(1)]`, `[true,true,5,{"x":1},[1],2,"no",true]`},
		{"random id", `return /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID())`,
			"true"},
		{"abort", `const c = new AbortController(); let n = 0; c.signal.addEventListener("abort", () => n++); c.abort(); c.abort()
			const any = AbortSignal.any([c.signal]); try { any.throwIfAborted() } catch (e) { return [n, e.name, any.aborted, AbortSignal.abort(4).reason] }`, `[1,"AbortError",true,4]`},
		{"abort after a while", `const s = AbortSignal.timeout(5); await new Promise(done => s.onabort = done); return s.reason.name`, "TimeoutError"},
		{"headers", `const h = new Headers({"B": "1", a: " 2 "}); h.append("b", "3"); return [...h]`, `[["a","2"],["b","1, 3"]]`},
		{"a response", `const r = Response.json({a: 1}, {status: 201}); const c = r.clone(); return [r.ok, r.status, r.headers.get("Content-Type"), await r.json(), r.bodyUsed, (await c.bytes()).length]`, `[true,201,"application/json",{"a":1},true,7]`},
		{"UTC and no zone", `return new Date(2024, 0, 1).getTime() === Date.UTC(2024, 0, 1)`, "true"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tool.Result{Output: row.want}, call(t, load(t, h, body(row.code)), `{"a":1}`))
		})
	}
}

func TestURLs(t *testing.T) {
	t.Parallel()
	subject := load(t, newHost(t, js.Config{}), body(`return new URL(input.url, input.base).href`))
	for _, row := range [][3]string{
		{"HTTP://User:pw@EXAMPLE.com:80/a/./b/../c?x=1#y", "", "http://User:pw@example.com/a/c?x=1#y"},
		{"https://example.com", "", "https://example.com/"},
		{"https:example.com/x", "", "https://example.com/x"},
		{`https:\\example.com\x`, "", "https://example.com/x"},
		{"../x?y", "https://a.example/b/c/d?q#h", "https://a.example/b/x?y"},
		{"/x", "https://a.example/b/c", "https://a.example/x"},
		{"//b.example/x", "https://a.example/b/c", "https://b.example/x"},
		{"?x", "https://a.example/b/c?d", "https://a.example/b/c?x"},
		{"#x", "https://a.example/b/c?d", "https://a.example/b/c?d#x"},
		{"https://a.example/ä b?ü=ö", "", "https://a.example/%C3%A4%20b?%C3%BC=%C3%B6"},
		{"http://[::1]:8080/x", "", "http://[::1]:8080/x"},
		{"data:text/plain,hi", "", "data:text/plain,hi"},
	} {
		input := `{"url":` + quoted(row[0])
		if row[1] != "" {
			input += `,"base":` + quoted(row[1])
		}
		require.Equal(t, row[2], call(t, subject, input+"}").Output, row[0])
	}
	for _, bad := range []string{"", "/x", "http://", "http://a b/", "http://a:99999/", "no url"} {
		result := call(t, subject, `{"url":`+quoted(bad)+"}")
		require.True(t, result.IsError, bad)
		require.Contains(t, result.Output, "is no URL")
	}
	parts := load(t, newHost(t, js.Config{}), body(`
		const u = new URL("https://a.example:8443/x?a=1&b=%20c+d"); const p = u.searchParams
		p.append("e", "é&"); u.hash = "h"; u.pathname = "/y z"
		return [u.origin, u.host, u.hostname, u.port, p.get("b"), u.search, u.href, [...new URLSearchParams({x: "1"})], URL.canParse("x")]`))
	require.JSONEq(t, `["https://a.example:8443","a.example:8443","a.example","8443"," c d","?a=1&b=+c+d&e=%C3%A9%26",
		"https://a.example:8443/y%20z?a=1&b=+c+d&e=%C3%A9%26#h",[["x","1"]],false]`, call(t, parts, `{}`).Output)
}

// TestNothingElse checks that scripts cannot access anything else of the host.
func TestNothingElse(t *testing.T) {
	t.Parallel()
	subject := load(t, newHost(t, js.Config{Env: []string{"SECRET=s3cret"}}),
		body(`return Object.getOwnPropertyNames(globalThis).join(" ")`))
	names := strings.Fields(call(t, subject, `{}`).Output)
	for _, absent := range []string{"std", "os", "process", "require", "print", "WebAssembly", "Deno", "navigator",
		"scriptArgs", "__host", "__define", "import"} {
		require.NotContains(t, names, absent)
	}
}

func TestLongResultsAreCut(t *testing.T) {
	t.Parallel()
	h := newHost(t, js.Config{MaxOutput: 10})
	for name, row := range map[string]struct{ code, want string }{
		"fits":       {`return "0123456789"`, "0123456789"},
		"characters": {`return "0123456789x"`, "0123456789\n[the result is longer than 10 bytes and ends here]"},
		"bytes":      {`return "012345678é"`, "012345678\n[the result is longer than 10 bytes and ends here]"},
		"JSON":       {`return "0123456789x".split("")`, "[\"0\",\"1\",\"\n[the result is longer than 10 bytes and ends here]"},
	} {
		result := call(t, load(t, h, body(row.code)), `{}`)
		require.Equal(t, tool.Result{Output: row.want, Truncated: row.want != "0123456789"}, result, name)
	}
	_, err := load(t, h, body(``)).Call(t.Context(), tool.Call{Input: make([]byte, 9<<20)})
	require.EqualError(t, err, "subject has no result: the input is larger than 8388608 bytes")
}
