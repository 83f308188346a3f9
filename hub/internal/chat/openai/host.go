package openai

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/chat"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/rbac"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

// host has the agents of a tenant. It implements Host of package protocol.
type host struct {
	*Service

	reserve func(bytes int) error
}

// Reserve implements the host.
func (h *host) Reserve(bytes int) error { return h.reserve(bytes) }

func callerOf(ctx context.Context) api.Caller {
	caller, _ := rbac.FromContext[api.Caller](ctx)
	return caller
}

// Agents implements the host. An agent is ready if it is deployed and running.
func (h *host) Agents(ctx context.Context) ([]runtimewire.AgentSummary, error) {
	caller := callerOf(ctx)
	manifest, err := h.cfg.Agents(ctx, caller)
	if err != nil {
		return nil, rejected(ctx, err)
	}

	live, err := h.cfg.Live(ctx, caller.TenantID)
	if err != nil {
		return nil, rejected(ctx, err)
	}

	var list []runtimewire.AgentSummary
	for _, a := range manifest.Agents {
		if slices.Contains(live, a.Name) {
			list = append(list, runtimewire.AgentSummary{ID: a.Name, Status: "ready"})
		}
	}

	return list, nil
}

// Run implements the host: it sends a message of a chat, and yields the events of the answer.
func (h *host) Run(ctx context.Context, agentID string, req runtimewire.RunRequest) iter.Seq2[runtimewire.Event, error] {
	return h.RunTalk(ctx, agentID, req, nil, "")
}

// RunTalk implements the host. A client that carries its conversation continues the chat that has
// the turns before the last one, of the same user of the client.
func (h *host) RunTalk(ctx context.Context, agentID string, req runtimewire.RunRequest, talk []runtimewire.Turn, user string) iter.Seq2[runtimewire.Event, error] {
	return func(yield func(runtimewire.Event, error) bool) {
		caller := callerOf(ctx)
		admitted, done := h.cfg.Admit(ctx, caller, rbac.Group{}) // a background response outlives its request
		defer done()
		admitted, cancel := context.WithCancel(admitted)
		defer cancel()
		answer, err := h.start(admitted, caller, agentID, req, chat.Place{Talk: talk, EndUser: user})
		if err != nil {
			yield(runtimewire.Event{}, err)
			return
		}

		defer answer.Close()
		w := &events{yield: yield, session: answer.Run().SessionID, whole: req.Stream == runtimewire.StreamOff}
		if err := answer.Serve(w); err != nil {
			w.fail(err)
		}
	}
}

// start sends the message.
func (h *host) start(ctx context.Context, caller api.Caller, agentID string, req runtimewire.RunRequest, at chat.Place) (*relay.Answer, error) {
	if ctx.Value(ratedKey{}) == nil {
		if err := api.CountRate(ctx); err != nil {
			return nil, rejected(ctx, err)
		}
	}

	in := wire.ChatMessageRequest{
		Message: req.Message, Content: req.Content, OutputSchema: req.OutputSchema, Inputs: req.Inputs, ClientTools: req.ClientTools, Answers: req.Answers,
	}
	if req.SessionID == nil {
		answer, err := h.cfg.Chats.Open(ctx, caller, agentID, in, chat.Opening{
			History: req.History, Carried: at.Talk != nil, EndUser: at.EndUser, Ephemeral: req.Store != nil && !*req.Store, MaxTurns: req.MaxTurns,
		})
		return answer, ofAgent(ctx, err)
	}

	if req.AfterRunID != nil {
		at.AfterRun = *req.AfterRunID
	}

	answer, err := h.cfg.Chats.Continue(ctx, caller, agentID, *req.SessionID, in, at)
	switch {
	case errors.Is(err, wire.NotFound):
		return nil, &taken{runvalue.UnknownSession}
	case errors.Is(err, wire.Conflict):
		return nil, &taken{runvalue.SessionChanged}
	case err == nil && answer == nil:
		return nil, rejected(ctx, wire.InvalidRequest.New("The agent waits for the results of other calls too: send all of them."))
	case err != nil:
		return nil, rejected(ctx, err)
	}

	return answer, nil
}

// Transcript implements the host.
func (h *host) Transcript(ctx context.Context, sessionID string, after int64, limit int) (runtimewire.Transcript, error) {
	t, err := h.cfg.Chats.Entries(ctx, callerOf(ctx), sessionID, after, limit)
	if err != nil {
		return t, rejected(ctx, err)
	}

	return t, nil
}

// DeleteSession implements the host.
func (h *host) DeleteSession(ctx context.Context, sessionID string) error {
	err := h.cfg.Chats.DeleteEntries(ctx, callerOf(ctx), sessionID)
	if err == nil || errors.Is(err, wire.NotFound) {
		return nil
	}

	return rejected(ctx, err)
}

// Cancel implements the host.
func (h *host) Cancel(ctx context.Context, runID string) error {
	if err := h.cfg.Chats.CancelOwn(ctx, callerOf(ctx), runID); err != nil {
		return rejected(ctx, err)
	}

	return nil
}

// Active implements the host.
func (h *host) Active(ctx context.Context, runID string) (bool, error) {
	active, err := h.cfg.Chats.Active(ctx, callerOf(ctx), runID)
	if err != nil {
		return false, rejected(ctx, err)
	}

	return active, nil
}

// rejection is an error of the hub in the form of the protocol.
type rejection struct{ err *wire.Error }

// Unwrap returns the error of the hub.
func (e *rejection) Unwrap() error { return e.err }

func (e *rejection) Error() string { return e.err.Message }

// rejected returns the error of a request.
func rejected(ctx context.Context, err error) error { return &rejection{api.ErrorOf(ctx, err)} }

// Rejection returns the response. Package protocol makes the code of the client of the first text.
func (e *rejection) Rejection() (int, runtimewire.ErrorBody) {
	title := strings.ReplaceAll(string(e.err.Code), "_", " ")
	switch e.err.Code {
	case wire.RateLimited:
		title = "rate limit exceeded"
	case wire.InvalidRequest, wire.ValidationFailed:
		return e.err.Status, runtimewire.ErrorBody{Error: "Invalid request: " + e.text()}
	}

	return e.err.Status, runtimewire.ErrorBody{Error: strings.ToUpper(title[:1]) + title[1:], Reason: e.text()}
}

// RetryAfter returns the wait that the error requests.
func (e *rejection) RetryAfter() time.Duration { return e.err.RetryAfter }

// text returns the message with the faults of fields.
func (e *rejection) text() string {
	lines := []string{e.err.Message}
	for name, fault := range e.err.Data.Fields {
		lines = append(lines, name+" "+fault)
	}

	slices.Sort(lines[1:])
	return strings.Join(lines, " ")
}

// ofAgent returns the error of a request that names an agent.
func ofAgent(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, wire.NotFound):
		return &taken{"Agent not found"}
	}

	return rejected(ctx, err)
}

// taken is a rejection that package protocol knows by its text.
type taken struct{ text string }

func (e *taken) Error() string { return e.text }

// Rejection returns the response.
func (e *taken) Rejection() (int, runtimewire.ErrorBody) {
	status := http.StatusConflict
	if e.text == "Agent not found" {
		status = http.StatusNotFound
	}

	return status, runtimewire.ErrorBody{Error: e.text}
}
