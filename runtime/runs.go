package runtime

import (
	"context"
	"errors"
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
	var req wire.RunRequest
	if err := httpapi.ReadJSON(w, r, rt.cfg.Limits.MaxMessageBytes, &req); err != nil {
		return err
	}
	if err := check(&req); err != nil {
		return err
	}
	mode, err := negotiate(r.Header, req.Stream)
	if err != nil {
		return err
	}
	h, ok := rt.byID[ps.ByName("agentId")]
	switch {
	case !ok:
		return errAgentNotFound
	case h.engine == nil:
		return errAgentUnavailable
	}
	x, err := rt.begin(r.Context(), h, &req)
	if err != nil {
		return err
	}
	x.requestID = httpapi.RequestID(w)
	x.metadata = req.Metadata
	// A caller that goes away ends its run, however the run is answered.
	stop := context.AfterFunc(r.Context(), func() { x.run.Cancel(wire.ReasonDisconnect) })
	defer stop()

	input := engine.Input{RunID: x.id, Session: x.session, Message: req.Message, Partials: mode.partials}
	if req.MaxTurns != nil {
		input.MaxTurns = *req.MaxTurns
	}
	if req.TimeoutMs != nil {
		input.Timeout = min(time.Duration(*req.TimeoutMs), maxTimeoutMs) * time.Millisecond
	}
	x.engine = h.engine.Start(input)
	w.Header().Set("X-Run-Id", x.id)
	if mode.stream {
		return x.stream(w)
	}
	return x.block(w)
}

// maxTimeoutMs keeps a duration in milliseconds from overflowing: no limit is longer than a year.
const maxTimeoutMs = 366 * 24 * 3600 * 1000

// check finds what is wrong with a request, whatever agent it is for.
func check(req *wire.RunRequest) error {
	switch {
	case strings.TrimSpace(req.Message) == "":
		return invalid("message is required")
	case req.SessionID != "" && !session.ValidID(req.SessionID):
		return invalid("sessionId must be 1 to 128 of A-Z, a-z, 0-9, '.', '_' and '-'")
	case req.MaxTurns != nil && *req.MaxTurns < 1:
		return invalid("maxTurns must be at least 1")
	case req.TimeoutMs != nil && *req.TimeoutMs < 1:
		return invalid("timeoutMs must be at least 1")
	}
	return nil
}

// begin takes what a run needs: its id, its session and a place among the runs in progress.
func (rt *Runtime) begin(ctx context.Context, h *hosted, req *wire.RunRequest) (*execution, error) {
	id := ids.Random()
	if req.RunID != "" {
		var err error
		if id, err = ids.Parse(req.RunID); err != nil {
			return nil, errRunIDFormat
		}
	}
	x := &execution{rt: rt, agent: h, id: id.String(), started: time.Now()}
	var err error
	// The run has its own end, told with a reason: the request's only triggers it.
	if x.run, err = rt.runs.Claim(context.WithoutCancel(ctx), id); err != nil {
		return nil, &apiError{http.StatusConflict, wire.ErrorBody{Error: "Run ID conflict", RunID: x.id}}
	}
	x.session, err = rt.cfg.Sessions.Open(ctx, h.id, req.SessionID)
	if err != nil {
		x.run.Release()
		if errors.Is(err, session.ErrBusy) {
			return nil, &apiError{http.StatusConflict, wire.ErrorBody{Error: "Session busy", SessionID: req.SessionID}}
		}
		return nil, err
	}
	x.sessionID = x.session.ID()
	if err := x.run.Start(); err != nil {
		x.run.Release()
		if closeErr := x.session.Close(); closeErr != nil {
			rt.cfg.Logger.Error("close session", "err", closeErr)
		}
		if errors.Is(err, run.ErrDraining) {
			return nil, errDraining
		}
		return nil, errTooManyRuns
	}
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
