package js_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/internal/toolschema"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/tool/js"
)

// The worker is the test binary, with the race detector if the tests run with it.
func TestToolOfAFile(t *testing.T) {
	t.Parallel()
	var logged logtest.Buffer
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "c d") }))
	t.Cleanup(server.Close)
	h, err := js.New(js.Config{Client: server.Client(), Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	require.NoError(t, err)
	h.SetLimits(patience, patience, patience, patience)
	subject, err := h.Load(t.Context(), write(t, "word_count.ts", `
import {defineTool} from "agenthost"
interface Input { text: string; url?: string; wait?: boolean }
export default defineTool({
	name: "word_count",
	description: "Counts the words of a text.",
	inputSchema: {type: "object", properties: {text: {type: "string"}}, required: ["text"]},
	async call({text, url, wait}: Input, {signal}): Promise<string> {
		if (url) text += await (await fetch(url)).text()
		if (wait) await new Promise(done => { signal.onabort = done; setTimeout(done, 1e6) })
		return String(text.split(/\s+/).filter(Boolean).length)
	},
})`))
	require.NoError(t, err)
	require.Equal(t, "word_count", subject.Spec().Name)
	require.Equal(t, "Counts the words of a text.", subject.Spec().Description)
	require.JSONEq(t, `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`,
		string(subject.Spec().InputSchema))
	require.False(t, subject.Spec().ReadOnly)
	for range 2 {
		require.Equal(t, tool.Result{Output: "3"}, call(t, subject, `{"text":"a  b c"}`))
		require.Equal(t, tool.Result{Output: "4"}, call(t, subject, `{"text":"a b ","url":`+quoted(server.URL)+`}`))
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		_, err := subject.Call(ctx, tool.Call{Input: json.RawMessage(`{"wait":true,"text":""}`)})
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualError(t, err, "word_count was stopped: context deadline exceeded")
	}
	require.NoError(t, h.Close())
	require.NotContains(t, logged.String(), "stderr", "a worker that wrote something: a data race for instance")
}

const fine = `export default {name: "fine", description: "Does nothing.", call() {}}`

func hashOf(source string) string {
	sum := sha256.Sum256([]byte(source))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Each schema that permits an object is that of a tool, and so is none at all.
func TestSchemasOfAnyObject(t *testing.T) {
	t.Parallel()
	h := newHost(t, js.Config{})
	for _, schema := range []string{"", "inputSchema: {},", "inputSchema: undefined,", "inputSchema: {type: null},", `inputSchema: {type: ["null", "object"]},`,
		`inputSchema: {properties: {a: {type: "string"}}},`, `inputSchema: {description: "anything"},`} {
		subject := load(t, h, `export default {name: "subject", description: "d", `+schema+` call(input: any) { return Object.keys(input).join() }}`)
		_, err := toolschema.Fit(subject.Spec().InputSchema)
		require.NoError(t, err, schema)
		require.Equal(t, tool.Result{Output: "a,b"}, call(t, subject, `{"a": "1", "b": 2}`), schema)
	}
}

func TestFaultyFiles(t *testing.T) {
	t.Parallel()
	h := newHost(t, js.Config{})
	rows := []struct{ name, file, source, want string }{
		{"syntax", "a.ts", "export default {\n  name: 'x',\n  call() { 1 + }\n}", `a.ts:3:16: Unexpected "}"`},
		{"types are no JavaScript", "a.js", "let x: number = 1", `a.js:1:6: Expected ";" but found ":"`},
		{"not even the engine", "a.js", "\n\nexport default {name: 'a', description: 'b', call() { return /(?<a>x)(?<a>y)/ }}",
			"a.js:3"},
		{"no default export", "a.ts", "export const x = 1", "there is no default export"},
		{"nothing", "a.ts", "", "name of the default export is not a string"},
		{"a number", "a.ts", "export default 1", "the default export is not an object"},
		{"null", "a.ts", "export default null", "the default export is not an object"},
		{"no name", "a.ts", "export default {}", "name of the default export is not a string"},
		{"a bad name", "a.ts", `export default {name: "a b", description: "d", call() {}}`,
			`a.ts: the name "a b" does not consist of 1 to 64 letters, digits, _ and -`},
		{"a long name", "a.ts", `export default {name: "a".repeat(65), description: "d", call() {}}`, "does not consist of 1 to 64 letters"},
		{"a name of an MCP server", "a.ts", `export default {name: "mcp__files__read", description: "d", call() {}}`, "names that begin with mcp__ are those of MCP servers"},
		{"a name of an MCP server in capitals", "a.ts", `export default {name: "MCP__x", description: "d", call() {}}`, "names that begin with mcp__ are those of MCP servers"},
		{"a built-in name", "a.ts", `export default {name: "Bash", description: "d", call() {}}`, "a.ts: the name Bash is that of the built-in tool Bash"},
		{"a built-in name in another letter case", "a.ts", `export default {name: "wEBfETCH", description: "d", call() {}}`, "a.ts: the name wEBfETCH is that of the built-in tool WebFetch"},
		{"no description", "a.ts", `export default {name: "a", call() {}}`, "description of the default export is not a string"},
		{"an empty description", "a.ts", `export default {name: "a", description: "", call() {}}`, "the description is empty"},
		{"a large description", "a.ts", `export default {name: "a", description: "x".repeat(3e5), call() {}}`,
			"are larger than 262144 bytes"},
		{"no call", "a.ts", `export default {name: "a", description: "d", call: 1}`, "call of the default export is not a function"},
		{"a schema that is none", "a.ts", `export default {name: "a", description: "d", inputSchema: [], call() {}}`,
			"inputSchema of the default export is not an object"},
		{"a schema of a string", "a.ts", `export default {name: "a", description: "d", inputSchema: {type: "string"}, call() {}}`, `inputSchema of the default export is not of type "object"`},
		{"a circle of a schema", "a.ts", `const s: any = {type: "object"}; s.s = s; export default {name: "a", description: "d", inputSchema: s, call() {}}`, "circular reference"},
		{"it throws", "a.ts", "// one\ntype T = string\nfunction f(): never {\n  throw new TypeError('no')\n}\nf()\n" + fine,
			"load custom tool a.ts: a.ts:4:13: TypeError: no"},
		{"it fetches", "a.ts", "fetch('https://example.com').catch(() => {})\nsetTimeout(() => {})\n" + fine,
			"a.ts:2:1: Error: setTimeout works only within call(), not while the file is loaded"},
		{"another import", "a.ts", "import fs from 'node:fs'\nfs.x\n" + fine,
			`a.ts:1:16: cannot import "node:fs": a tool is one file and can import only "agenthost"`},
		{"another file", "a.ts", "export * from './b'\n" + fine, `cannot import "./b"`},
		{"require", "a.js", "const fs = require('fs')\n" + fine, `cannot import "fs"`},
		{"await at the top", "a.ts", "await null\n" + fine, `a.ts:1:1: Top-level await`},
		{"large to load", "a.ts", "globalThis.x = new Uint8Array(60e6)\n" + fine, "InternalError: out of memory"},
		{"not UTF-8", "a.ts", "// \xff\n" + fine, "a.ts is not UTF-8"},
		{"large", "a.ts", fine + strings.Repeat(" ", 5<<20), "the file is larger than 5242880 bytes"},
		{"another language", "a.py", "", `"a.py" is not a .ts, .mts, .js or .mjs file`},
		{"nested without end", "a.js", strings.Repeat("(", 1<<19), "a.js did not load: the limit of the stack was reached: it is nested too deeply"},
		{"a long chain", "a.ts", "x = " + strings.Repeat("a=>", 1<<18), "a.ts did not load: the limit of the stack was reached: it is nested too deeply"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, err := h.Load(t.Context(), write(t, row.file, row.source))
			require.ErrorContains(t, err, row.want)
			require.ErrorContains(t, err, "load custom tool "+row.file+": ")
			require.Less(t, len(err.Error()), 1000)
			require.NotContains(t, err.Error(), "\n")
		})
	}
	_, err := h.Load(t.Context(), agent.CustomTool{Path: t.TempDir()})
	require.ErrorContains(t, err, "is not a file")
	_, err = h.Load(t.Context(), agent.CustomTool{Path: "/nowhere/a.ts"})
	require.ErrorIs(t, err, os.ErrNotExist)
	def := write(t, "a.ts", fine)
	def.Name = "other"
	_, err = h.Load(t.Context(), def)
	require.EqualError(t, err, `load custom tool other: the name in a.ts is "fine"`)
}

func TestAFileThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	h := newHost(t, js.Config{})
	for _, source := range []string{"for (;;);", "Array.prototype.indexOf.call({length: 2 ** 53 - 1}, 1)"} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := h.Load(ctx, write(t, "a.ts", source))
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "a.ts did not load in time")
	}
	require.Empty(t, call(t, load(t, h, fine), `{}`).Output)
}

func TestToolsByURL(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/tools/fine.ts", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, fine) })
	mux.HandleFunc("/blob", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "\uFEFF"+fine) })
	mux.HandleFunc("/large.ts", func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(make([]byte, 6<<20)) })
	mux.HandleFunc("/slow.ts", func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	h := newHost(t, js.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	loaded, err := h.Load(ctx, agent.CustomTool{Name: "fine", URL: server.URL + "/tools/fine.ts?signature=s3cret",
		Hash: hashOf(fine)})
	require.NoError(t, err)
	require.Equal(t, tool.Spec{Name: "fine", Description: "Does nothing."}, loaded.Spec())
	loaded, err = h.Load(ctx, agent.CustomTool{Name: "fine", URL: server.URL + "/blob", FileName: "../fine.mjs",
		Hash: hashOf("\uFEFF" + fine)})
	require.NoError(t, err)
	require.Empty(t, call(t, loaded, `{}`))

	for path, want := range map[string]string{
		"/tools/fine.ts?signature=s3cret": "its hash is " + hashOf(fine) + ", want " + hashOf("other"),
		"/none.ts?signature=s3cret":       "get " + server.URL + "/none.ts: status 404 Not Found",
		"/large.ts":                       "the file is larger than 5242880 bytes",
		"/blob":                           `"blob" is not a .ts, .mts, .js or .mjs file`,
	} {
		_, err := h.Load(ctx, agent.CustomTool{Name: "fine", URL: server.URL + path, Hash: hashOf("other")})
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "s3cret")
	}
	_, err = h.Load(ctx, agent.CustomTool{Name: "fine", URL: "http://127.0.0.1:1/a.ts?s3cret"})
	require.ErrorContains(t, err, "load custom tool fine: get http://127.0.0.1:1/a.ts: dial tcp")
	require.NotContains(t, err.Error(), "s3cret")
	_, err = h.Load(ctx, agent.CustomTool{Name: "fine", URL: "file:///etc/passwd"})
	require.ErrorContains(t, err, "its url is not an http or https address")
	soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = h.Load(soon, agent.CustomTool{Name: "fine", URL: server.URL + "/slow.ts"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// The size of a file is limited as in the hub. The memory of the engine limits its content.
func TestLargestFile(t *testing.T) {
	t.Parallel()
	h := newHost(t, js.Config{})
	source := body("return 'ok'")
	source += "\n//" + strings.Repeat("x", 5<<20-len(source)-3)
	require.Equal(t, tool.Result{Output: "ok"}, call(t, load(t, h, source), `{}`))
}
