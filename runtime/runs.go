package runtime

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/julienschmidt/httprouter"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/internal/registry"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

// startRun handles POST /v1/agents/:agentId/runs.
func (rt *Runtime) startRun(w http.ResponseWriter, r *http.Request, ps httprouter.Params) error {
	memory := &httpapi.Memory{Reserve: rt.Reserve}
	defer memory.Release()
	var req wire.RunRequest
	if err := rt.readRun(w, r, memory, &req); err != nil {
		return err
	}

	h, err := rt.findAgent(ps.ByName("agentId"), &req)
	if err != nil {
		return err
	}

	form, err := negotiate(r.Header, req.Stream)
	if err != nil {
		return err
	}

	x, err := rt.prepare(r.Context(), h, &req)
	if err != nil {
		return err
	}
	defer x.close()
	x.requestID = httpapi.RequestID(w)
	w.Header().Set("X-Run-Id", x.info.RunID)
	trailers := r.Header.Get("Te") == "trailers"
	if form.stream {
		x.input.Partials = form.partials
		return x.stream(w, trailers)
	}

	if trailers {
		w.WriteHeader(http.StatusProcessing) // a proxy learns the id, by which it cancels the run
	}

	res := x.execute(discard)
	if trailers {
		w.Header().Set(runvalue.UsageHeader, x.usage(res))
	}

	return res.write(w, x.requestID)
}

// discard is the output of a run with one JSON response, which has only the result.
var discard = engine.OutputFunc(func(wire.Payload) {})

// stream executes the run and responds with its events, and with its tokens as a trailer.
func (x *execution) stream(w http.ResponseWriter, trailers bool) error {
	w.Header().Set("Cache-Control", "no-cache, no-transform, no-store")
	stream, err := sse.NewStream(w, sse.StreamConfig{
		Heartbeat:    x.rt.cfg.Heartbeat,
		WriteTimeout: x.rt.cfg.WriteTimeout,
		OnError:      func(error) { x.run.Cancel(wire.ReasonDisconnect) },
	})
	if err != nil {
		return err
	}

	defer func() { _ = stream.Close() }() // OnError has handled the error
	defer x.rt.metrics.stream(x.info.AgentID)()
	res := x.execute(&streamOutput{stream: stream, logger: x.rt.cfg.Logger, runID: x.info.RunID})
	if trailers {
		w.Header().Set(http.TrailerPrefix+runvalue.UsageHeader, x.usage(res))
	}

	return nil
}

// findAgent validates the fields of a request that do not depend on other runs, and returns the
// agent.
func (rt *Runtime) findAgent(agentID string, req *wire.RunRequest) (*hosted, error) {
	switch {
	case !hasMessage(req) && req.Answers == nil:
		return nil, invalid("message is required")
	case req.SessionID != nil && !ids.ValidSession(*req.SessionID):
		return nil, invalid("sessionId must be 1 to 128 of A-Z, a-z, 0-9, '.', '_' and '-'")
	case req.RequireSession && req.SessionID == nil:
		return nil, invalid("requireSession needs a sessionId")
	case req.AfterRunID != nil && req.SessionID == nil:
		return nil, invalid("afterRunId needs a sessionId")
	case req.SessionID != nil && req.Store != nil && !*req.Store:
		return nil, invalid("a run with a sessionId is stored: store must not be false")
	case req.MaxTurns != nil && *req.MaxTurns < 1:
		return nil, invalid("maxTurns must be at least 1")
	case req.TimeoutMs != nil && *req.TimeoutMs < 1:
		return nil, invalid("timeoutMs must be at least 1")
	}

	if err := checkHistory(req.History); err != nil {
		return nil, err
	}

	if err := rt.checkInputs(req); err != nil {
		return nil, err
	}

	h, ok := rt.byID[agentID]
	switch {
	case !ok:
		return nil, errAgentNotFound
	case h.engine == nil:
		return nil, errAgentUnavailable
	}

	if err := h.engine.CheckClientTools(req.ClientTools); err != nil {
		return nil, invalid(err.Error())
	}

	return h, nil
}

// prepare reserves the id of a run, its session and a slot among the active runs. The caller must
// close the execution.
func (rt *Runtime) prepare(ctx context.Context, h *hosted, req *wire.RunRequest) (*execution, error) {
	c := &contents{uploads: rt.uploads, memory: &httpapi.Memory{Reserve: rt.Reserve}}
	var x *execution
	defer func() {
		if x == nil {
			c.memory.Release()
		}
	}()
	if err := c.read(h.engine, req); err != nil {
		return nil, err
	}

	var reason string
	var err error
	if x, reason, err = rt.reserveRun(ctx, h, req, c); err != nil {
		rt.metrics.reject(h.id, reason)
	}

	return x, err
}

// reserveRun is prepare. The reason is that of the error in metrics.
func (rt *Runtime) reserveRun(ctx context.Context, h *hosted, req *wire.RunRequest, c *contents) (*execution, string, error) {
	id := ids.Random()
	if req.RunID != nil {
		var err error
		if id, err = ids.Parse(*req.RunID); err != nil {
			return nil, rejectedID, errRunIDFormat
		}
	}

	// A client that disconnects cancels its run, in both response forms.
	entry, err := rt.runs.Claim(ctx, id)
	if err != nil {
		return nil, rejectedID, &Error{http.StatusConflict, wire.ErrorBody{Error: runvalue.RunIDConflict, RunID: id.String()}}
	}
	defer entry.Release() // if the run does not start
	var sessionID string
	if req.SessionID != nil {
		sessionID = *req.SessionID
	}

	if err := rt.holdSession(c.memory, h.id, sessionID); err != nil {
		return nil, rejectedError, err
	}

	s, err := rt.storeOf(req).Open(ctx, h.id, sessionID)
	if errors.Is(err, session.ErrBusy) {
		return nil, rejectedBusy, errSessionBusy(sessionID)
	}

	if err != nil {
		return nil, rejectedError, err
	}

	if (req.RequireSession || answers(req)) && !s.Resumed() {
		if err := s.Close(); err != nil {
			return nil, rejectedError, fmt.Errorf("close new session: %w", err)
		}

		return nil, rejectedUnknown, &Error{http.StatusConflict, wire.ErrorBody{Error: runvalue.UnknownSession, SessionID: sessionID}}
	}

	reason := rejectedUnknown
	var checked *engine.Answers
	if err = rt.checkLastRun(ctx, s, req); err == nil {
		reason = rejectedAnswers
		checked, err = rt.checkAnswers(ctx, h, s, req)
	}

	if err != nil {
		if closeErr := s.Close(); closeErr != nil {
			rt.cfg.Logger.Error("close session", "err", closeErr, "session_id", sessionID)
		}

		return nil, reason, err
	}

	x := rt.newExecution(h, entry, s, req, c)
	x.input.Answers = checked
	if err := entry.Start(); err != nil {
		_ = x.closeSession() // which logs it
		if errors.Is(err, registry.ErrDraining) {
			return nil, rejectedDraining, errDraining
		}

		return nil, rejectedTooMany, errTooManyRuns
	}

	return x, "", nil
}

// checkLastRun checks the last run of an open session, which no other run can change.
func (rt *Runtime) checkLastRun(ctx context.Context, s session.Session, req *wire.RunRequest) error {
	if req.AfterRunID == nil || !s.Resumed() {
		return nil
	}

	t, err := rt.cfg.Sessions.Transcript(ctx, s.ID(), 0, 1)
	if err == nil && t.Total > 1 {
		t, err = rt.cfg.Sessions.Transcript(ctx, s.ID(), t.Total-1, 1)
	}

	if err != nil {
		return err
	}

	if len(t.Entries) == 0 || t.Entries[len(t.Entries)-1].Run != *req.AfterRunID {
		return &Error{http.StatusConflict, wire.ErrorBody{Error: runvalue.SessionChanged, SessionID: s.ID()}}
	}

	return nil
}

// sized is a store that reads a session when it is opened.
type sized interface {
	// Size returns the bytes of a stored session, 0 for an unknown one.
	Size(agentID, id string) int64
}

// holdSession reserves memory for a session that is about to be opened.
func (rt *Runtime) holdSession(m *httpapi.Memory, agentID, id string) error {
	if store, ok := rt.cfg.Sessions.(sized); ok && id != "" {
		return m.Add(sessionCopies * int(store.Size(agentID, id)))
	}

	return nil
}

// storeOf returns the store of the session of a run. A session that is not stored ends with its
// run.
func (rt *Runtime) storeOf(req *wire.RunRequest) session.Store {
	if rt.stores(req) {
		return rt.cfg.Sessions
	}

	return session.NewMemory(session.MemoryConfig{})
}

// stores reports whether the session of a run is stored.
func (rt *Runtime) stores(req *wire.RunRequest) bool {
	if req.Store != nil {
		return *req.Store
	}

	return req.SessionID != nil || !rt.cfg.StoreOnRequest
}

// checkHistory validates the history of a request. User and assistant alternate, so that the
// message of the request follows a message of the assistant.
func checkHistory(history []wire.Turn) error {
	if len(history) > runvalue.MaxHistory {
		return invalid(fmt.Sprintf("history must have at most %d entries", runvalue.MaxHistory))
	}

	for i, turn := range history {
		want := runvalue.RoleUser
		if i%2 == 1 {
			want = runvalue.RoleAssistant
		}

		switch {
		case turn.Role != want:
			return invalid(fmt.Sprintf("history[%d].role must be %q", i, want))
		case strings.TrimSpace(turn.Content) == "" && len(turn.Parts) == 0:
			return invalid(fmt.Sprintf("history[%d].content is required", i))
		case len(turn.Parts) > 0 && want != runvalue.RoleUser:
			return invalid(fmt.Sprintf("history[%d].parts are those of a user", i))
		}
	}

	if len(history)%2 == 1 {
		return invalid("history must end with an entry of the assistant")
	}

	return nil
}

// historyMessages returns the messages of a valid history, without their parts.
func historyMessages(history []wire.Turn) []model.Message {
	messages := make([]model.Message, len(history))
	for i, turn := range history {
		if strings.TrimSpace(turn.Content) != "" {
			messages[i] = model.UserText(turn.Content)
		}

		messages[i].Role = model.Role(turn.Role)
	}

	return messages
}

// responseForm is the form of the response to a run.
type responseForm struct {
	stream   bool // server-sent events, otherwise one JSON object
	partials bool // with partial messages
}

// accepted is the content of an Accept header.
type accepted struct {
	sse, json, any            bool
	excludesSSE, excludesJSON bool // by q=0
}

func readAccept(values []string) (accepted, bool) {
	var a accepted
	var given bool
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			if strings.TrimSpace(part) == "" {
				continue
			}

			given = true
			media, params, err := mime.ParseMediaType(part)
			if err != nil {
				continue
			}

			q, err := strconv.ParseFloat(params["q"], 64)
			wanted := err != nil || q > 0
			switch media {
			case "text/event-stream":
				a.sse, a.excludesSSE = wanted, !wanted
			case "text/*":
				a.sse = a.sse || wanted && !a.excludesSSE
				a.excludesSSE = a.excludesSSE || !wanted && !a.sse
			case "application/json":
				a.json, a.excludesJSON = wanted, !wanted
			case "application/*":
				a.json = a.json || wanted && !a.excludesJSON
				a.excludesJSON = a.excludesJSON || !wanted && !a.json
			case "*/*":
				a.any = wanted
			}
		}
	}

	return a, given
}

// negotiate selects the form of the response. It uses the Accept header if that names a form, and
// otherwise the field stream.
func negotiate(h http.Header, mode wire.StreamMode) (responseForm, error) {
	stream := responseForm{stream: true, partials: mode != wire.StreamBlock}
	a, given := readAccept(h.Values("Accept"))
	switch {
	case a.sse:
		return stream, nil
	case a.json:
		return responseForm{}, nil
	case given && !a.any, a.excludesSSE && a.excludesJSON:
		return responseForm{}, errNotAcceptable
	case a.excludesSSE:
		return responseForm{}, nil
	case mode == wire.StreamOff && !a.excludesJSON:
		return responseForm{}, nil
	}

	return stream, nil
}
