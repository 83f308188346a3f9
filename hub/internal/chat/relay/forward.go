package relay

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/sse"
)

// denied returns an error that wraps [api.ErrAccessEnded] if the caller has no access any more.
// What ends the access may also stop the runtime, whose connection can end before the next check of
// the requests in progress.
func (a *Answer) denied() error {
	if a.reported || a.ctx.Err() != nil {
		return nil
	}

	ctx, cancel := context.WithTimeout(a.ctx, writeWithin)
	defer cancel()
	err := a.relay.store.DB.Tx(ctx, func(*sql.Tx) error { return nil }) // the check of the context
	_, coded := errors.AsType[*wire.Error](err)
	if _, ok := errors.AsType[wire.Code](err); !ok && !coded {
		return nil
	}

	return fmt.Errorf("%w: %w", api.ErrAccessEnded, err)
}

// forward queues the first event and those of the runtime up to done. Events that are received
// together are sent together. If the client is gone, it continues to read: the last events have the
// usage of the run.
func (a *Answer) forward() error {
	a.queueFirst()
	for {
		if err := a.relayTexts(); err != nil {
			return err
		}

		if a.text.responded && !a.answered {
			a.answered = true
			a.relay.metrics.firstToken(a)
			a.span.AddEvent("first token")
		}

		if !a.events.Buffered() {
			a.flush()
		}

		ev, err := a.events.Next()
		if err != nil || ev.Type == doneEvent {
			return err
		}

		if ev.Type != hubEvent { // the hub's own events must be genuine
			err = a.relayEvent(ev)
		}

		if err != nil {
			return err
		}
	}
}

// flush sends the queued events.
func (a *Answer) flush() {
	if a.stream != nil {
		_ = a.stream.Flush() // OnError has the error, here and below
	}

	if a.appended != nil {
		a.appended.publish()
	}
}

// awaitUsage reads the rest of the events, which has the usage of the run. cancelRun ends it.
func (a *Answer) awaitUsage() {
	for a.text.end == nil {
		ev, err := a.events.Next()
		if err != nil {
			return
		}

		switch ev.Type {
		case "result", "cancelled", "error":
			_ = a.note(ev, false) // the answer is too large in any case
		}
	}
}

// relayTexts notes the texts that are in memory, and queues the bytes of their events as they were
// received. Most tokens are such texts: see [client.Stream.Texts].
func (a *Answer) relayTexts() error {
	events, err := a.noteTexts()
	if err == nil && len(events) > 0 && a.stream != nil {
		_ = a.stream.QueueEvents(events)
	}

	return err
}

// noteTexts notes the texts that are in memory, and returns their events.
func (a *Answer) noteTexts() ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	texts, events := a.events.Texts(a.text.pending)
	err := a.text.noteTexts(texts, a.memory.reserve)
	if a.appended = a.journal; err == nil && a.journal != nil {
		a.journal.append(events)
	}

	return events, err
}

// relayEvent notes an event and queues it. The hub itself reports that it has cancelled the run,
// with its own reason.
func (a *Answer) relayEvent(ev sse.Event) error {
	own := a.ctx.Err() != nil && ev.Type == "cancelled"
	if err := a.note(ev, !own); err != nil || own {
		return err
	}

	a.forwardEvent(ev)
	a.reported = a.text.end != nil
	return nil
}

// record appends an event to the journal, if there is one. It needs the mutex: the text that is
// noted is that of the events of the journal.
func (a *Answer) record(ev sse.Event) {
	if a.journal == nil {
		return
	}

	if data, err := (sse.Event{Type: ev.Type, Data: ev.Data}).Append(nil); err == nil {
		a.journal.append(data)
	}
}

// forwardEvent queues an event for the client that sent the message, if it reads the answer.
func (a *Answer) forwardEvent(ev sse.Event) {
	if a.stream != nil {
		_ = a.stream.Queue(sse.Event{Type: ev.Type, Data: ev.Data})
	}
}

// note stores the part of an event that the history needs, and records the event on request.
func (a *Answer) note(ev sse.Event, record bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.text.note(ev, a.memory.reserve)
	if err == nil && record {
		a.record(ev)
	}

	return err
}

func (a *Answer) lockedRecord(ev sse.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.record(ev)
}
