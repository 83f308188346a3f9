package relay

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/client"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

const (
	limitedFor = 5 * time.Second // until a user with too many answers should try again
	// busyWait is how long a run waits until the previous one, which was cancelled, has released
	// the session of the runtime.
	busyWait = 5 * time.Second
	// filesWait is how long it waits until others have released the memory for their files.
	filesWait = 10 * time.Second
)

// ErrStartedBefore is returned by [Relay.Start] if the runtime has accepted the run before: its hub
// was killed. The answer is stored as failed.
var ErrStartedBefore = errors.New("the run was started before")

// Start is an answer that begins.
type Start struct {
	Endpoint deployment.Endpoint

	// Store stores the message and the empty answer in a transaction that calls [Answer.Reserve], or
	// [Relay.ReserveAll] and [Answer.Reserved], and returns what the run gets: a message or answers,
	// and the inputs.
	Store func(ctx context.Context, a *Answer) (runtimewire.RunRequest, error)

	// FormerRun is the id of the run that the answer continues, or "". The ids of events go on.
	FormerRun string

	// Continues means that the caller calls [Answer.Continue]: the answer has a journal from its
	// start.
	Continues bool

	// History returns the conversation before the message, and a turn of the user after it without
	// an answer. It is called only if the runtime does not have the session.
	History func(ctx context.Context) (history []runtimewire.Turn, unanswered runtimewire.Turn, err error)

	// Attach reads the bytes of the files of a request. It calls hold with the sum before.
	Attach func(ctx context.Context, request *runtimewire.RunRequest, hold func(bytes int) error) error
}

// Start stores an answer and starts its run. The caller must call Close. It fails with the error of
// [Start].Store, with [ErrStartedBefore], and with code.UpstreamFailed if the runtime rejects the
// run, which is stored as a failed answer.
func (r *Relay) Start(ctx context.Context, run AnswerRun, in Start) (*Answer, error) {
	a := &Answer{relay: r, run: run, memory: account{budget: r.memory, holder: run.TenantID}, files: account{budget: r.files, holder: run.TenantID}, began: time.Now(), done: make(chan struct{})}
	a.progressed = a.began
	ctx, a.span = startSpan(ctx, run)
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	a.line, a.hangUp = context.WithCancel(context.WithoutCancel(ctx))
	runtime, err := r.client(in.Endpoint, a.memory.reserve)
	if in.Continues {
		a.journal = r.nextJournal(a, in.FormerRun)
	}

	if err == nil {
		err = r.enter(a)
	}

	if err != nil {
		a.cancel(nil)
		a.span.End()
		return nil, err
	}

	request, err := in.Store(ctx, a)
	if err != nil {
		if errors.Is(err, db.ErrUnavailable) { // the outcome of the COMMIT may be unknown
			end := failed(kindHub, wire.Unavailable, "The database was unavailable: send the message again.")
			if a.resumed != nil {
				end = Ending{Status: StatusWaiting}
			}

			a.conclude(end)
		} else {
			r.remove(a)
			r.dropJournal(a)
		}

		r.endJournal(a)
		a.cancel(nil)
		r.open.Done()
		return nil, err
	}

	a.mu.Lock()
	a.begun, a.inputs, a.tools = true, request.Inputs, request.ClientTools
	a.bound = request.OutputSchema != nil || len(request.Content) > 0
	a.mu.Unlock()
	r.observe(a.former)
	if a.former.ID != "" && a.former.ID != a.run.ID { // it may still use the session of the runtime
		r.CancelRun(ctx, a.run.TenantID, a.run.AgentName, a.former.ID)
	}

	switch err := a.open(runtime, in, request); {
	case errors.Is(err, client.ErrRunIDConflict): // a hub that was killed, or a lost connection, has started it
		a.started = true
		if err := a.complete(failed(kindLost, code.UpstreamFailed, "The answer was lost: its hub was killed, or the connection to the runtime was lost.")); err != nil {
			return nil, err
		}

		return nil, ErrStartedBefore
	case err != nil:
		return nil, a.rejected(err)
	}

	a.runtime = runtime
	a.unwatch = context.AfterFunc(a.ctx, a.cancelRun)
	return a, nil
}

// Reserve stores the run of the session, in the transaction of [Start].Store, which has
// locked the row of the session. It fails with wire.Conflict while another answer is in progress,
// and with wire.RateLimited if too many answers are.
func (a *Answer) Reserve(ctx context.Context, tx *sql.Tx, run AnswerRun) error {
	a.Reserved(run)
	var err error
	a.former, err = insertRun(ctx, tx, run, a.relay)
	return err
}

// Reserved sets the run of the session, which [Relay.ReserveAll] has stored.
func (a *Answer) Reserved(run AnswerRun) { a.run, a.continues = run, run.RuntimeSession }

// open starts the run.
func (a *Answer) open(runtime *client.Client, in Start, sent runtimewire.RunRequest) error {
	slow := time.AfterFunc(a.relay.cfg.OpenTimeout, func() { a.cancel(errSlow) })
	defer slow.Stop()
	defer context.AfterFunc(a.ctx, a.hangUp)() // the run is not accepted yet
	defer func() { _ = a.holdHistory(0) }()    // the runtime has it, and this only releases
	defer a.files.release()
	request, err := a.request(in, sent)
	if err != nil {
		return err
	}

	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		events, err := runtime.Open(a.line, in.Endpoint.AgentID, request)
		a.mu.Lock()
		a.events = events
		a.mu.Unlock()
		a.started = !neverAccepted(err)
		if errors.Is(err, client.ErrUnknownSession) && request.RequireSession && a.resumed == nil {
			if err := forgetRuntimeSession(a.ctx, a.relay.store.DB.Write(), a.run); err != nil {
				return err
			}

			a.continues = ""
			if request, err = a.request(in, sent); err != nil {
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
func (a *Answer) request(in Start, request runtimewire.RunRequest) (runtimewire.RunRequest, error) {
	request.RunID = &a.run.ID
	if a.continues != "" || a.resumed != nil {
		request.SessionID, request.RequireSession = &a.continues, true
		return request, a.attach(in, &request)
	}

	history, unanswered, err := in.History(a.ctx)
	if err != nil {
		return request, err
	}

	request.History = history
	request.Message, request.Content = after(unanswered, request.Message, request.Content)
	a.seeded = len(history) > 0
	size := len(unanswered.Content)
	for _, turn := range history {
		size += len(turn.Content)
	}

	if err := a.holdHistory(size); err != nil {
		return request, err
	}

	return request, a.attach(in, &request)
}

// after returns the text and the parts of a message that follow a turn of the user.
func after(turn runtimewire.Turn, text string, parts []runtimewire.ContentPart) (string, []runtimewire.ContentPart) {
	if len(turn.Parts) == 0 {
		return Paragraphs(turn.Content, text), parts
	}

	all := slices.Clone(turn.Parts)
	if text != "" {
		all = append(all, runtimewire.ContentPart{Type: runvalue.PartText, Text: text})
	}

	return turn.Content, append(all, parts...)
}

// attach reads the bytes of the files of a request, which are sent in base64.
func (a *Answer) attach(in Start, request *runtimewire.RunRequest) error {
	if in.Attach == nil {
		return nil
	}

	request.Content = slices.Clone(request.Content) // another attempt reads them again
	return in.Attach(a.ctx, request, a.holdFiles)
}

// holdFiles reserves memory for images and files of that size, in place of that of the last call.
// It waits until the runs that begin have released theirs.
func (a *Answer) holdFiles(size int) error {
	for {
		err := a.files.reserve(historyCopies*base64.StdEncoding.EncodedLen(size) - a.files.used)
		if err == nil || time.Since(a.began) > filesWait {
			return err
		}

		select {
		case <-a.ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// MaxHistory bounds the text of a conversation that a run begins with, in bytes of JSON: a model
// reads no more than its context window, and a runtime accepts bodies of 4 MiB.
const MaxHistory = 1 << 20

// historyCopies is how often the text is in memory, at most: as text, as JSON, and in the buffer of
// the connection.
const historyCopies = 3

// holdHistory reserves memory for a conversation of that size, in place of that of the last call.
func (a *Answer) holdHistory(size int) error {
	if err := a.memory.reserve(historyCopies * (size - a.history)); err != nil {
		return err
	}

	a.history = size
	return nil
}

// neverAccepted reports whether a runtime has certainly not accepted a run.
func neverAccepted(err error) bool {
	_, rejected := errors.AsType[*client.Error](err)
	op, network := errors.AsType[*net.OpError](err)
	return rejected || network && op.Op == "dial"
}

// rejected stores the answer as failed, and returns the error of the response.
func (a *Answer) rejected(err error) error {
	e := &wire.Error{Code: code.UpstreamFailed, Message: "The runtime of the agent cannot be reached: look at its deployment.", Cause: err}
	failure, ok := errors.AsType[*client.Error](err)
	kind := kindUnreachable
	if ok {
		kind = kindRejected
	}

	switch {
	case context.Cause(a.ctx) != nil:
		end := endingOf(context.Cause(a.ctx))
		e.Code, e.Message = wire.Code(end.Failure.Code), end.Failure.Message
		if a.resumed != nil && !a.started {
			return a.notResumed(e, nil)
		}

		_ = a.complete(end) // the error is logged
		return e
	case errors.Is(err, errMemory):
		kind, e.Code, e.Message = kindMemory, wire.Unavailable, "The conversations that begin use too much memory: send the message again later."
	case errors.Is(err, db.ErrUnavailable):
		kind, e.Code, e.Message = kindHub, wire.Unavailable, ""
	case errors.Is(err, client.ErrSessionBusy):
		kind, e.Code, e.Message = kindBusy, wire.Conflict, "The previous answer is still ending: send the message again in a moment."
	case ok && failure.Status == http.StatusRequestEntityTooLarge:
		e.Code, e.Message = code.PayloadTooLarge, "The message is too long for the agent."
	case ok && failure.Status == http.StatusBadRequest && (len(a.inputs) > 0 || a.bound): // such as the name of a tool, or a part
		e.Code, e.Message = wire.InvalidRequest, "The runtime of the agent rejected the message: "+Clean(excerpt.Head(failure.Body.Error, maxFailure))
	case ok && (failure.Status == http.StatusServiceUnavailable || failure.Status == http.StatusTooManyRequests):
		kind, e.Message = kindBusy, "The runtime of the agent takes no more runs at the moment: send the message again later."
	case ok:
		e.Message = "The runtime of the agent rejected the message: look at its deployment."
	}

	if a.resumed != nil && !a.started {
		return a.notResumed(e, failure)
	}

	_ = a.complete(failed(kind, e.Code, code.Response(e, "").Message)) // the error is logged
	return e
}
