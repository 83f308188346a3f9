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
		return err
	}
	defer func() { _ = events.Close() }() // an error has been told through OnError
	x.tell(sender{events, x}.send)
	return nil
}

// sender puts events on a stream.
type sender struct {
	*sse.Stream
	x *execution
}

// send reports false once a write has failed.
func (s sender) send(ev wire.Event) bool {
	if ev.Payload != nil {
		var encodeErr error
		err := s.QueueFunc(sse.Event{Type: ev.EventName()}, func(dst []byte) ([]byte, error) {
			var data []byte
			data, encodeErr = wire.AppendEvent(dst, ev.Payload)
			return data, encodeErr
		})
		if encodeErr != nil {
			s.x.rt.cfg.Logger.Error("event is left out", "err", encodeErr, "runId", s.x.id)
		} else if err != nil {
			return false
		}
	}
	return ev.More || s.Flush() == nil
}

// first makes the event that tells what the run works with.
func (x *execution) first() wire.Event {
	init := x.agent.init
	init.RunID, init.SessionID, init.Resumed = x.id, x.sessionID, x.resumed
	init.Tools, init.MCPServers = x.engine.Tools(), x.engine.Servers()
	return wire.Event{Payload: &wire.System{Type: "system", Subtype: wire.SystemInit, Init: &init}}
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
