package chat

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"net"
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
	maxClientID = 128             // characters
	limitedFor  = 5 * time.Second // until a user with too many answers should try again
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
// Close. If a message with the same ClientMessageID was sent before and its run was started, it
// returns that one instead. It fails with api.AgentNotDeployed, with api.Conflict while another
// answer is in progress or if the caller has stored too much, with api.RateLimited if too many
// answers are in progress, and with api.UpstreamFailed if the runtime rejects the run, which is
// stored as a failed answer.
func (s *Service) Send(ctx context.Context, caller api.Caller, agentName, id string, in SendInput) (*Answer, *Sent, error) {
	answer, before, err := s.send(ctx, caller, agentName, id, in)
	if err != nil || before == nil {
		return answer, nil, err
	}
	sent, err := s.sent(ctx, before)
	return nil, sent, err
}

// sent returns a message that was sent before, with its answer, which may have 8 MiB.
func (s *Service) sent(ctx context.Context, e *earlier) (*Sent, error) {
	user, assistant, err := readSent(ctx, s.db.Read(), e)
	if err != nil {
		return nil, err
	}
	return &Sent{user.view(e.session.ID), assistant.view(e.session.ID), assistant.Status}, nil
}

// send is Send without the text of a message that was sent before.
func (s *Service) send(ctx context.Context, caller api.Caller, agentName, id string, in SendInput) (*Answer, *earlier, error) {
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
	var before *earlier
	if in.ClientMessageID != "" {
		before, err = findSent(ctx, s.db.Read(), found, in.ClientMessageID)
		if err != nil {
			return nil, nil, err
		}
		if before != nil && (before.started || s.writer.ending(before.runID)) {
			return nil, before, nil
		}
	}
	endpoint, err := s.cfg.Endpoint(ctx, caller.TenantID, agentName)
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
	runtime, err := s.client(endpoint, a.memory.reserve)
	if err != nil {
		a.cancel(nil)
		return nil, nil, err
	}
	begin := a.begin
	if before != nil {
		begin = a.restart
	}
	if !s.writer.enter(a) {
		a.cancel(errShutdown)
		return nil, nil, &api.Error{Code: api.Unavailable, Message: "The hub shuts down: try again."}
	}
	before, err = begin(ctx)
	if err != nil || before != nil {
		if errors.Is(err, db.ErrUnavailable) { // the outcome of the COMMIT may be unknown
			s.writer.abandon(a)
		}
		s.writer.leave(a)
		a.cancel(nil)
		return nil, before, err
	}
	s.writer.watch(a)
	if a.former != "" { // it may still use the session of the runtime
		s.cancelRun(ctx, found.TenantID, found.AgentName, a.former)
	}
	switch err := a.open(runtime, endpoint.AgentID); {
	case errors.Is(err, client.ErrRunIDConflict): // a hub that was killed has started it
		before, err = a.startedBefore()
		return nil, before, err
	case err != nil:
		return nil, nil, a.rejected(err)
	}
	return a, nil, nil
}

// client returns the client of a runtime. reserve reserves memory for its events, or is nil.
func (s *Service) client(e Endpoint, reserve func(bytes int) error) (*client.Client, error) {
	c, err := client.New(client.Config{BaseURL: e.URL, APIKey: e.APIKey, HTTPClient: s.http, Reserve: reserve})
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
	a.memory = account{budget: &s.memory, tenant: in.TenantID}
	a.seen.reserve = a.memory.reserve
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

// begin stores the message and the empty answer, and takes the lease of the session. It returns a
// message that a concurrent call has sent with the same ClientMessageID.
func (a *Answer) begin(ctx context.Context) (sent *earlier, err error) {
	var began session
	err = a.s.db.Tx(ctx, func(tx *sql.Tx) (err error) {
		sent = nil
		began, err = advanceSession(ctx, tx, a.session, titleOf(a.user.Text), sizeOf(a.user, a.assistant), a.user.CreatedAt)
		if err != nil {
			return err
		}
		if a.user.ClientID != "" {
			if sent, err = findSent(ctx, tx, a.session, a.user.ClientID); err != nil {
				return err
			}
			if sent != nil {
				return errSent
			}
		}
		sum, err := quotaOf(ctx, tx, began.TenantID, began.UserID)
		if err := cmp.Or(err, sum.check()); err != nil {
			return err
		}
		if err := a.reserveRun(ctx, tx); err != nil {
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

// restart takes the lease for a message that was sent before, if its run never started. The run has
// its former id, so that a runtime that has accepted it before rejects it.
func (a *Answer) restart(ctx context.Context) (sent *earlier, err error) {
	err = a.s.db.Tx(ctx, func(tx *sql.Tx) error {
		sent = nil
		locked, err := lockSession(ctx, tx, a.session)
		if err != nil {
			return err
		}
		found, err := findSent(ctx, tx, locked, a.user.ClientID)
		if err == nil && found == nil {
			err = noSession() // a push has replaced it
		}
		if err != nil {
			return err
		}
		running, err := hasRun(ctx, tx, locked, a.s.now())
		if err != nil {
			return err
		}
		if running || found.started {
			sent = found
			return errSent
		}
		user, assistant, err := readSent(ctx, tx, found)
		if err != nil {
			return err
		}
		assistant.Status, assistant.Failure = statusPartial, Failure{}
		a.session, a.user, a.assistant = locked, user, assistant
		if err := a.reserveRun(ctx, tx); err != nil {
			return err
		}
		return restartAnswer(ctx, tx, locked, assistant)
	})
	if sent != nil {
		return sent, nil
	}
	return nil, err
}

// reserveRun takes the lease of the session, whose row is locked.
func (a *Answer) reserveRun(ctx context.Context, tx *sql.Tx) (err error) {
	if a.former, err = insertRun(ctx, tx, a.session, a.assistant.RunID, a.s.writer.id, a.s.now()); err != nil {
		return err
	}
	ofUser, ofAgent, err := countRuns(ctx, tx, a.s.db.Engine(), a.session, a.s.now())
	switch {
	case err != nil:
		return err
	case ofUser > a.s.cfg.UserAnswers:
		return &api.Error{Code: api.RateLimited, RetryAfter: limitedFor, Message: "Too many of your answers are in progress: wait for the end of one of them."}
	case ofAgent > a.s.cfg.AgentAnswers:
		return &api.Error{Code: api.RateLimited, RetryAfter: limitedFor, Message: "Too many answers of the agent are in progress: send the message again later."}
	}
	return nil
}

// errSent rolls back the transaction of a message that was sent before.
var errSent = errors.New("the message was sent before")

// open starts the run.
func (a *Answer) open(runtime *client.Client, agentID string) error {
	slow := time.AfterFunc(a.s.cfg.OpenTimeout, func() { a.cancel(errSlow) })
	defer slow.Stop()
	request, err := a.request()
	if err != nil {
		return err
	}
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		a.assistant.Started = true
		events, err := runtime.Open(a.ctx, agentID, request)
		a.events.Store(events)
		if neverAccepted(err) {
			a.assistant.Started = false
		}
		if errors.Is(err, client.ErrUnknownSession) && request.RequireSession {
			if err := forgetRuntimeSession(a.ctx, a.s.db.Write(), a.session); err != nil {
				return err
			}
			a.session.RuntimeSession = ""
			if request, err = a.request(); err != nil {
				return err
			}
			continue
		}
		if !errors.Is(err, client.ErrSessionBusy) || time.Since(a.began) > busyWait {
			return err
		}
		select {
		case <-a.ctx.Done():
		case <-time.After(pause):
		}
	}
}

// request returns the request of the run. It continues the session of the runtime, or it starts one
// with the stored conversation: a runtime that has the session does not need the conversation.
func (a *Answer) request() (wire.RunRequest, error) {
	request := wire.RunRequest{Message: a.user.Text, RunID: &a.assistant.RunID}
	if a.session.RuntimeSession != "" {
		request.SessionID, request.RequireSession = &a.session.RuntimeSession, true
		return request, nil
	}
	history, unanswered, err := historyOf(a.ctx, a.s.db.Read(), a.session, a.user.Seq)
	request.History, request.Message = history, paragraphs(unanswered, a.user.Text)
	a.seeded = len(history) > 0
	return request, err
}

// neverAccepted reports whether a runtime has certainly not accepted a run.
func neverAccepted(err error) bool {
	_, rejected := errors.AsType[*client.Error](err)
	op, network := errors.AsType[*net.OpError](err)
	return rejected || network && op.Op == "dial"
}

// startedBefore stores an answer as failed whose run was started by a hub that was killed.
func (a *Answer) startedBefore() (*earlier, error) {
	a.assistant.Started = true
	_, _, err := a.finish(failed(api.UpstreamFailed, "The answer was lost, because its hub was killed."))
	return &earlier{session: a.session, seq: a.user.Seq}, err
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
	case errors.Is(err, client.ErrSessionBusy):
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
