package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// callModel calls the model once and emits partial messages. If the model fails, it returns the
// incomplete response with the error. A run spends most of its time in this function.
func (r *run) callModel(ctx context.Context) (*model.Response, error) {
	if err := r.memory.holdMessages(r.transcript.messages); err != nil {
		return &model.Response{}, errors.Join(r.awaitFirstAppend(), err)
	}
	r.outcome.NumTurns++
	w := startWatchdog(ctx, r.engine.cfg.IdleTimeout)
	defer w.stop()
	c := &model.Collector{MaxBytes: r.engine.cfg.MaxResponse}
	for part, err := range r.stream(w, r.transcript.messages) {
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
		w.pause()
		r.emitPart(&part)
		w.resume(part.More)
	}
	return r.completeResponse(ctx, w, c)
}

// stream calls the model with messages and returns the parts of the response. It flushes the output
// first, because the call blocks.
func (r *run) stream(w *watchdog, messages []model.Message) iter.Seq2[model.Part, error] {
	r.out.Flush()
	req := r.engine.cfg.Request
	req.Messages = messages
	req.Tools = r.tools.offered
	req.Alive = w.alive
	req.Reserve = r.engine.cfg.Reserve
	return r.engine.cfg.Model.Stream(w.ctx, &req)
}

// completeResponse returns the response of a call that ended without an error.
func (r *run) completeResponse(ctx context.Context, w *watchdog, c *model.Collector) (*model.Response, error) {
	if err := r.awaitFirstAppend(); err != nil { // still pending after a response without parts
		return nil, err
	}
	response := c.Response()
	if response.StopReason == "" {
		err := &model.Error{Code: model.CodeConnection, Message: "the response of the model is incomplete"}
		return r.abortResponse(ctx, w, c, err)
	}
	r.record(&response)
	return &response, nil
}

// abortResponse records an incomplete response and stores its text in the session. It returns the
// response and the error of the call.
func (r *run) abortResponse(ctx context.Context, w *watchdog, c *model.Collector, err error) (*model.Response, error) {
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
			Code:    model.CodeTimeout,
			Message: fmt.Sprintf("the model sent nothing for %v", r.engine.cfg.IdleTimeout),
			Err:     err,
		}
	case !errors.As(err, &upstream):
		err = &model.Error{Code: model.CodeUnknown, Message: "the model failed", Err: err}
	}
	return &response, err
}

// record adds a response to the outcome.
func (r *run) record(response *model.Response) {
	r.outcome.Usage = r.outcome.Usage.Add(wire.Usage(response.Usage))
	r.outcome.StopReason = response.StopReason
	if text := response.Message.Text(); text != "" {
		r.outcome.Text = text
	}
}
