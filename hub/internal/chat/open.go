package chat

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/hub/internal/aigc"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/client"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

// Opening is the beginning of a session of the source api.
type Opening struct {
	// History is the conversation before the first message, as of a run request.
	History []runtimewire.Turn

	// MaxTurns lowers the limit of the agent. Defaults to that limit.
	MaxTurns *int

	// Carried means that the client carries the conversation. A session of the caller that has History
	// continues, and no other one begins.
	Carried bool

	// EndUser is the user of a client that carries the conversation, as in [Place].
	EndUser string

	// Ephemeral means that the session is deleted in the transaction that stores the end of its
	// answer, unless that waits, and is not listed.
	Ephemeral bool
}

func (o Opening) check() error {
	size := 0
	fields := api.Fields{}
	for i, turn := range o.History {
		size += quoted(turn.Content)
		for _, p := range turn.Parts {
			size += quoted(p.Text)
		}

		checkParts(fields, fmt.Sprintf("history[%d].parts", i), turn.Parts)
	}

	if len(o.History) > runvalue.MaxHistory || size > relay.MaxHistory {
		return &wire.Error{Code: code.PayloadTooLarge, Message: fmt.Sprintf("The conversation is too long: it may have %d messages and %d KiB.",
			runvalue.MaxHistory, relay.MaxHistory>>10)}
	}

	return fields.Err()
}

// Place is the place of a message in a session. The zero value is the end.
type Place struct {
	// AfterRun is the run whose answer the message must follow, or "".
	AfterRun string

	// Talk is the conversation of a client that carries it. Its last turn is the message, which must
	// follow the other turns, or has the results of calls that wait.
	Talk []runtimewire.Turn

	// EndUser identifies the user of that client, or is "": the token of one client may serve many
	// people, and a chat has what it does not show, such as the results of tools.
	EndUser string
}

// talkOf returns the conversation of a user of a client, before its first turn.
func talkOf(endUser string) relay.Conversation {
	if endUser == "" {
		return ""
	}

	return relay.Conversation("").Add(runtimewire.Turn{Content: endUser}) // turns have a role
}

// setTalk sets what the client has of the session.
func (m *exchange) setTalk(at Place) {
	talk := at.Talk
	n := len(talk) - 1
	if n < 0 {
		return
	}

	if len(m.input.Answers) > 0 {
		n-- // the turn with the calls is not a complete answer
	}

	m.before = talkOf(at.EndUser).Add(talk[:max(n, 0)]...)
	m.through = m.before.Add(talk[max(n, 0):]...)
}

// withoutNotice returns a turn of a client as the model wrote it: the client has an answer with its
// notice, which a model would write again.
func (m *exchange) withoutNotice(turn runtimewire.Turn) runtimewire.Turn {
	notice := strings.TrimSpace(m.assistant.Notice)
	if turn.Role != roleAssistant || notice == "" {
		return turn
	}

	text := strings.TrimSpace(turn.Content)
	if m.assistant.NoticeAt == aigc.ModePrepend {
		text = strings.TrimPrefix(text, notice+"\n\n")
	} else {
		text = strings.TrimSuffix(text, "\n\n"+notice)
	}

	turn.Content = text
	return turn
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

	at := Place{EndUser: o.EndUser}
	if o.Carried && !o.Ephemeral {
		at.Talk = append(slices.Clone(o.History), runtimewire.Turn{Role: roleUser, Content: in.Message, Parts: in.Content})
		answer, err := s.continueTalk(ctx, caller, ref, in, at)
		if answer != nil || err != nil {
			return answer, err
		}
	}

	endpoint, err := s.cfg.Deployments.Endpoint(ctx, caller.TenantID, agentName)
	if err != nil {
		return nil, err
	}

	m, err := s.newExchange(ctx, ref, in)
	if err != nil {
		return nil, err
	}

	all, err := m.read(ctx, o.History)
	if err != nil {
		return nil, err
	}

	now := m.user.CreatedAt
	m.caller, m.maxTurns = caller, o.MaxTurns
	m.setTalk(at)
	m.session = session{
		Key: ref.ID, TenantID: ref.TenantID, UserID: ref.UserID, ID: ref.ID, UserName: caller.UserName, AgentName: agentName,
		Source: SourceAPI, Ephemeral: o.Ephemeral, Title: m.title(), LastMessageAt: now, CreatedAt: now, UpdatedAt: now,
	}
	store := func(ctx context.Context, a *relay.Answer) (runtimewire.RunRequest, error) {
		err := m.open(ctx, a, all)
		if err == nil {
			m.stored()
		}

		return m.request(), err
	}
	all = m.number(all)
	var turns []runtimewire.Turn
	for i := range all[:len(all)-2] {
		turn := all[i].turn()
		turn.Role = all[i].Role
		turns = append(turns, m.withoutNotice(turn))
		o.History[i].Parts = nil // with their bytes
	}

	history := func(context.Context) ([]runtimewire.Turn, runtimewire.Turn, error) {
		return turns, runtimewire.Turn{}, nil
	}
	return s.relay.Start(ctx, m.run(), relay.Start{Endpoint: endpoint, Store: store, History: history, Attach: m.attach})
}

// continueTalk sends the last turn of a conversation in the session that has the turns before it.
// It returns no answer if there is none.
func (s *Service) continueTalk(ctx context.Context, caller api.Caller, ref reference, in wire.ChatMessageRequest, at Place) (*relay.Answer, error) {
	n := len(at.Talk) - 1
	if n == 0 {
		return nil, nil
	}

	before := talkOf(at.EndUser).Add(at.Talk[:n]...)
	id, err := sessionOf(ctx, s.store.Read(), ref, before)
	if err != nil || id == "" {
		return nil, err
	}

	in.Content = slices.Clone(in.Content) // a branch sends the bytes again
	answer, err := s.Continue(ctx, caller, ref.AgentName, id, in, at)
	if errors.Is(err, errContinued) || errors.Is(err, client.ErrSessionBusy) { // a branch was first, but no cancel
		return nil, nil
	}

	return answer, err
}

// Continue is [Service.Send] for a message that must have its place. It fails with wire.Conflict if
// another message has it.
func (s *Service) Continue(ctx context.Context, caller api.Caller, agentName, id string, in wire.ChatMessageRequest, at Place) (*relay.Answer, error) {
	answer, _, err := s.send(ctx, caller, agentName, id, in, at)
	if errors.Is(err, errIncomplete) {
		return nil, nil
	}

	return answer, err
}

// number adds the message and its empty answer to the messages before them in a new session, and
// numbers all.
func (m *exchange) number(all []message) []message {
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

		if err == nil {
			err = m.insertFiles(ctx, tx)
		}

		for len(all) > 0 && err == nil {
			n := min(insertWidth, len(all))
			err = insertMessages(ctx, tx, m.session, all[:n]...)
			all = all[n:]
		}

		return err
	})
}
