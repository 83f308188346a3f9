package relay

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"sync"
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

// Run is the run of an answer, and the place of the answer in the database.
type Run struct {
	ID        string
	TenantID  string
	UserID    string
	AgentName string

	SessionKey     string
	SessionID      string
	RuntimeSession string // the session of the runtime that was continued last, or ""

	UserMessageID string
	MessageID     string // of the answer
	Seq           int64  // of the answer

	Label    json.RawMessage // in the first and last event, or nil
	Hint     string          // the notice that is only in the first event, or ""
	Notice   string          // the notice that is a part of the answer, or ""
	NoticeAt aigc.Mode       // append or prepend
}

// Answer is an answer in progress. The caller reads its Events and calls Close.
type Answer struct {
	relay *Relay
	run   Run // does not change after Store

	continues string // the session of the runtime, or ""
	message   string // of the user
	seeded    bool   // the run began with the stored conversation
	former    string // the id of a run of the session whose lease has passed, or ""
	memory    account
	ctx       context.Context
	cancel    context.CancelCauseFunc
	began     time.Time
	started   bool                          // the runtime may have accepted the run
	events    atomic.Pointer[client.Stream] // nil until the runtime has accepted the run
	ended     bool                          // it is stored, or cannot be

	mu   sync.Mutex // guards text, which the relay stores in the meantime
	text transcript

	// Only the goroutine that stores the answers uses these.
	received   int64
	progressed time.Time
}

// Run returns the run of the answer.
func (a *Answer) Run() Run { return a.run }

// Serve sends the events of the answer. A client that stops reading cancels the answer.
func (a *Answer) Serve(w http.ResponseWriter) error {
	stream, err := sse.NewStream(w, sse.StreamConfig{WriteTimeout: a.relay.cfg.WriteTimeout, OnError: func(error) { a.cancel(errNoRelay) }})
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // OnError has the error of a write
	for ev, more := range a.Events() {
		if stream.Queue(ev) != nil || !more && stream.Flush() != nil {
			break
		}
	}
	return nil
}

// Events returns the events of the answer: hub, those of the runtime as they were received,
// hub.saved and done. The boolean reports whether the next event is already available, so that a
// server can send both together. Data of an event is valid until the next one.
//
// The end of the context of [Relay.Start] cancels the run, and so does breaking out of the loop.
// The partial answer is stored.
func (a *Answer) Events() iter.Seq2[sse.Event, bool] {
	return func(yield func(sse.Event, bool) bool) {
		reads := a.first(yield)
		for events := a.events.Load(); reads; {
			ev, err := events.Next()
			if err == nil && ev.Type != doneEvent && ev.Type != hubEvent {
				err = a.note(ev)
			}
			if err != nil {
				a.cancel(err)
				break
			}
			if ev.Type == doneEvent {
				break
			}
			if ev.Type != hubEvent { // the hub's own events must be genuine
				reads = yield(sse.Event{Type: ev.Type, Data: ev.Data}, events.Buffered())
			}
		}
		if !reads {
			a.cancel(errNoRelay)
			yield = func(sse.Event, bool) bool { return false }
		}
		a.last(yield)
	}
}

// Names of events.
const (
	hubEvent  = "hub"
	doneEvent = "done"
)

func (a *Answer) first(yield func(sse.Event, bool) bool) bool {
	notice, prepend := a.notice(aigc.ModePrepend)
	return yield(event(hubEvent, firstEvent{
		Type: hubEvent, SessionID: a.run.SessionID, UserMessageID: a.run.UserMessageID, AssistantMessageID: a.run.MessageID,
		AIGC: a.run.Label, AIGCNotice: a.run.Hint,
	}), prepend) && (!prepend || yield(notice, false))
}

// last stores the answer and yields the events that follow those of the runtime.
func (a *Answer) last(yield func(sse.Event, bool) bool) {
	end := a.ending()
	toldByRuntime := a.runEnded() != nil
	stored, err := a.finish(end)
	if notice, ok := a.notice(aigc.ModeAppend); ok && stored.generated() && !yield(notice, true) {
		return
	}
	if err != nil {
		end = failed(api.Unavailable, "The answer could not be stored.")
	}
	if (!toldByRuntime || err != nil) && !yield(a.endEvent(end), true) {
		return
	}
	if stored.saved && !yield(event(hubEvent, savedEvent{
		Type: "hub.saved", MessageID: a.run.MessageID, Status: end.Status, Usage: stored.usage, AIGC: a.run.Label,
	}), true) {
		return
	}
	yield(sse.Event{Type: doneEvent, Data: []byte("{}")}, false)
}

// notice returns the event of a notice that is a part of the answer. ok is false if the answer has
// none in this place.
func (a *Answer) notice(at aigc.Mode) (_ sse.Event, ok bool) {
	if a.run.Notice == "" || a.run.NoticeAt != at {
		return sse.Event{}, false
	}
	return event(hubEvent, noticeEvent{Type: "hub.notice", Position: at, Text: a.run.Notice}), true
}

// endEvent returns the event of a runtime for an answer that the hub ended.
func (a *Answer) endEvent(end Ending) sse.Event {
	if end.Status != StatusCancelled {
		return event("error", wire.Fault{Type: "error", Error: end.Failure.Message, ErrorType: end.Failure.Code, RunID: a.run.ID})
	}
	reason := wire.ReasonClientRequest
	if errors.Is(context.Cause(a.ctx), errShutdown) {
		reason = wire.ReasonShutdown
	}
	return event("cancelled", wire.Cancelled{Type: "cancelled", RunID: a.run.ID, Reason: reason})
}

func event(name string, v any) sse.Event {
	data, err := json.Marshal(v)
	if err != nil { // only an event that has no JSON form
		data = []byte("{}")
	}
	return sse.Event{Type: name, Data: data}
}

// firstEvent is the first event of an answer.
type firstEvent struct {
	Type               string          `json:"type"` // hub
	SessionID          string          `json:"sessionId"`
	UserMessageID      string          `json:"userMessageId"`
	AssistantMessageID string          `json:"assistantMessageId"`
	AIGC               json.RawMessage `json:"aigc,omitempty"`
	AIGCNotice         string          `json:"aigcNotice,omitempty"`
}

// noticeEvent is the notice that is a part of the answer.
type noticeEvent struct {
	Type     string    `json:"type"` // hub.notice
	Position aigc.Mode `json:"position"`
	Text     string    `json:"text"`
}

// savedEvent reports that the answer is stored.
type savedEvent struct {
	Type      string          `json:"type"` // hub.saved
	MessageID string          `json:"messageId"`
	Status    string          `json:"status"`
	Usage     wire.Usage      `json:"usage"`
	AIGC      json.RawMessage `json:"aigc,omitempty"`
}

// note stores the part of an event that the history needs.
func (a *Answer) note(ev sse.Event) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text.note(ev, a.memory.reserve)
}

// runEnded returns how the run ended according to its events, or nil.
func (a *Answer) runEnded() *Ending {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text.end
}

// snapshot returns the text and the content to store if they are due.
func (a *Answer) snapshot() (text, content string, due bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text.snapshot()
}

// unsaved makes the next snapshot due.
func (a *Answer) unsaved() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.text.changed, a.text.stored = true, 0
}

// check cancels an answer whose runtime sends nothing or too much.
func (a *Answer) check(now time.Time) {
	var received int64
	if events := a.events.Load(); events != nil {
		received = events.Received()
	}
	if received != a.received {
		a.received, a.progressed = received, now
	}
	switch {
	case now.Sub(a.progressed) > a.relay.cfg.IdleTimeout:
		a.cancel(errIdle)
	case now.Sub(a.began) > a.relay.cfg.RunTimeout, received > maxReceived:
		a.cancel(errEndless)
	}
}

// finish closes the connection and stores the answer, once.
func (a *Answer) finish(end Ending) (stored ended, err error) {
	if a.ended {
		return ended{}, nil
	}
	a.ended = true
	if events := a.events.Load(); events != nil {
		_ = events.Close() // the run has ended, or ends now
	}
	defer a.relay.leave(a)
	defer a.cancel(nil)
	e := a.end(end)
	stored = *e // the relay may still store e after an error
	if err = a.relay.finish(e); err == nil {
		stored.saved = e.saved
	}
	return stored, err
}

// end returns the answer as it is stored at its end.
func (a *Answer) end(end Ending) *ended {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := &ended{
		run: a.run, end: end, started: a.started, usage: a.text.usage, model: a.text.model,
		usedSession: a.text.runtimeSession, nextSession: a.nextSession(),
		began: time.Now(), memory: &a.memory, done: make(chan error, 1),
	}
	if end.Status != StatusFailed { // the status is the reason
		e.end.Failure = Failure{}
	}
	e.text, e.content = a.text.current()
	return e
}

// nextSession returns the session of the runtime that the next message continues, or "" if that
// message sends the stored conversation: the runtime has perhaps not stored the conversation that
// it received, or has ignored that a session was required.
func (a *Answer) nextSession() string {
	used := a.text.runtimeSession
	switch {
	case used == "":
		return a.continues
	case a.continues != "" && used != a.continues, a.seeded && !a.text.responded:
		return ""
	}
	return used
}

// Cancel cancels the run, as if the client had disconnected.
func (a *Answer) Cancel() { a.cancel(errNoRelay) }

// Close stores the answer if its Events were not read.
func (a *Answer) Close() {
	a.cancel(errNoRelay)
	_, _ = a.finish(a.ending()) // the error is logged
}

// Ending is how an answer ended.
type Ending struct {
	Status  string
	Failure Failure
}

// Failure is the reason why there is no complete answer. The code is that of the runtime's result,
// or one of the hub's codes.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// States of a message.
const (
	StatusCompleted = "completed"
	StatusPartial   = "partial" // in progress, or its hub was killed
	StatusCancelled = "cancelled"
	StatusFailed    = "failed"
)

func failed(code api.Code, message string) Ending {
	return Ending{Status: StatusFailed, Failure: Failure{Code: string(code), Message: message}}
}

func cancelled(code api.Code, message string) Ending {
	return Ending{Status: StatusCancelled, Failure: Failure{Code: string(code), Message: message}}
}

// ending returns how the answer ended: by the events of the run, else by the cause of its context.
func (a *Answer) ending() Ending {
	if end := a.runEnded(); end != nil {
		return *end
	}
	return endingOf(context.Cause(a.ctx))
}

func endingOf(cause error) Ending {
	_, tooLong := errors.AsType[*sse.LimitError](cause)
	switch {
	case errors.Is(cause, errCancelled), errors.Is(cause, context.Canceled), errors.Is(cause, errNoRelay):
		return cancelled(api.Conflict, "The answer was cancelled.")
	case errors.Is(cause, errShutdown):
		return cancelled(api.Unavailable, "The hub shuts down: send the message again later.")
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
