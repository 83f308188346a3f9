package soak_test

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// topLevels are what the files of tools do when they are loaded a while after the start.
var topLevels = []string{
	`for (;;) try { for (;;); } catch {}`, `Array.prototype.indexOf.call({length: 2 ** 53 - 1}, 1)`, `const f = () => { Promise.resolve().then(f) }; f()`,
	`const all = []; for (;;) all.push(new Uint8Array(1e6).fill(1))`, `for (;;) { try { const all = []; for (;;) all.push(new Uint8Array(1e6)) } catch {} }`,
	`globalThis.x = new Uint8Array(60e6)`, `throw new Proxy({}, {get() { for (;;); }})`, `for (let i = 0; i < 1e6; i++) new Promise(() => {}).then(() => i)`,
}

// bodies are what the tools do in a call.
var bodies = []string{
	`for (;;);`, `const all = []; for (;;) all.push({})`, `for (;;) await null`, `for (;;) Promise.resolve().then(() => 1)`, `let s = "x"; for (;;) s += s`,
	`for (let i = 0; i < 1e5; i++) setTimeout(() => {}, 1e6); await new Promise(() => {})`, `for (;;) console.log("x".repeat(1e4))`, `return "x".repeat(3e7)`,
}

func scripts(t *testing.T) attack {
	begin := time.Now().Add(5 * time.Second) // the runtime has started by then
	var files []string
	for i := range topLevels {
		late := fmt.Sprintf("if (Date.now() > %d) { %s }", begin.UnixMilli(), topLevels[i])
		top, body := fmt.Sprintf("top%d", i), fmt.Sprintf("body%d", i)
		files = append(files, top+".ts", toolFile(top, late, anyInput, `return "done"`), body+".ts", toolFile(body, "", anyInput, bodies[i]))
	}
	s := startRuntime(t, "", "", files...)
	return attack{server: s, pause: 250 * time.Millisecond, other: s.goodRun, step: func(ctx context.Context, n int) error {
		return s.expect(ctx, "bad", fmt.Sprintf([]string{"top%d {}", "body%d {}"}[n%2], n/2%len(topLevels)), "result: ")
	}}
}
