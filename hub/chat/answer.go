package chat

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed93082962/agenthost/hub/aigc"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

// Causes of the end of an answer before that of its run.
var (
	errCancelled = errors.New("the answer was cancelled")
	errShutdown  = errors.New("the hub shuts down")
	errNoRelay   = errors.New("the client does not read the answer")
	errIdle      = errors.New("the runtime sends nothing")
	errEndless   = errors.New("the answer takes too long or sends too much")
	errSlow      = errors.New("the runtime does not accept the run in time")
	errLost      = errors.New("another hub has taken over the session")
)

// maxReceived bounds the bytes that a runtime sends for one answer, comments included.
const maxReceived = 256 << 20

// Answer is an answer in progress. The caller reads its Events and calls Close.
type Answer struct {
	s         *Service
	session   session
	user      message
	assistant message
	seeded    bool   // the run began with the stored conversation
	hint      string // the notice that is only in the first event
	seen      transcript
	former    string // the id of a run of the session whose lease has passed, or ""
	memory    account

	ctx    context.Context
	cancel context.CancelCauseFunc
	began  time.Time
	events atomic.Pointer[client.Stream] // nil until the runtime has accepted the run
	ended  bool                          // it is stored, or cannot be

	// Only the writer uses these.
	received   int64
	progressed time.Time
}

// Events returns the events of the answer: hub, those of the runtime as they were received,
// hub.saved and done. The boolean reports whether the next event is already available, so that a
// relay can send both together. Data of an event is valid until the next one.
//
// The end of the context of [Service.Send] cancels the run, and so does breaking out of the loop.
// The partial answer is stored.
func (a *Answer) Events() iter.Seq2[sse.Event, bool] {
	return func(yield func(sse.Event, bool) bool) {
		events := a.events.Load()
		reads := a.first(yield)
		for reads {
			ev, err := events.Next()
			if err != nil {
				a.cancel(err)
				break
			}
			if ev.Type == "done" {
				break
			}
			if ev.Type == hubEvent || strings.IndexByte(ev.Type, 0) >= 0 {
				continue // no event of a runtime, and the hub's own events must be genuine
			}
			if err := a.seen.note(ev); err != nil {
				a.cancel(err)
				break
			}
			reads = yield(sse.Event{Type: ev.Type, Data: ev.Data}, events.Buffered())
		}
		if !reads {
			a.cancel(errNoRelay)
			yield = func(sse.Event, bool) bool { return false }
		}
		a.last(yield)
	}
}

// hubEvent is the name of the events of the hub.
const hubEvent = "hub"

func (a *Answer) first(yield func(sse.Event, bool) bool) bool {
	notice, prepend := a.notice(aigc.ModePrepend)
	first := firstEvent{hubEvent, a.session.ID, a.user.ID, a.assistant.ID, a.assistant.AIGC, a.hint}
	return yield(event(hubEvent, first), prepend) && (!prepend || yield(notice, false))
}

// last stores the answer and yields the events that follow those of the runtime.
func (a *Answer) last(yield func(sse.Event, bool) bool) {
	end := a.ending()
	saved, stored, err := a.finish(end)
	if notice, ok := a.notice(aigc.ModeAppend); ok && stored.generated() && !yield(notice, true) {
		return
	}
	if err != nil {
		end = failed(api.Unavailable, "The answer could not be stored.")
	}
	if a.seen.ended() == nil || err != nil { // the runtime has not sent the end of the answer
		if !yield(a.endEvent(end), true) {
			return
		}
	}
	if saved && !yield(event(hubEvent, savedEvent{"hub.saved", a.assistant.ID, end.Status, *stored.Usage, a.assistant.AIGC}), true) {
		return
	}
	yield(sse.Event{Type: "done", Data: []byte("{}")}, false)
}

// endEvent returns the event of a runtime for an answer that the hub ended.
func (a *Answer) endEvent(end ending) sse.Event {
	if end.Status != statusCancelled {
		return event("error", faultEvent{"error", end.Failure.Message, api.Code(end.Failure.Code), a.assistant.RunID})
	}
	reason := wire.ReasonClientRequest
	if errors.Is(context.Cause(a.ctx), errShutdown) {
		reason = wire.ReasonShutdown
	}
	return event("cancelled", wire.Cancelled{Type: "cancelled", RunID: a.assistant.RunID, Reason: reason})
}

func event(name string, v any) sse.Event {
	data, err := json.Marshal(v)
	if err != nil { // only an event that has no JSON form
		data = []byte("{}")
	}
	return sse.Event{Type: name, Data: data}
}

// ending returns how the answer ended: by the events of the run, else by the cause of its context.
func (a *Answer) ending() ending {
	if end := a.seen.ended(); end != nil {
		return *end
	}
	return endingOf(context.Cause(a.ctx))
}

func endingOf(cause error) ending {
	_, tooLong := errors.AsType[*sse.LimitError](cause)
	switch {
	case errors.Is(cause, errCancelled), errors.Is(cause, context.Canceled), errors.Is(cause, errNoRelay):
		return ending{statusCancelled, Failure{string(api.Conflict), "The answer was cancelled."}}
	case errors.Is(cause, errShutdown):
		return ending{statusCancelled, Failure{string(api.Unavailable), "The hub shuts down: send the message again later."}}
	case errors.Is(cause, errLost):
		return failed(api.Unavailable, "The session was deleted, or another hub has taken it over.")
	case errors.Is(cause, errMemory):
		return failed(api.UpstreamFailed, "The answers in progress use too much memory: send the message again later.")
	case tooLong, errors.Is(cause, errTooLong), errors.Is(cause, errEndless):
		return failed(api.UpstreamFailed, "The answer is too long or takes too long.")
	case errors.Is(cause, errIdle), errors.Is(cause, errSlow):
		return failed(api.UpstreamFailed, "The runtime of the agent does not respond.")
	}
	return failed(api.UpstreamFailed, "The connection to the runtime of the agent was lost.")
}

// finish closes the connection and stores the answer, once. saved is false if the session was
// deleted in the meantime. The writer reads a.assistant, which does not change.
func (a *Answer) finish(end ending) (saved bool, stored message, err error) {
	if a.ended {
		return false, a.assistant, nil
	}
	a.ended = true
	if events := a.events.Load(); events != nil {
		_ = events.Close() // the run has ended, or ends now
	}
	defer a.s.writer.leave(a)
	defer a.cancel(nil)
	a.seen.mu.Lock()
	stored = a.assistant
	stored.Text, stored.Content = a.seen.current()
	usage := a.seen.usage
	stored.Model, stored.Usage, stored.Status = a.seen.model, &usage, end.Status
	used, next := a.seen.runtimeSession, a.nextSession()
	a.seen.mu.Unlock()
	if end.Status == statusFailed {
		stored.Failure = end.Failure
	}
	saved, err = a.s.writer.finish(a, stored, used, next)
	return saved, stored, err
}

// nextSession returns the session of the runtime that the next message continues, or "" if that
// message sends the stored conversation: the runtime has perhaps not stored the conversation that
// it received, or has ignored that a session was required. It needs the mutex of a.seen.
func (a *Answer) nextSession() string {
	used := a.seen.runtimeSession
	switch {
	case used == "":
		return a.session.RuntimeSession
	case a.session.RuntimeSession != "" && used != a.session.RuntimeSession, a.seeded && !a.seen.responded:
		return ""
	}
	return used
}

// Cancel cancels the run, as if the client had disconnected.
func (a *Answer) Cancel() { a.cancel(errNoRelay) }

// Close stores the answer if its Events were not read.
func (a *Answer) Close() {
	a.cancel(errNoRelay)
	_, _, _ = a.finish(a.ending()) // the writer has logged its error
}
