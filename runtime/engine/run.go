package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// maxPartial bounds the text of one partial message, in bytes. JSON may need six bytes for one
// byte of text, and an event must stay below 4 MiB.
const maxPartial = 512 << 10

// Run is one run of an agent.
type Run struct {
	engine   *Engine
	in       Input
	maxTurns int
	timeout  time.Duration
	outcome  Outcome

	// Reused for each partial message, which is valid until the next event.
	partial wire.PartialMessage
	// held tells that the last event said that more would follow at once.
	held bool

	calls calls
}

// errStopped says that the reader of the events has broken out of its loop.
var errStopped = errors.New("run was abandoned by its reader")

// Events executes the run and yields what happens. An event is valid until the next one. An
// event without a payload is none: it takes back the More of the one before it.
//
// A run that does not come to its end yields an error last: a [*model.Error], [ErrMaxTurns],
// [ErrRunTimeout], the cause with which ctx was cancelled, or a fault of the session store. When
// the loop over the events has ended, nothing of the run is left running.
func (r *Run) Events(ctx context.Context) iter.Seq2[wire.Event, error] {
	return func(yield func(wire.Event, error) bool) {
		ctx, cancel := context.WithTimeoutCause(ctx, r.timeout, ErrRunTimeout)
		defer r.settle()
		defer cancel()
		err := r.loop(ctx, func(ev wire.Event) bool {
			r.held = ev.More
			return yield(ev, nil)
		})
		if err == nil || errors.Is(err, errStopped) {
			return
		}
		// Whatever failed after the context ended failed because it ended.
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		cancel()
		r.settle()
		yield(wire.Event{}, err)
	}
}

// Outcome tells what came of the run. It is complete when the loop over Events has ended.
func (r *Run) Outcome() Outcome { return r.outcome }

// loop calls the model and its tools by turns.
func (r *Run) loop(ctx context.Context, yield func(wire.Event) bool) error {
	messages := repair(r.in.Session.Messages())
	messages, err := r.say(ctx, messages, model.UserText(r.in.Message))
	if err != nil {
		return err
	}
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.outcome.NumTurns++
		answer, err := r.ask(ctx, messages, yield)
		if err != nil {
			return err
		}
		message := answer.Message
		if len(message.Content) > 0 { // upstreams refuse a message without content
			if messages, err = r.say(ctx, messages, message); err != nil {
				return err
			}
		}
		calls := message.ToolUses()
		again := len(calls) > 0 && answer.StopReason != model.StopMaxTokens && answer.StopReason != model.StopRefusal
		if !yield(r.assistant(answer, !again)) {
			return errStopped
		}
		if !again {
			return nil
		}
		if r.outcome.NumTurns >= r.maxTurns {
			return ErrMaxTurns
		}
		results, err := r.runTools(ctx, calls, yield)
		// What was done is kept even when the run ends here: the store takes it although ctx is over.
		var sayErr error
		if messages, sayErr = r.say(context.WithoutCancel(ctx), messages, results); err == nil {
			err = sayErr
		}
		if err != nil {
			return err
		}
	}
}

// say appends a message to the conversation, and to the session.
func (r *Run) say(ctx context.Context, messages []model.Message, m model.Message) ([]model.Message, error) {
	if err := r.in.Session.Append(ctx, m); err != nil {
		return nil, fmt.Errorf("append to session: %w", err)
	}
	return join(messages, m), nil
}

// ask makes one call of the model and yields partial messages.
func (r *Run) ask(ctx context.Context, messages []model.Message, yield func(wire.Event) bool) (model.Answer, error) {
	w := watch(ctx, r.engine.cfg.IdleTimeout)
	defer w.stop()

	req := r.engine.cfg.Request
	req.Messages, req.Tools, req.Alive = messages, r.engine.offered, w.alive
	var c model.Collector
	for part, err := range r.engine.cfg.Model.Stream(w.ctx, &req) {
		if err == nil {
			err = c.Add(&part)
		}
		if err != nil {
			return r.cutOff(ctx, w, &c, err)
		}
		if !part.More {
			w.alive()
		}
		if r.in.Partials && !r.pass(&part, yield) {
			return model.Answer{}, errStopped
		}
	}
	answer := c.Answer()
	if answer.StopReason == "" {
		return r.cutOff(ctx, w, &c, &model.Error{Code: model.CodeConnection, Message: "the model's answer broke off"})
	}
	r.note(answer)
	return answer, nil
}

// pass yields what a part is to the reader of the run.
func (r *Run) pass(part *model.Part, yield func(wire.Event) bool) bool {
	p := &r.partial.Partial
	switch part.Kind {
	case model.KindText, model.KindThinking:
		kind := wire.PartialText
		if part.Kind == model.KindThinking {
			kind = wire.PartialThinking
		}
		text := part.Text
		for len(text) > maxPartial {
			var head string
			head, text = cutText(text, maxPartial)
			*p = wire.Partial{Type: kind, Text: head}
			if !yield(wire.Event{Payload: &r.partial, More: true}) {
				return false
			}
		}
		if text != "" {
			*p = wire.Partial{Type: kind, Text: text}
			return yield(wire.Event{Payload: &r.partial, More: part.More})
		}
	case model.KindToolUse:
		*p = wire.Partial{Type: wire.PartialToolUse, ToolName: part.Name, ToolUseID: part.ID}
		return yield(wire.Event{Payload: &r.partial, More: part.More})
	}
	if r.held && !part.More {
		return yield(wire.Event{})
	}
	return true
}

// note takes an answer, or what there is of it, into the outcome.
func (r *Run) note(a model.Answer) {
	r.outcome.Usage = r.outcome.Usage.Add(a.Usage)
	r.outcome.StopReason = a.StopReason
	if text := a.Message.Text(); text != "" {
		r.outcome.Text = text
	}
}

// cutOff ends an answer that did not come to its end. Its text is kept: the next run of the
// session, and its user, know that it was said.
func (r *Run) cutOff(ctx context.Context, w *watchdog, c *model.Collector, err error) (model.Answer, error) {
	answer := c.Answer()
	r.note(answer)
	if text := answer.Message.Text(); text != "" {
		said := model.Message{Role: model.RoleAssistant, Content: []model.Block{{Type: model.BlockText, Text: text}}}
		if appendErr := r.in.Session.Append(context.WithoutCancel(ctx), said); appendErr != nil {
			r.engine.cfg.Logger.Error("append to session", "err", appendErr, "runId", r.in.RunID)
		}
	}
	var upstream *model.Error
	switch {
	case ctx.Err() != nil || !w.barked() && errors.As(err, &upstream):
		return answer, err
	case !w.barked():
		return answer, &model.Error{Code: model.CodeUnknown, Message: "the model failed", Err: err}
	default:
		return answer, &model.Error{
			Code:    model.CodeTimeout,
			Message: fmt.Sprintf("the model was silent for %v", r.engine.cfg.IdleTimeout),
			Err:     err,
		}
	}
}

// assistant makes the event of a whole message. last says that no tool call follows, so that
// the end of the run does.
func (r *Run) assistant(a model.Answer, last bool) wire.Event {
	content := make([]wire.Block, 0, len(a.Message.Content))
	for i := range a.Message.Content {
		switch b := &a.Message.Content[i]; b.Type {
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
	return wire.Event{More: last, Payload: &wire.Assistant{
		Type: "assistant", UUID: ids.New(), SessionID: r.in.Session.ID(),
		Message: wire.AssistantMessage{
			Role: string(model.RoleAssistant), Content: content,
			Model: r.engine.cfg.Request.Model, StopReason: a.StopReason,
		},
		Usage: a.Usage,
	}}
}
