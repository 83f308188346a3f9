package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// callModel calls the model once and emits partial messages. If the model fails, it returns the
// incomplete response with the error. A run spends most of its time in this function.
func (r *runState) callModel(ctx context.Context) (*collect.Response, error) {
	if err := r.holdMessages(r.transcript.messages); err != nil {
		return &collect.Response{}, errors.Join(r.awaitFirstAppend(), err)
	}

	r.outcome.NumTurns++
	call := r.beginModelCall(ctx, r.transcript.messages)
	var response *collect.Response
	err := errPanicked
	defer func() { call.end(response, err) }()
	response, err = r.receive(call)
	return response, err
}

// receive reads the response of a call, and emits partial messages.
func (r *runState) receive(call *modelCall) (*collect.Response, error) {
	ctx := call.ctx
	w := startWatchdog(ctx, r.engine.cfg.IdleTimeout)
	defer w.stop()
	c := &call.response
	r.structured.begun = false
	for part, err := range r.stream(w, call, r.transcript.messages, &r.structured) {
		if r.firstAppend != nil {
			if err := r.awaitFirstAppend(); err != nil {
				return nil, err
			}
		}

		if err == nil {
			err = c.Add(&part)
		}

		if err == nil {
			err = r.memory.hold(c.Size())
		}

		if err == nil && w.ctx.Err() != nil {
			err = context.Cause(w.ctx)
		}

		if err != nil {
			return r.abortResponse(ctx, w, c, err)
		}

		if call.first.IsZero() && part.Kind != model.KindUsage {
			call.first = time.Now()
		}

		w.timer.Stop() // a slow client does not count as an idle model
		r.emitPart(&part)
		w.alive()
	}

	return r.completeResponse(ctx, w, c)
}

// stream calls the model with messages and returns the parts of the response, which may be the
// output of the run if that is not nil. It flushes the events first, because the call blocks.
func (r *runState) stream(w *watchdog, call *modelCall, messages []model.Message, bound *structuredOutput) iter.Seq2[model.Part, error] {
	r.out.Flush()
	req := r.engine.cfg.Request
	req.System = strings.TrimLeft(req.System+r.tools.instructions, "\n")
	req.Messages = messages
	req.Tools = r.tools.offered
	if bound != nil {
		bound.bind(&req)
	}

	req.Alive = w.alive
	req.Named = call.named
	req.Reserve = r.engine.cfg.Reserve
	call.request = &req
	return r.engine.cfg.Model.Stream(w.ctx, &req)
}

// completeResponse returns the response of a call that ended without an error.
func (r *runState) completeResponse(ctx context.Context, w *watchdog, c *collect.Collector) (*collect.Response, error) {
	if err := r.awaitFirstAppend(); err != nil { // still pending after a response without parts
		return nil, err
	}

	response := c.Response()
	if response.StopReason == "" {
		err := &model.Error{Code: runvalue.ErrorTypeConnection, Message: "the response of the model is incomplete"}
		return r.abortResponse(ctx, w, c, err)
	}

	r.record(&response)
	return &response, nil
}

// abortResponse records an incomplete response and stores its text in the session. It returns the
// response and the error of the call.
func (r *runState) abortResponse(ctx context.Context, w *watchdog, c *collect.Collector, err error) (*collect.Response, error) {
	response := c.Response()
	r.record(&response)
	if text := response.Message.Text(); text != "" {
		m := model.Message{Role: model.RoleAssistant, Content: []model.Block{{Type: model.BlockText, Text: text}}}
		if appendErr := r.in.Session.Append(context.WithoutCancel(ctx), m); appendErr != nil {
			r.engine.cfg.Logger.Error("append to session", "err", appendErr, "run_id", r.in.RunID)
		}
	}

	var upstream *model.Error
	switch {
	case ctx.Err() != nil:
	case w.expired():
		err = &model.Error{
			Code:    runvalue.ErrorTypeTimeout,
			Message: fmt.Sprintf("the model sent nothing for %v", r.engine.cfg.IdleTimeout),
			Err:     err,
		}
	case !errors.As(err, &upstream):
		err = &model.Error{Code: runvalue.ErrorTypeUnknown, Message: "the model failed", Err: err}
	}

	return &response, err
}

// record adds a response to the outcome.
func (r *runState) record(response *collect.Response) {
	r.outcome.StopReason = response.StopReason
	if text := response.Message.Text(); text != "" {
		r.outcome.Text = text
	}
}

// maxPartial limits the text of one partial message, in bytes. JSON may need six bytes for one
// byte of text, and an event must stay below 4 MiB.
const maxPartial = 512 << 10

// emitInit emits the first event of the run.
func (r *runState) emitInit() {
	if r.in.Init == nil {
		return
	}

	r.in.Init.Tools = r.knownTools()
	r.in.Init.Structured = r.structured.OutputSchema != nil
	r.in.Init.MCPServers = append([]wire.MCPStatus{}, r.servers...)
	r.out.Emit(&wire.System{Type: "system", Subtype: runvalue.SystemInit, Init: r.in.Init})
}

// emitPart emits the partial message of a part, and flushes if the model has sent no further part
// yet.
func (r *runState) emitPart(part *model.Part) {
	if r.in.Partials && !r.emitOutputPart(part) {
		p := &r.partial.Partial
		switch part.Kind {
		case model.KindText:
			r.emitIncrement(wire.PartialText, part.Text)
		case model.KindThinking:
			r.emitIncrement(wire.PartialThinking, part.Text)
		case model.KindToolUse:
			*p = wire.Partial{Type: wire.PartialToolUse, ToolName: part.Name, ToolUseID: part.ID}
			r.out.Emit(&r.partial)
		}
	}

	if !part.More {
		r.out.Flush()
	}
}

// emitIncrement emits increment as one partial message, or as several if it is long.
func (r *runState) emitIncrement(partialType, increment string) {
	for increment != "" {
		head := excerpt.Head(increment, maxPartial)
		r.partial.Partial = wire.Partial{Type: partialType, Text: head}
		r.out.Emit(&r.partial)
		increment = increment[len(head):]
	}
}

// assistantEvent returns the event of a complete response.
func (r *runState) assistantEvent(response *collect.Response) wire.Payload {
	content := make([]wire.Block, 0, len(response.Message.Content))
	for i := range response.Message.Content {
		switch b := &response.Message.Content[i]; b.Type {
		case model.BlockText:
			content = append(content, wire.Block{Type: string(b.Type), Text: b.Text})
		case model.BlockThinking:
			if b.Text != "" {
				content = append(content, wire.Block{Type: string(b.Type), Thinking: b.Text})
			}
		case model.BlockToolUse:
			content = append(content, wire.Block{Type: string(b.Type), ID: b.ID, Name: b.Name, Input: b.Input})
		}
	}

	return &wire.Assistant{
		Type: "assistant", UUID: ids.New(), SessionID: r.in.Session.ID(),
		Message: wire.AssistantMessage{
			Role: string(model.RoleAssistant), Content: content,
			Model: r.engine.cfg.Request.Model, StopReason: response.StopReason,
		},
		Usage: wire.Usage(response.Usage),
	}
}

// errIdle is the cause with which the call of an idle model is cancelled.
var errIdle = errors.New("the model sent nothing for too long")

// watchdog cancels a call of the model if no data arrives within the limit.
type watchdog struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	limit  time.Duration
	timer  *time.Timer
}

func startWatchdog(ctx context.Context, limit time.Duration) *watchdog {
	w := &watchdog{limit: limit}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.timer = time.AfterFunc(limit, func() { w.cancel(errIdle) })
	return w
}

// alive records an arrival.
func (w *watchdog) alive() { w.timer.Reset(w.limit) }

// expired reports whether the call was cancelled because the model was idle.
func (w *watchdog) expired() bool { return errors.Is(context.Cause(w.ctx), errIdle) }

func (w *watchdog) stop() {
	w.timer.Stop()
	w.cancel(nil)
}
