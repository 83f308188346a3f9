package runtime

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/julienschmidt/httprouter"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/engine"
	"github.com/seed93082962/agenthost/runtime/run"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// startRun checks a request in the order of the API, and executes it.
func (rt *Runtime) startRun(w http.ResponseWriter, r *http.Request, ps httprouter.Params) error {
	req := wire.RunRequest{SessionID: absent, RunID: absent}
	if err := httpapi.ReadJSON(w, r, rt.cfg.Limits.MaxMessageBytes, &req); err != nil {
		return err
	}
	for _, id := range []*string{&req.SessionID, &req.RunID} {
		switch *id {
		case absent:
			*id = ""
		case "":
			*id = empty
		}
	}
	h, err := rt.callee(ps.ByName("agentId"), &req)
	if err != nil {
		return err
	}
	mode, err := negotiate(r.Header, req.Stream)
	if err != nil {
		return err
	}
	x, err := rt.begin(r.Context(), h, &req, mode.partials)
	if err != nil {
		return err
	}
	defer x.release()
	x.requestID = httpapi.RequestID(w)
	w.Header().Set("X-Run-Id", x.id)
	if mode.stream {
		return x.stream(w)
	}
	return x.block(w)
}

// What stands for an id that a body does not have, and for one that it has and that is empty: neither is a valid id.
const absent, empty = "(absent)", "(empty)"

// Run runs an agent in this process, and yields what a client over HTTP would be sent: its events
// as they come, done the last of them. A run that failed is no error but a [wire.Result] that says
// so; a request that was refused is an [*Error], and the only thing yielded, as is the error of a
// session store that cannot open the session.
//
// Ending the loop, or ctx, cancels the run. An event is valid until the next one.
func (rt *Runtime) Run(ctx context.Context, agentID string, req wire.RunRequest) iter.Seq2[wire.Event, error] {
	return func(yield func(wire.Event, error) bool) {
		h, err := rt.callee(agentID, &req)
		if err != nil {
			yield(wire.Event{}, err)
			return
		}
		x, err := rt.begin(ctx, h, &req, req.Stream != wire.StreamBlock && req.Stream != wire.StreamOff)
		if err != nil {
			yield(wire.Event{}, err)
			return
		}
		defer x.release()
		x.tell(func(ev wire.Event) bool { return ev.Payload == nil || yield(ev, nil) })
	}
}

// maxTimeoutMs keeps a duration in milliseconds from overflowing: no limit is longer than a year.
const maxTimeoutMs = 366 * 24 * 3600 * 1000

// callee checks what can be said of a request without regard to other runs, and finds its agent.
func (rt *Runtime) callee(agentID string, req *wire.RunRequest) (*hosted, error) {
	switch {
	case strings.TrimSpace(req.Message) == "":
		return nil, invalid("message is required")
	case req.SessionID != "" && !session.ValidID(req.SessionID):
		return nil, invalid("sessionId must be 1 to 128 of A-Z, a-z, 0-9, '.', '_' and '-'")
	case req.MaxTurns != nil && *req.MaxTurns < 1:
		return nil, invalid("maxTurns must be at least 1")
	case req.TimeoutMs != nil && *req.TimeoutMs < 1:
		return nil, invalid("timeoutMs must be at least 1")
	}
	h, ok := rt.byID[agentID]
	switch {
	case !ok:
		return nil, errAgentNotFound
	case h.engine == nil:
		return nil, errAgentUnavailable
	}
	return h, nil
}

// begin takes what a run needs: its id, its session and a place among the runs in progress. Who
// gets an execution releases it.
func (rt *Runtime) begin(ctx context.Context, h *hosted, req *wire.RunRequest, partials bool) (*execution, error) {
	id := ids.Random()
	if req.RunID != "" {
		var err error
		if id, err = ids.Parse(req.RunID); err != nil {
			return nil, errRunIDFormat
		}
	}
	x := &execution{rt: rt, agent: h, id: id.String(), metadata: req.Metadata, started: time.Now()}
	var err error
	// The run has its own end, told with a reason: that of its caller only triggers it.
	if x.run, err = rt.runs.Claim(context.WithoutCancel(ctx), id); err != nil {
		return nil, &Error{http.StatusConflict, wire.ErrorBody{Error: "Run ID conflict", RunID: x.id}}
	}
	defer x.run.Release() // should it not come to its start
	x.session, err = rt.cfg.Sessions.Open(ctx, h.id, req.SessionID)
	if err != nil {
		if errors.Is(err, session.ErrBusy) {
			return nil, &Error{http.StatusConflict, wire.ErrorBody{Error: "Session busy", SessionID: req.SessionID}}
		}
		return nil, err
	}
	x.sessionID, x.resumed = x.session.ID(), x.session.Resumed()
	if err := x.run.Start(); err != nil {
		_ = x.closeSession() // which has logged it
		if errors.Is(err, run.ErrDraining) {
			return nil, errDraining
		}
		return nil, errTooManyRuns
	}
	input := engine.Input{RunID: x.id, Session: x.session, Message: req.Message, Partials: partials}
	if req.MaxTurns != nil {
		input.MaxTurns = *req.MaxTurns
	}
	if req.TimeoutMs != nil {
		input.Timeout = time.Duration(min(*req.TimeoutMs, maxTimeoutMs)) * time.Millisecond
	}
	x.engine = h.engine.Start(input)
	if rt.cfg.Observe != nil {
		x.observe = rt.cfg.Observe(RunInfo{AgentID: h.id, RunID: x.id, SessionID: x.sessionID, Metadata: req.Metadata})
	}
	// A caller that goes away ends its run, however the run is answered.
	x.unbind = context.AfterFunc(ctx, func() { x.run.Cancel(wire.ReasonDisconnect) })
	return x, nil
}

// cancelRun asks a run to end.
func (rt *Runtime) cancelRun(w http.ResponseWriter, _ *http.Request, ps httprouter.Params) error {
	id, err := ids.Parse(ps.ByName("runId"))
	if err != nil {
		return errRunNotFound
	}
	answer, err := rt.runs.Cancel(id, wire.ReasonClientRequest)
	switch {
	case errors.Is(err, run.ErrNotFound):
		return errRunNotFound
	case errors.Is(err, run.ErrEnded):
		return httpapi.WriteJSON(w, http.StatusConflict, answer)
	case err != nil:
		return err
	}
	return httpapi.WriteJSON(w, http.StatusAccepted, answer)
}
