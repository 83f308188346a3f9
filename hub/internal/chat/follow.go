package chat

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

// The number of streams of answers that are read at once in each hub, by a user and by all, besides
// those of the messages that they send.
const (
	maxReaders    = 100
	maxAllReaders = 10_000
)

// readers counts the streams by their users.
type readers struct {
	mu     sync.Mutex // guards the fields below
	byUser map[string]int
	all    int
}

// enter adds a stream until the caller calls the function.
func (r *readers) enter(caller api.Caller) (func(), error) {
	user := caller.TenantID + "/" + caller.UserID
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all >= maxAllReaders {
		return nil, &wire.Error{Code: wire.Unavailable, RetryAfter: readAgain, Message: "Too many answers are read at once: try again."}
	}

	if r.byUser[user] >= maxReaders {
		return nil, &api.Refusal{Limit: api.LimitAnswers, Err: &wire.Error{
			Code: wire.RateLimited, RetryAfter: readAgain, Message: "You read too many answers at once: close some of the streams first.",
		}}
	}

	r.byUser[user]++
	r.all++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all--
		if r.byUser[user]--; r.byUser[user] == 0 {
			delete(r.byUser, user)
		}
	}, nil
}

// readAgain is the time until a user with too many streams should try again.
const readAgain = 5 * time.Second

// sendEvents sends the events of an answer after Last-Event-ID, or all.
func (s *Service) sendEvents(w http.ResponseWriter, r *http.Request, ref reference) error {
	run, err := s.answer(r.Context(), ref, r.PathValue("message"))
	if err != nil {
		return err
	}

	after := r.Header.Get("Last-Event-ID")
	ended, err := s.endsAfter(r.Context(), run, after)
	if err != nil {
		return err
	}

	if ended { // an EventSource does not connect again
		w.WriteHeader(http.StatusNoContent)
		return nil
	}

	if r.Method == http.MethodHead {
		stream, err := sse.NewStream(w, sse.StreamConfig{})
		if err != nil {
			return err
		}

		return stream.Close()
	}

	left, err := s.readers.enter(api.CallerOf(r))
	if err != nil {
		return err
	}

	defer left()
	ctx := r.Context()
	if caller := api.CallerOf(r); caller.UserID != run.UserID { // the route is also for members
		var done func()
		ctx, done = s.cfg.Admit(ctx, caller, rbac.AdminWrite)
		defer done()
	}

	return s.follow(ctx, w, run, after, sendDenied)
}

// endsAfter reports whether the event with an id is the last one of an answer that has ended.
func (s *Service) endsAfter(ctx context.Context, run relay.AnswerRun, id string) (bool, error) {
	if !relay.IsEnd(id) {
		return s.relay.EndsAfter(run.ID, id), nil
	}

	found, err := progressOf(ctx, s.store.Read(), run)
	return found[placeOf(run)].over(), err
}

// answer returns the run of an answer of a session.
func (s *Service) answer(ctx context.Context, ref reference, messageID string) (relay.AnswerRun, error) {
	found, err := findSession(ctx, s.store.Read(), ref)
	if err != nil {
		return relay.AnswerRun{}, err
	}

	return answerOf(ctx, s.store.Read(), found, messageID)
}

// follow sends the events of an answer after the one with an id, or all, until its end: those of
// the journal of this hub, or what is stored. denied sends the end if the access of the reader
// ends.
func (s *Service) follow(
	ctx context.Context, w http.ResponseWriter, run relay.AnswerRun, after string, denied func(context.Context, *sse.Stream, relay.AnswerRun) error,
) error {
	stream, err := sse.NewStream(w, sse.StreamConfig{WriteTimeout: s.cfg.Relay.WriteTimeout})
	if err != nil {
		return err
	}

	defer func() { _ = stream.Close() }() // a client that is gone needs no events
	after, err = s.relay.Follow(ctx, stream, run.ID, after)
	if errors.Is(err, relay.ErrNoJournal) {
		err = s.followStored(ctx, stream, run, after)
	}

	if errors.Is(err, api.ErrAccessEnded) {
		return denied(ctx, stream, run)
	}

	if err != nil && ctx.Err() == nil {
		s.store.Logger.Debug("sending the events of an answer failed", "run_id", run.ID, "err", err)
	}

	return nil
}

// sendDenied sends the end to a reader whose access has ended. The answer perhaps continues.
func sendDenied(ctx context.Context, stream *sse.Stream, run relay.AnswerRun) error {
	ended := wire.Forbidden
	errors.As(context.Cause(ctx), &ended)
	return relay.SendEvents(stream, &runtimewire.Fault{
		Type: "error", Error: "You may no longer read this answer: your access has ended.", ErrorType: string(ended), RunID: run.ID,
	}, &runtimewire.Done{})
}

// sendEnded sends the end to the client that has sent the message, whose access has ended: it ends
// that of the answer too.
func sendEnded(_ context.Context, stream *sse.Stream, run relay.AnswerRun) error {
	return sendCancelled(stream, run)
}

// errDraining ends a stream whose reader continues at another hub.
var errDraining = errors.New("the hub shuts down")

// followStored sends what is stored of an answer, while it becomes more.
func (s *Service) followStored(ctx context.Context, stream *sse.Stream, run relay.AnswerRun, after string) error {
	one, leave, err := s.follower.follow(ctx, run)
	if err != nil {
		return err
	}

	defer leave()
	place := relay.PlaceOf(after)
	size := 0
	for first := after == ""; ; first = false {
		now, changed := s.follower.current(one)
		if errors.Is(now.err, wire.NotFound) { // the chat was deleted
			return sendCancelled(stream, run)
		}

		if now.err != nil {
			return now.err
		}

		err := s.sendStored(ctx, stream, run, &place, now, first && !now.ended, max(0, now.Size-size))
		if err != nil || now.ended {
			return err
		}

		size = now.Size
		if err := stream.Flush(); err != nil {
			return err
		}

		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.relay.Draining():
			return errDraining
		}
	}
}

// sendCancelled sends the end of an answer that the hub has cancelled.
func sendCancelled(stream *sse.Stream, run relay.AnswerRun) error {
	return relay.SendEvents(stream,
		&runtimewire.Cancelled{Type: "cancelled", RunID: run.ID, Reason: runtimewire.ReasonClientRequest}, &runtimewire.Done{})
}

// sendStored sends the part of a stored answer that a reader does not have, of about a size, after
// its begin if that is the first one, and its end.
func (s *Service) sendStored(ctx context.Context, stream *sse.Stream, run relay.AnswerRun, place *relay.Place, now *stored, first bool, size int) error {
	release, err := s.relay.Hold(run, relay.StoredCopies*size)
	if err != nil {
		return err
	}

	defer release()
	if first {
		if err := s.sendBegun(ctx, stream, run); err != nil {
			return err
		}
	}

	if err := now.answer.Send(stream, place); err != nil || !now.ended {
		return err
	}

	m := now.message
	if m.Status == relay.StatusPartial {
		m.Failure = wire.ChatError{Code: string(code.UpstreamFailed), Message: "The answer was lost: its hub was killed, or does not reach the database."}
	}

	if m.Failure.Code != "" {
		fault := &runtimewire.Fault{Type: "error", Error: m.Failure.Message, ErrorType: m.Failure.Code, RunID: run.ID, Usage: now.answer.Usage}
		if err := relay.SendEvents(stream, fault); err != nil {
			return err
		}
	}

	saved := &wire.Saved{Type: "hub.saved", MessageID: m.ID, Status: m.Status, Usage: now.answer.Usage, AIGC: m.AIGC, Budgets: m.Budgets}
	if wait, err := m.wait(); err == nil && len(wait.Calls) > 0 {
		saved.Status, saved.Pending = relay.StatusWaiting, wait.Pending()
	}

	if m.Status == relay.StatusFailed {
		saved.Error = s.relay.Remedies(ctx, run.TenantID, run.AgentName)(m.Failure)
	}

	if err := relay.SendEvents(stream, saved); err != nil {
		return err
	}

	return relay.SendDone(stream)
}

// sendBegun sends the first event of a stored answer. A notice that is only in that event is not
// stored: it is that of the present settings.
func (s *Service) sendBegun(ctx context.Context, stream *sse.Stream, run relay.AnswerRun) error {
	hint, err := s.label(ctx, run.TenantID, &message{})
	if err != nil {
		return err
	}

	return relay.SendEvents(stream, &wire.Begun{
		Type: "hub", SessionID: run.SessionID, UserMessageID: run.UserMessageID, AssistantMessageID: run.MessageID, AIGC: run.Label, AIGCNotice: hint,
	})
}

// CancelAnswer cancels an answer of the caller, which may be relayed by another hub. It fails with
// wire.Conflict if it is not in progress.
func (s *Service) CancelAnswer(ctx context.Context, caller api.Caller, agentName, id, messageID string) (bodies.Cancelling, error) {
	ref, err := s.ownedBy(ctx, caller, agentName, id)
	if err != nil {
		return bodies.Cancelling{}, err
	}

	run, err := s.answer(ctx, ref, messageID)
	if err != nil {
		return bodies.Cancelling{}, err
	}

	_, err = s.relay.Cancel(ctx, run.TenantID, run.SessionKey, run.ID)
	return bodies.Cancelling{RunID: run.ID, State: stateCancelling}, err
}

func (s *Service) cancelAnyAnswer(r *http.Request) (bodies.Cancelling, error) {
	owner, err := ownerOf(r)
	if err != nil {
		return bodies.Cancelling{}, err
	}

	return s.CancelAnyAnswer(r.Context(), api.CallerOf(r), r.PathValue("id"), owner, r.PathValue("message"))
}

// CancelAnyAnswer cancels an answer of any user, as CancelRun.
func (s *Service) CancelAnyAnswer(ctx context.Context, caller api.Caller, id, userID, messageID string) (bodies.Cancelling, error) {
	ref, err := anySession(caller, id, userID)
	if err != nil {
		return bodies.Cancelling{}, err
	}

	run, err := s.answer(ctx, ref, messageID)
	if err != nil {
		return bodies.Cancelling{}, err
	}

	cancelling, err := s.CancelRun(ctx, caller, run.ID)
	if errors.Is(err, wire.NotFound) {
		err = wire.Conflict.New("This answer is not in progress.")
	}

	return cancelling, err
}
