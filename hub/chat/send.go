package chat

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/aigc"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/wire"
)

const (
	maxClientID = 128 // characters
	// busyWait is how long a run waits until the previous one, which was cancelled, has released
	// the session of the runtime.
	busyWait = 5 * time.Second
)

// SendInput is a message of the user. ClientMessageID, if it is not empty, identifies it in its
// session, so that it can be sent again after a lost connection.
type SendInput struct {
	Message         string `json:"message"`
	ClientMessageID string `json:"clientMessageId"`
}

func (in SendInput) validate() (SendInput, error) {
	fields := api.Fields{}
	if strings.TrimSpace(in.Message) == "" {
		fields.Add("message", "must not be empty")
	} else if in.Message != clean(in.Message) {
		fields.Add("message", "must be UTF-8 without NUL")
	}
	in.ClientMessageID = fields.Line("clientMessageId", in.ClientMessageID, 0, maxClientID)
	return in, fields.Err()
}

// Sent is a message that was sent before, with its answer. Status is that of the answer.
type Sent struct {
	UserMessage      Message `json:"userMessage"`
	AssistantMessage Message `json:"assistantMessage"`
	Status           string  `json:"status"`
}

// Send stores a message in a session of the caller and starts the answer, whose caller must call
// Close. If a message with the same ClientMessageID was sent before, it returns that one instead.
// It fails with api.AgentNotDeployed, with api.Conflict while another answer is in progress or if
// the caller has stored too much, and with api.UpstreamFailed if the runtime rejects the run, which
// is stored as a failed answer.
func (s *Service) Send(ctx context.Context, caller api.Caller, agentName, id string, in SendInput) (*Answer, *Sent, error) {
	in, err := in.validate()
	if err != nil {
		return nil, nil, err
	}
	ref, err := s.ownedBy(ctx, caller, agentName, id)
	if err != nil {
		return nil, nil, err
	}
	found, err := findSession(ctx, s.db.Read(), ref)
	if err != nil {
		return nil, nil, err
	}
	if sent, err := sentBefore(ctx, s.db.Read(), found, in.ClientMessageID); err != nil || sent != nil {
		return nil, sent, err
	}
	endpoint, err := s.cfg.Endpoint(ctx, caller.TenantID, agentName)
	if err != nil {
		return nil, nil, err
	}
	runtime, err := s.client(endpoint)
	if err != nil {
		return nil, nil, err
	}
	marker, err := s.cfg.Label(ctx, caller.TenantID)
	if err != nil {
		return nil, nil, err
	}
	a, err := s.newAnswer(ctx, found, in, marker)
	if err != nil {
		return nil, nil, err
	}
	if !s.writer.enter() {
		a.cancel(errShutdown)
		return nil, nil, &api.Error{Code: api.Unavailable, Message: "The hub shuts down: try again."}
	}
	sent, err := a.begin(ctx)
	if err != nil || sent != nil {
		s.writer.leave(a)
		a.cancel(nil)
		return nil, sent, err
	}
	s.writer.watch(a)
	if err := a.open(runtime, endpoint.AgentID, in.Message); err != nil {
		return nil, nil, a.rejected(err)
	}
	return a, nil, nil
}

func (s *Service) client(e Endpoint) (*client.Client, error) {
	c, err := client.New(client.Config{BaseURL: e.URL, APIKey: e.APIKey, HTTPClient: s.http})
	if err != nil {
		return nil, &api.Error{Code: api.UpstreamFailed, Message: "The address of the agent's runtime is invalid.", Cause: err}
	}
	return c, nil
}

func (s *Service) newAnswer(ctx context.Context, in session, input SendInput, marker *aigc.Marker) (*Answer, error) {
	now := s.now()
	ctx, cancel := context.WithCancelCause(ctx)
	runID := ids.Random().String()
	a := &Answer{s: s, session: in, ctx: ctx, cancel: cancel, began: time.Now()}
	a.progressed = a.began
	a.user = message{ID: ids.New(), ClientID: input.ClientMessageID, Role: roleUser, Status: statusCompleted, Text: input.Message, CreatedAt: now}
	a.assistant = message{ID: ids.New(), Role: roleAssistant, Status: statusPartial, RunID: runID, CreatedAt: now}
	if marker != nil {
		if err := a.mark(*marker); err != nil {
			cancel(err)
			return nil, err
		}
	}
	return a, nil
}

func sentBefore(ctx context.Context, q db.Querier, in session, clientID string) (*Sent, error) {
	if clientID == "" {
		return nil, nil //nolint:nilnil // nil is the documented value of no message
	}
	user, assistant, ok, err := findSent(ctx, q, in, clientID)
	if err != nil || !ok {
		return nil, err
	}
	return &Sent{user.view(in.ID), assistant.view(in.ID), assistant.Status}, nil
}

// begin stores the message and the empty answer, and takes the lease of the session. It returns a
// message that a concurrent call has sent with the same ClientMessageID.
func (a *Answer) begin(ctx context.Context) (sent *Sent, err error) {
	var began session
	err = a.s.db.Tx(ctx, func(tx *sql.Tx) (err error) {
		sent = nil
		began, err = advanceSession(ctx, tx, a.session, titleOf(a.user.Text), sizeOf(a.user, a.assistant), a.user.CreatedAt)
		if err != nil {
			return err
		}
		if sent, err = sentBefore(ctx, tx, a.session, a.user.ClientID); err != nil || sent != nil {
			return errors.Join(err, errSent)
		}
		sum, err := quotaOf(ctx, tx, began.TenantID, began.UserID)
		if err := cmp.Or(err, sum.check()); err != nil {
			return err
		}
		if err := insertRun(ctx, tx, a.session, a.assistant.RunID, a.s.writer.id, a.s.now()); err != nil {
			return err
		}
		a.user.Seq, a.assistant.Seq = began.Messages-1, began.Messages
		return insertMessages(ctx, tx, began, a.user, a.assistant)
	})
	if sent != nil {
		return sent, nil
	}
	a.session = began
	return nil, err
}

// errSent rolls back the transaction of a message that was sent before.
var errSent = errors.New("the message was sent before")

// open starts the run.
func (a *Answer) open(runtime *client.Client, agentID, text string) error {
	history, err := historyOf(a.ctx, a.s.db.Read(), a.session, a.user.Seq)
	if err != nil {
		return err
	}
	slow := time.AfterFunc(a.s.cfg.OpenTimeout, func() { a.cancel(errSlow) })
	defer slow.Stop()
	request := wire.RunRequest{Message: text, RunID: &a.assistant.RunID, History: history}
	if a.session.RuntimeSession != "" {
		request.SessionID = &a.session.RuntimeSession
	}
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		events, err := runtime.Open(a.ctx, agentID, request)
		a.events.Store(events)
		if !sessionBusy(err) || time.Since(a.began) > busyWait {
			return err
		}
		select {
		case <-a.ctx.Done():
		case <-time.After(pause):
		}
	}
}

// sessionBusy reports whether a run that was cancelled is still releasing the session.
func sessionBusy(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && e.Status == http.StatusConflict && e.Body.SessionID != ""
}

// rejected stores the answer as failed, and returns the error of the response.
func (a *Answer) rejected(err error) error {
	e := &api.Error{Code: api.UpstreamFailed, Message: "The runtime of the agent cannot be reached: look at its deployment.", Cause: err}
	failure, ok := errors.AsType[*client.Error](err)
	switch {
	case context.Cause(a.ctx) != nil:
		end := endingOf(context.Cause(a.ctx))
		e.Code, e.Message = api.Code(end.Failure.Code), end.Failure.Message
		_, _, _ = a.finish(end) // the writer has logged its error
		return e
	case errors.Is(err, db.ErrUnavailable):
		e.Code, e.Message = api.Unavailable, ""
	case sessionBusy(err):
		e.Code, e.Message = api.Conflict, "The previous answer is still ending: send the message again in a moment."
	case ok && failure.Status == http.StatusRequestEntityTooLarge:
		e.Code, e.Message = api.PayloadTooLarge, "The message is too long for the agent."
	case ok && (failure.Status == http.StatusServiceUnavailable || failure.Status == http.StatusTooManyRequests):
		e.Message = "The runtime of the agent takes no more runs at the moment: send the message again later."
	case ok:
		e.Message = "The runtime of the agent rejected the message: look at its deployment."
	}
	message := e.Message
	if message == "" {
		message = e.Code.Error()
	}
	_, _, _ = a.finish(failed(e.Code, message)) // the writer has logged its error
	return e
}
