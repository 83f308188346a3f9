package chat

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/runvalue"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

// begin stores the message and the empty answer, and the run of the session. It fails with
// errSent if a concurrent call has sent a message with the same ClientMessageID.
func (m *exchange) begin(ctx context.Context, a *relay.Answer) (runtimewire.RunRequest, error) {
	m.answer = a
	run := func(do func(tx *sql.Tx) error) error { return m.s.begins.Tx(ctx, m, do) }
	if m.after != "" || m.before != "" || m.user.Content != "" {
		run = func(do func(tx *sql.Tx) error) error { return m.s.store.DB.Tx(ctx, do) }
	}

	err := run(func(tx *sql.Tx) error { return m.insert(ctx, tx, nil) })
	if errors.Is(err, errRejects) {
		err = m.s.store.Change(ctx, store.Change{Caller: m.caller}, func(tx *store.Tx) error { return m.insert(ctx, tx.Tx, tx) })
	}

	if err == nil {
		m.stored()
	}

	return m.request(), err
}

// errRejects rolls back the transaction of a message that rejects calls, which a change records.
var errRejects = errors.New("calls wait")

// insert does what begin does in a transaction, which is that of change if the session waits.
func (m *exchange) insert(ctx context.Context, tx *sql.Tx, change *store.Tx) error {
	if err := m.s.store.Own(ctx, tx); err != nil {
		return err
	}

	size := sizeOf(m.user, m.assistant)
	began, err := advanceSession(ctx, tx, m.ref, m.before, m.title(), size, m.user.CreatedAt)
	if m.before != "" && errors.Is(err, wire.NotFound) {
		err = errContinued
	}

	if err != nil {
		return err
	}

	if m.after != "" {
		if err := isLast(ctx, tx, began, began.Messages-2, m.after); err != nil {
			return err
		}
	}

	if m.user.ClientID != "" {
		if m.sent, err = findSent(ctx, tx, began, m.user.ClientID); err != nil {
			return err
		}

		if m.sent != nil {
			return errSent
		}
	}

	stored, err := m.s.quotas.add(ctx, tx, m.ref.TenantID, m.ref.UserID, quota{bytes: size}, m.user.CreatedAt)
	if err != nil {
		return err
	}

	if err := stored.check(); err != nil {
		return err
	}

	m.session, m.user.Seq, m.assistant.Seq = began, began.Messages-1, began.Messages
	if began.Waiting {
		if err := m.reject(ctx, tx, change); err != nil {
			return err
		}
	}

	if err := m.answer.Reserve(ctx, tx, m.run()); err != nil {
		return err
	}

	if err := m.insertFiles(ctx, tx); err != nil {
		return err
	}

	return insertMessages(ctx, tx, began, m.user, m.assistant)
}

// reject rejects what the session waits for, because its user has sent a message.
func (m *exchange) reject(ctx context.Context, tx *sql.Tx, change *store.Tx) error {
	if change == nil {
		return errRejects
	}

	by := relay.Answered{UserID: m.caller.UserID, UserName: m.caller.UserName, At: wire.Time{Time: m.user.CreatedAt}}
	rejected, err := rejectWaits(ctx, tx, m.session, m.session.Messages-2, by)
	for i := range rejected.Calls {
		if call := &rejected.Calls[i]; call.Kind == runvalue.InputApproval {
			m.record(change, call)
		}
	}

	return err
}

// beginTogether does what begin does, for those of some messages that are new, in sessions without
// an answer that is in progress or waits, and within all limits. See [db.NewGroup].
func (s *Service) beginTogether(ctx context.Context, tx *sql.Tx, all []*exchange) ([]bool, error) {
	var done []bool
	for some := range db.Chunks(all) {
		began, err := s.beginSome(ctx, tx, some)
		if err != nil {
			return nil, err
		}

		for _, m := range some {
			done = append(done, began[m])
		}
	}

	return done, nil
}

func (s *Service) beginSome(ctx context.Context, tx *sql.Tx, some []*exchange) (map[*exchange]bool, error) {
	byRef := map[reference]*exchange{} // one for a session: another message is refused
	var all []begin
	for _, m := range some {
		if byRef[m.ref] == nil {
			byRef[m.ref] = m
			all = append(all, begin{m.ref, m.user.ClientID, titleOf(m.user.Text), sizeOf(m.user, m.assistant)})
		}
	}

	now := s.store.Now()
	sessions, err := s.lockSessions(ctx, tx, all)
	if err != nil {
		return nil, err
	}

	all = slices.DeleteFunc(all, func(b begin) bool { one, ok := sessions[b.reference]; return !ok || one.Waiting })
	if all, err = s.quotas.within(ctx, tx, all, now); err != nil || len(all) == 0 {
		return nil, err
	}

	var runs []relay.AnswerRun
	for _, b := range all {
		m := byRef[b.reference]
		m.session = sessions[b.reference]
		m.session.Messages += 2
		m.user.Seq, m.assistant.Seq = m.session.Messages-1, m.session.Messages
		runs = append(runs, m.run())
	}

	reserved, err := s.relay.ReserveAll(ctx, tx, runs)
	if err != nil || len(reserved) == 0 {
		return nil, err
	}

	all = slices.DeleteFunc(all, func(b begin) bool { return !slices.Contains(reserved, byRef[b.reference].assistant.RunID) })
	if err := advanceSessions(ctx, tx, all, sessions, now); err != nil {
		return nil, err
	}

	began := map[*exchange]bool{}
	var exchanges []*exchange
	for _, b := range all {
		m := byRef[b.reference]
		m.answer.Reserved(m.run())
		began[m] = true
		exchanges = append(exchanges, m)
	}

	return began, insertExchanges(ctx, tx, exchanges)
}
