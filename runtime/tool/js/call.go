package js

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/runtime/tool"
)

// maxInput bounds the bytes of a call's input, so that it fits a frame.
const maxInput = 8 << 20

// program is a tool's file, compiled. All agents that have the same bytes share one.
type program struct {
	id     string // hash of the bytes, and the file's name
	file   string
	code   string
	source sourceMap
	spec   tool.Spec

	ready chan struct{} // closed when it is loaded, or cannot be
	err   error
}

// custom is a tool in a file.
type custom struct {
	host    *Host
	program *program
}

func (c custom) Spec() tool.Spec { return c.program.spec }

// Call runs the tool's call() in a worker. What it throws is a result with IsError. An error says that there is no
// result: ctx has ended, or the worker.
func (c custom) Call(ctx context.Context, call tool.Call) (tool.Result, error) {
	var result tool.Result
	err := retry(ctx, func() (err error) {
		result, err = c.host.call(ctx, c.program, call)
		return err
	})
	switch {
	case err == nil:
		return result, nil
	case ctx.Err() != nil:
		return tool.Result{}, fmt.Errorf("%s was stopped: %w", c.program.spec.Name, context.Cause(ctx))
	}
	return tool.Result{}, fmt.Errorf("%s has no result: %w", c.program.spec.Name, err)
}

func (h *Host) call(ctx context.Context, prog *program, call tool.Call) (tool.Result, error) {
	if len(call.Input) > maxInput {
		return tool.Result{}, fmt.Errorf("the input is larger than %d bytes", maxInput)
	}
	p, err := h.acquire(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	defer h.release(p)
	j := &job{id: h.calls.Add(1), program: prog}
	about := []any{"tool", prog.spec.Name, "run_id", call.RunID, "session_id", call.SessionID}
	j.log = logWriter{log: h.cfg.Logger, ctx: ctx, attrs: about}
	answer, err := p.do(ctx, j, func() error {
		if err := p.learn(prog); err != nil {
			return err
		}
		head := callHead{Call: j.id, Program: prog.id, Session: call.SessionID, Run: call.RunID}
		return p.out.write(frameCall, head, string(call.Input))
	})
	if err != nil {
		return tool.Result{}, err
	}
	if err := ctx.Err(); err != nil {
		return tool.Result{}, err
	}
	var head resultHead
	if err := json.Unmarshal(answer.head, &head); err != nil || answer.kind != frameResult || head.Call != j.id {
		p.kill()
		return tool.Result{}, fmt.Errorf("%w: not the result of this call", errFrame)
	}
	result := tool.Result{Output: strings.ToValidUTF8(answer.body, "\uFFFD"), IsError: head.IsError, Truncated: head.Truncated}
	if head.Stack != "" {
		result.Output = withStack(result.Output, head.Stack, prog.source.places(), prog.file)
	}
	return h.cut(result), nil
}

// cut bounds a result, and tells the model what is missing.
func (h *Host) cut(r tool.Result) tool.Result {
	if output := prefix(r.Output, h.cfg.MaxOutput); len(output) < len(r.Output) {
		r.Output, r.Truncated = output, true
	}
	if r.Truncated {
		r.Output += fmt.Sprintf("\n[the result is longer than %d bytes and ends here]", h.cfg.MaxOutput)
	}
	return r
}

// prefix gives the first bytes of a text, whole characters.
func prefix(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// maxLines bounds the lines of a call that go to the log.
const maxLines = 100

// logWriter writes what a script logs. One goroutine uses it.
type logWriter struct {
	log   *slog.Logger
	ctx   context.Context
	attrs []any
	lines int
}

func (l *logWriter) write(h logHead, text string) {
	switch l.lines++; {
	case l.lines == maxLines+1:
		l.log.DebugContext(l.ctx, "custom tool says more, which is left out", l.attrs...)
	case l.lines <= maxLines:
		text = strings.ToValidUTF8(prefix(text, 4096), "\uFFFD")
		l.log.DebugContext(l.ctx, "custom tool says", append(slices.Clip(l.attrs), "level", h.Level, "text", text)...)
	}
}
