package relay

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/seed93082962/agenthost/hub/internal/aigc"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

// Causes of the end of an answer before that of its run.
var (
	errCancelled = errors.New("the answer was cancelled")
	errShutdown  = errors.New("the hub shuts down")
	errGone      = errors.New("the client does not read the answer")
	errIdle      = errors.New("the runtime sends nothing")
	errEndless   = errors.New("the answer takes too long or sends too much")
	errSlow      = errors.New("the runtime does not accept the run in time")
	errLost      = errors.New("another hub has taken over the session")
	errPanicked  = errors.New("the hub has an internal error")
)

// Ending is how an answer ended.
type Ending struct {
	Status  string
	Failure wire.ChatError

	kind string // of a failure, for metrics
}

// States of a message.
const (
	StatusCompleted = "completed"
	StatusWaiting   = "waiting" // stored as completed, with what it waits for
	StatusPartial   = "partial" // in progress, or its hub was killed
	StatusCancelled = "cancelled"
	StatusFailed    = "failed"
)

// stored returns the stored status.
func (e Ending) stored() string {
	if e.Status == StatusWaiting {
		return StatusCompleted
	}

	return e.Status
}

func failed(kind string, code wire.Code, message string) Ending {
	return Ending{Status: StatusFailed, Failure: wire.ChatError{Code: string(code), Message: message}, kind: kind}
}

func cancelled(code wire.Code, message string) Ending {
	return Ending{Status: StatusCancelled, Failure: wire.ChatError{Code: string(code), Message: message}}
}

// endingOf returns how an answer ended that was ended by the hub.
func endingOf(cause error) Ending {
	_, tooLong := errors.AsType[*sse.LimitError](cause)
	switch {
	case errors.Is(cause, errCancelled), errors.Is(cause, context.Canceled), errors.Is(cause, errGone):
		return cancelled(wire.Conflict, "The answer was cancelled.")
	case errors.Is(cause, errShutdown):
		return cancelled(wire.Unavailable, "The hub shuts down: send the message again later.")
	case errors.Is(cause, errLost):
		return failed(kindHub, wire.Unavailable, "The session was deleted, or another hub has taken it over.")
	case errors.Is(cause, errPanicked):
		return failed(kindHub, code.InternalError, "The hub has an internal error, whose cause is in its log.")
	case errors.Is(cause, errMemory):
		return failed(kindMemory, code.UpstreamFailed, "The answers in progress use too much memory: send the message again later.")
	case tooLong, errors.Is(cause, errTooLong), errors.Is(cause, errEndless):
		return failed(kindTooLong, code.UpstreamFailed, "The answer is too long or takes too long.")
	case errors.Is(cause, errIdle):
		return failed(kindIdle, code.UpstreamFailed, "The runtime of the agent does not respond.")
	case errors.Is(cause, errSlow):
		return failed(kindSlow, code.UpstreamFailed, "The runtime of the agent does not respond.")
	}

	return failed(kindLost, code.UpstreamFailed, "The connection to the runtime of the agent was lost.")
}

// Names of events.
const (
	hubEvent  = "hub"
	doneEvent = "done"
)

// beginning returns the first event.
func (a *Answer) beginning() *wire.Begun {
	return &wire.Begun{
		Type: hubEvent, SessionID: a.run.SessionID, UserMessageID: a.run.UserMessageID, AssistantMessageID: a.run.MessageID,
		AIGC: a.run.Label, AIGCNotice: a.run.Hint,
	}
}

// queueFirst queues the events before those of the runtime.
func (a *Answer) queueFirst() {
	a.first = true
	a.queue(a.beginning())
	if a.resumed == nil {
		a.queueNotice(aigc.ModePrepend)
	}
}

// queueLast queues the events after those of the runtime.
func (a *Answer) queueLast(end Ending, saved bool) {
	if Generated(a.final.text, a.final.blocks) {
		a.queueNotice(aigc.ModeAppend)
	}

	if !a.reported && end.Status == StatusCancelled {
		reason := runtimewire.ReasonClientRequest
		if errors.Is(context.Cause(a.ctx), errShutdown) {
			reason = runtimewire.ReasonShutdown
		}

		a.queue(&runtimewire.Cancelled{Type: "cancelled", RunID: a.run.ID, Reason: reason, Usage: a.text.usage})
	} else if !a.reported {
		a.queue(&runtimewire.Fault{Type: "error", Error: end.Failure.Message, ErrorType: end.Failure.Code, RunID: a.run.ID, Usage: a.text.usage})
	}

	if saved {
		e := &wire.Saved{
			Type: "hub.saved", MessageID: a.run.MessageID, Status: end.Status, Usage: a.total(), AIGC: a.run.Label, Budgets: a.budgets,
			Pending: a.wait.Pending(),
		}
		if end.Status == StatusFailed {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), writeWithin)
			defer cancel()
			e.Error = a.relay.Remedies(ctx, a.run.TenantID, a.run.AgentName)(end.Failure)
		}

		a.queue(e)
	}

	a.queue(&runtimewire.Done{})
}

// queueNotice queues the notice that is a part of the answer in this place, if there is one.
func (a *Answer) queueNotice(at aigc.Mode) {
	if a.run.Notice != "" && a.run.NoticeAt == at {
		a.queue(&wire.Notice{Type: "hub.notice", Position: string(at), Text: a.run.Notice})
	}
}

// queue queues an event of the hub for the readers.
func (a *Answer) queue(p runtimewire.Payload) {
	data, _ := json.Marshal(p) // the events have a JSON form
	ev := sse.Event{Type: p.EventName(), Data: data}
	a.lockedRecord(ev)
	a.forwardEvent(ev)
}
