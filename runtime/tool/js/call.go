package js

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/logquota"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/tool/js/internal/frame"
)

// maxInput limits the bytes of an input, so that it fits into a frame.
const maxInput = 8 << 20

// program is a compiled tool file. Agents with the same file share it.
type program struct {
	id     string // hash of the bytes, and the file's name
	file   string
	code   string
	source frame.SourceMap
	spec   tool.Spec

	ready chan struct{} // closed when loading has succeeded or failed
	err   error

	cold   atomic.Bool // not loaded in advance: it took too long, or ended its worker
	failed atomic.Bool // the last call had no result: it was stopped, or ended its worker
}

// custom is a [tool.Tool] in a file.
type custom struct {
	host    *Host
	program *program
}

func (c custom) Spec() tool.Spec { return c.program.spec }

// Call runs the tool's call() in a worker. An exception is a result with IsError. An error means
// that ctx or the worker has ended without a result.
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

	if prog.cold.Load() || prog.failed.Load() {
		select {
		case h.suspects <- struct{}{}:
			defer func() { <-h.suspects }()
		case <-ctx.Done():
			return tool.Result{}, fmt.Errorf("wait for a worker: %w", context.Cause(ctx))
		}
	}

	p, err := h.acquire(ctx, prog)
	if err != nil {
		return tool.Result{}, err
	}
	defer h.release(p)
	if !slices.Contains(p.ready, prog) {
		if err := h.warm(ctx, p, prog, h.limits.cold); err != nil {
			return tool.Result{}, err
		}
	}

	p.ready = slices.DeleteFunc(p.ready, func(other *program) bool { return other == prog })
	p.last = prog
	j := &job{id: h.calls.Add(1), program: prog}
	about := []any{"tool", prog.spec.Name, "run_id", call.RunID, "session_id", call.SessionID}
	j.log = logWriter{log: h.cfg.Logger, ctx: ctx, attrs: about, quota: call.Log}
	answer, err := p.do(ctx, j, func() error {
		head := frame.Call{Call: j.id, Program: prog.id, Session: call.SessionID, Run: call.RunID}
		return p.out.Write(frame.KindCall, head, string(call.Input))
	})
	if err == nil {
		err = ctx.Err()
	}

	prog.failed.Store(err != nil)
	if err != nil {
		return tool.Result{}, err
	}

	var head frame.Result
	if err := jsonlimit.Unmarshal(answer.head, &head); err != nil || answer.kind != frame.KindResult || head.Call != j.id {
		p.kill()
		return tool.Result{}, fmt.Errorf("%w: not the result of this call", frame.ErrMalformed)
	}

	result := tool.Result{Output: strings.ToValidUTF8(answer.body, "\uFFFD"), IsError: head.IsError, Truncated: head.Truncated}
	return h.cut(result), nil
}

// cut limits a result, with a note for the model.
func (h *Host) cut(r tool.Result) tool.Result {
	if output := excerpt.Head(r.Output, h.cfg.MaxOutput); len(output) < len(r.Output) {
		r.Output, r.Truncated = output, true
	}

	if r.Truncated {
		r.Output += fmt.Sprintf("\n[the result is longer than %d bytes and ends here]", h.cfg.MaxOutput)
	}

	return r
}

// Limits of the log lines of a call.
const (
	maxLines     = 100
	maxLineBytes = 4 << 10
)

// logWriter writes the log lines of a script. It is not safe for concurrent use.
type logWriter struct {
	log   *slog.Logger
	ctx   context.Context
	attrs []any
	quota *logquota.Quota // of the run
	lines int
}

func (l *logWriter) write(h frame.Log, text string) {
	if l.lines > maxLines {
		return
	}

	text = strings.ToValidUTF8(excerpt.Head(text, maxLineBytes), "\uFFFD")
	if l.lines++; l.lines > maxLines || !l.quota.Take(len(text)) {
		l.lines = maxLines + 1
		l.log.InfoContext(l.ctx, "a custom tool wrote too much, the rest is left out", l.attrs...)
		return
	}

	l.log.InfoContext(l.ctx, "output of a custom tool", append(slices.Clip(l.attrs), "console", h.Level, "line", text)...)
}
