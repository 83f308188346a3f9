package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
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
	tools    *toolset
	servers  []wire.MCPStatus // as they stood when the run was made
	outcome  Outcome
	answer   model.Answer // of the turn under way
	fill     fill
	asked    int // where in the conversation the message of this run stands

	// Reused for each partial message, which is valid until the next event.
	partial wire.PartialMessage
	// held tells that the last event said that more would follow at once.
	held bool

	calls   calls
	keeping chan error // answers whether the first message is kept; nil once it has
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
	said := restore(r.in.Session.Messages())
	said.add(r.keep(ctx, model.UserText(r.in.Message)))
	r.asked = len(said.messages) - 1
	if err := r.connect(ctx, yield); err != nil {
		return err
	}
	for again := true; again; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if r.full(said) {
			if err := r.kept(); err != nil {
				return err
			}
			if err := r.compact(ctx, said, yield); err != nil {
				return err
			}
		}
		r.outcome.NumTurns++
		err := r.ask(ctx, said.messages, yield)
		if err == nil {
			again, err = r.act(ctx, said, yield)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// act takes in the answer of the model, and runs the tools that it asks for. It reports whether
// the model has to be called again.
func (r *Run) act(ctx context.Context, said *transcript, yield func(wire.Event) bool) (bool, error) {
	answer := r.answer
	r.answer = model.Answer{}
	if len(answer.Message.Content) > 0 { // upstreams refuse a message without content
		r.fill.count(answer.Usage, len(said.messages)+1)
		if err := r.say(ctx, said, answer.Message); err != nil {
			return false, err
		}
	}
	calls := answer.Message.ToolUses()
	again := len(calls) > 0 && answer.StopReason != model.StopMaxTokens && answer.StopReason != model.StopRefusal
	switch {
	case !yield(r.assistant(answer, !again)):
		return false, errStopped
	case !again:
		return false, nil
	case r.outcome.NumTurns >= r.maxTurns:
		return false, ErrMaxTurns
	}
	results, err := r.runTools(ctx, calls, yield)
	// What was done is kept even when the run ends here: the store takes it although ctx is over.
	if sayErr := r.say(context.WithoutCancel(ctx), said, results); err == nil {
		err = sayErr
	}
	return true, err
}

// say appends a message to the conversation, and to the session.
func (r *Run) say(ctx context.Context, said *transcript, m model.Message) error {
	if err := r.in.Session.Append(ctx, m); err != nil {
		return fmt.Errorf("append to session: %w", err)
	}
	said.add(m)
	return nil
}

// keep appends the first message to the session on the side, so that the model need not wait for the
// disk: kept is called before anything that the model says is passed on.
func (r *Run) keep(ctx context.Context, m model.Message) model.Message {
	r.keeping = make(chan error, 1)
	go func(done chan<- error) {
		var err error
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
			done <- err
		}()
		err = r.in.Session.Append(ctx, m)
	}(r.keeping)
	return m
}

// kept waits until the first message is kept.
//
//go:noinline
func (r *Run) kept() error {
	if r.keeping == nil {
		return nil
	}
	err := <-r.keeping
	r.keeping = nil
	if err != nil {
		return fmt.Errorf("append to session: %w", err)
	}
	return nil
}

// ask makes one call of the model, yields partial messages, and leaves the whole answer in
// r.answer. Streams wait for upstream in here: what is only done once stands in functions of its
// own, for the depth of the stack is most of the memory that a waiting stream takes.
func (r *Run) ask(ctx context.Context, messages []model.Message, yield func(wire.Event) bool) error {
	w := watch(ctx, r.engine.cfg.IdleTimeout)
	defer w.stop()
	req := r.request(messages, w.alive)
	c := new(model.Collector)
	for part, err := range r.engine.cfg.Model.Stream(w.ctx, req) {
		if r.keeping != nil {
			if err := r.kept(); err != nil {
				return err
			}
		}
		if err == nil {
			err = c.Add(&part)
		}
		if err != nil {
			return r.cutOff(ctx, w, c, err)
		}
		w.away()
		on := !r.in.Partials || r.pass(&part, yield)
		w.back(part.More)
		if !on {
			return errStopped
		}
	}
	return r.whole(ctx, w, c)
}

func (r *Run) request(messages []model.Message, alive func()) *model.Request {
	req := r.engine.cfg.Request
	req.Messages, req.Tools, req.Alive = messages, r.tools.offered, alive
	return &req
}

// whole takes an answer that came to its end.
func (r *Run) whole(ctx context.Context, w *watchdog, c *model.Collector) error {
	if err := r.kept(); err != nil { // which an answer without parts has not waited for
		return err
	}
	answer := c.Answer()
	if answer.StopReason == "" {
		return r.cutOff(ctx, w, c, &model.Error{Code: model.CodeConnection, Message: "the model's answer broke off"})
	}
	r.note(answer)
	r.answer = answer
	return nil
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
func (r *Run) cutOff(ctx context.Context, w *watchdog, c *model.Collector, err error) error {
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
		return err
	case !w.barked():
		return &model.Error{Code: model.CodeUnknown, Message: "the model failed", Err: err}
	default:
		return &model.Error{
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
