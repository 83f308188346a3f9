package runtime

import (
	"net/http"

	"github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

// stream answers a run as server-sent events.
func (x *execution) stream(w http.ResponseWriter) error {
	events, err := sse.NewStream(w, sse.StreamConfig{
		Heartbeat:    x.rt.cfg.Heartbeat,
		WriteTimeout: x.rt.cfg.WriteTimeout,
		OnError:      func(error) { x.run.Cancel(wire.ReasonDisconnect) },
	})
	if err != nil {
		x.abandon()
		return err
	}
	defer events.Close() // an error has been told through OnError
	out := sender{events}
	init := x.agent.init
	init.RunID, init.SessionID, init.Resumed = x.id, x.sessionID, x.session.Resumed()
	out.send(wire.Event{Payload: &wire.System{Type: "system", Subtype: wire.SystemInit, Init: &init}})

	end := x.execute(out.send)
	out.send(wire.Event{Payload: x.last(&end), More: true})
	out.send(wire.Event{Payload: &wire.Done{}})
	return nil
}

// abandon ends a run that cannot be answered.
func (x *execution) abandon() {
	x.run.Finish(wire.StateFailed)
	if err := x.session.Close(); err != nil {
		x.rt.cfg.Logger.Error("close session", "err", err, "runId", x.id)
	}
}

// sender puts events on a stream. Once a write has failed it does nothing: the run has been
// cancelled for it, and only has to come to its end.
type sender struct{ events *sse.Stream }

func (s sender) send(ev wire.Event) {
	if ev.Payload != nil {
		err := s.events.QueueFunc(sse.Event{Type: ev.EventName()}, func(dst []byte) ([]byte, error) {
			return wire.AppendEvent(dst, ev.Payload)
		})
		if err != nil {
			return
		}
	}
	if !ev.More {
		_ = s.events.Flush()
	}
}

// last makes the event that tells how the run ended.
func (x *execution) last(end *ending) wire.Payload {
	switch {
	case end.state == wire.StateCancelled:
		return &wire.Cancelled{Type: "cancelled", RunID: x.id, Reason: end.reason}
	case end.fault:
		return &wire.Fault{Type: "error", Error: end.message, ErrorType: end.errorType, RunID: x.id}
	}
	result := &wire.Result{
		Type: "result", Subtype: end.subtype, RunID: x.id, SessionID: x.sessionID,
		IsError: end.state == wire.StateFailed, NumTurns: end.NumTurns,
		DurationMs: end.took.Milliseconds(), Usage: end.Usage,
	}
	if result.IsError {
		result.ErrorType, result.Errors = end.errorType, []string{end.message}
		return result
	}
	result.Result, result.StopReason = &end.Text, end.StopReason
	if result.PermissionDenials = end.Denials; end.Denials == nil {
		result.PermissionDenials = []wire.PermissionDenial{}
	}
	return result
}
