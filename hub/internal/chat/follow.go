package chat

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/aigc"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

// maxReaders is the number of streams of answers that a user reads at once, in each hub, besides
// those of the messages that it sends.
const maxReaders = 100

// readers counts the streams by their users.
type readers struct {
	mu     sync.Mutex // guards byUser
	byUser map[string]int
}

// enter adds a stream until the caller calls the function.
func (r *readers) enter(caller api.Caller) (func(), error) {
	user := caller.TenantID + "/" + caller.UserID
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byUser[user] >= maxReaders {
		return nil, &api.Refusal{Limit: api.LimitAnswers, Err: &wire.Error{
			Code: wire.RateLimited, RetryAfter: readAgain, Message: "You read too many answers at once: close some of the streams first.",
		}}
	}

	r.byUser[user]++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.byUser[user]--; r.byUser[user] == 0 {
			delete(r.byUser, user)
		}
	}, nil
}

// readAgain is the time until a user with too many streams should try again.
const readAgain = 5 * time.Second

func (s *Service) sendEvents(w http.ResponseWriter, r *http.Request) error {
	ref, err := s.ownedBy(r.Context(), api.CallerOf(r), r.PathValue("name"), r.PathValue("id"))
	if err != nil {
		return err
	}

	return s.sendEventsOf(w, r, ref)
}

func (s *Service) sendAnyEvents(w http.ResponseWriter, r *http.Request) error {
	owner, err := ownerOf(r)
	if err != nil {
		return err
	}

	ref, err := anySession(api.CallerOf(r), r.PathValue("id"), owner)
	if err != nil {
		return err
	}

	return s.sendEventsOf(w, r, ref)
}

// sendEventsOf sends the events of an answer after Last-Event-ID, or all.
func (s *Service) sendEventsOf(w http.ResponseWriter, r *http.Request, ref reference) error {
	run, err := s.answer(r.Context(), ref, r.PathValue("message"))
	if err != nil {
		return err
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
	return s.follow(r.Context(), w, run, r.Header.Get("Last-Event-ID"))
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
// the journal of this hub, or what is stored.
func (s *Service) follow(ctx context.Context, w http.ResponseWriter, run relay.AnswerRun, after string) error {
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
		return relay.SendEvents(stream, &runtimewire.Cancelled{Type: "cancelled", RunID: run.ID, Reason: runtimewire.ReasonClientRequest})
	}

	if err != nil && ctx.Err() == nil {
		s.store.Logger.Debug("sending the events of an answer failed", "run_id", run.ID, "err", err)
	}

	return nil
}

// errDraining ends a stream whose reader continues at another hub.
var errDraining = errors.New("the hub shuts down")

// followStored sends what is stored of an answer, while it becomes more.
func (s *Service) followStored(ctx context.Context, stream *sse.Stream, run relay.AnswerRun, after string) error {
	every := cmp.Or(s.cfg.Relay.SaveEvery, time.Second) / 2
	place := relay.PlaceOf(after)
	last := progress{Size: -1}
	var freeSince time.Time
	for {
		now, err := progressOf(ctx, s.store.Read(), run)
		if errors.Is(err, wire.NotFound) { // the chat was deleted
			return relay.SendEvents(stream,
				&runtimewire.Cancelled{Type: "cancelled", RunID: run.ID, Reason: runtimewire.ReasonClientRequest}, &runtimewire.Done{})
		}

		if err != nil {
			return err
		}

		if !now.Free {
			freeSince = time.Time{}
		} else if freeSince.IsZero() {
			freeSince = time.Now()
		}

		ended := now.Status != relay.StatusPartial || !now.Leased || now.Free && time.Since(freeSince) > 4*every
		if ended || now != last {
			first := last.Size < 0 && after == "" && !ended
			if err := s.sendStored(ctx, stream, run, &place, now.Size, first, ended); err != nil || ended {
				return err
			}
		}

		last = now
		if err := stream.Flush(); err != nil {
			return err
		}

		select {
		case <-time.After(every):
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.relay.Draining():
			return errDraining
		}
	}
}

// sendStored sends the part of a stored answer that a reader does not have, after its begin if that
// is the first one, and its end.
func (s *Service) sendStored(ctx context.Context, stream *sse.Stream, run relay.AnswerRun, place *relay.Place, size int, first, ended bool) error {
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

	found, err := messagesOf(ctx, s.store.Read(), session{TenantID: run.TenantID, Key: run.SessionKey}, run.Seq-1, run.Seq)
	if err != nil {
		return err
	}

	if len(found) == 0 || found[0].ID != run.MessageID {
		return noSession()
	}

	m := found[0]
	if !ended && m.NoticeAt == aigc.ModeAppend {
		m.Notice = ""
	}

	stored := relay.Stored{
		SessionID: run.SessionID, MessageID: m.ID, Model: m.Model, Blocks: relay.Labelled(m.Text, m.Content, m.Notice, m.NoticeAt), Ended: ended,
	}
	if m.Usage != nil {
		stored.Usage = *m.Usage
	}

	if err := stored.Send(stream, place); err != nil || !ended {
		return err
	}

	if m.Status == relay.StatusPartial {
		m.Failure = wire.ChatError{Code: string(code.UpstreamFailed), Message: "The answer was lost: its hub was killed, or does not reach the database."}
	}

	if m.Failure.Code != "" {
		fault := &runtimewire.Fault{Type: "error", Error: m.Failure.Message, ErrorType: m.Failure.Code, RunID: run.ID, Usage: stored.Usage}
		if err := relay.SendEvents(stream, fault); err != nil {
			return err
		}
	}

	saved := &wire.Saved{Type: "hub.saved", MessageID: m.ID, Status: m.Status, Usage: stored.Usage, AIGC: m.AIGC, Budgets: m.Budgets}
	if m.Status == relay.StatusFailed {
		saved.Error = s.relay.Remedies(ctx, run.TenantID, run.AgentName)(m.Failure)
	}

	return relay.SendEvents(stream, saved, &runtimewire.Done{})
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
