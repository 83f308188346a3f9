package chat

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/internal/runvalue"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

// Opening is the beginning of a session of the source api.
type Opening struct {
	// History is the conversation before the first message, as of a run request.
	History []runtimewire.Turn

	// MaxTurns lowers the limit of the agent. Defaults to that limit.
	MaxTurns *int

	// Ephemeral means that the session is deleted in the transaction that stores the end of its
	// answer, unless that waits, and is not listed.
	Ephemeral bool
}

func (o Opening) check() error {
	size := 0
	for _, turn := range o.History {
		size += quoted(turn.Content)
	}

	if len(o.History) > runvalue.MaxHistory || size > relay.MaxHistory {
		return &wire.Error{Code: code.PayloadTooLarge, Message: fmt.Sprintf("The conversation is too long: it may have %d messages and %d KiB.",
			runvalue.MaxHistory, relay.MaxHistory>>10)}
	}

	return nil
}

// Open is [Service.Send] for the first message of a new session of the caller. If the message is
// not stored, there is no session.
func (s *Service) Open(ctx context.Context, caller api.Caller, agentName string, in wire.ChatMessageRequest, o Opening) (*relay.Answer, error) {
	in, err := checkMessage(in)
	if err == nil {
		err = o.check()
	}

	if err != nil {
		return nil, err
	}

	ref, err := s.ownedBy(ctx, caller, agentName, ids.New())
	if err != nil {
		return nil, err
	}

	endpoint, err := s.cfg.Deployments.Endpoint(ctx, caller.TenantID, agentName)
	if err != nil {
		return nil, err
	}

	m, err := s.newExchange(ctx, ref, in)
	if err != nil {
		return nil, err
	}

	now := m.user.CreatedAt
	m.caller, m.maxTurns = caller, o.MaxTurns
	m.session = session{
		Key: ref.ID, TenantID: ref.TenantID, UserID: ref.UserID, ID: ref.ID, UserName: caller.UserName, AgentName: agentName,
		Source: SourceAPI, Ephemeral: o.Ephemeral, Title: titleOf(in.Message), LastMessageAt: now, CreatedAt: now, UpdatedAt: now,
	}
	store := func(ctx context.Context, a *relay.Answer) (runtimewire.RunRequest, error) {
		return m.request(), m.open(ctx, a, o.messages(m))
	}
	history := func(context.Context) ([]runtimewire.Turn, string, error) { return o.History, "", nil }
	return s.relay.Start(ctx, m.run(), relay.Start{Endpoint: endpoint, Store: store, History: history})
}

// Continue is [Service.Send] for a message that must follow the answer of a run, unless that is "".
// It fails with wire.Conflict if another message follows.
func (s *Service) Continue(ctx context.Context, caller api.Caller, agentName, id string, in wire.ChatMessageRequest, after string) (*relay.Answer, error) {
	answer, _, err := s.send(ctx, caller, agentName, id, in, after)
	if errors.Is(err, errIncomplete) {
		return nil, nil
	}

	return answer, err
}

// messages returns those of the new session, with the message and its empty answer.
func (o Opening) messages(m *exchange) []message {
	all := make([]message, 0, len(o.History)+2)
	for _, turn := range o.History {
		all = append(all, message{ID: ids.New(), Role: turn.Role, Status: relay.StatusCompleted, Text: relay.Clean(turn.Content), CreatedAt: m.user.CreatedAt})
	}

	all = append(all, m.user, m.assistant)
	for i := range all {
		all[i].Seq = int64(i + 1)
	}

	m.user.Seq, m.assistant.Seq = int64(len(all)-1), int64(len(all))
	m.session.Messages, m.session.Size = int64(len(all)), sizeOf(all...)
	return all
}

// open stores the session with its messages, and its run.
func (m *exchange) open(ctx context.Context, a *relay.Answer, all []message) error {
	return m.s.store.DB.Tx(ctx, func(tx *sql.Tx) error {
		if err := m.s.store.Own(ctx, tx); err != nil {
			return err
		}

		if _, err := insertSession(ctx, tx, m.session); err != nil {
			return err
		}

		stored, err := m.s.quotas.add(ctx, tx, m.ref.TenantID, m.ref.UserID, quota{sessions: 1, bytes: m.session.Size}, m.user.CreatedAt)
		if err == nil {
			err = stored.check()
		}

		if err == nil {
			err = a.Reserve(ctx, tx, m.run())
		}

		for len(all) > 0 && err == nil {
			n := min(insertWidth, len(all))
			err = insertMessages(ctx, tx, m.session, all[:n]...)
			all = all[n:]
		}

		return err
	})
}
