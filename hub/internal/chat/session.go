package chat

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

// Sources of a session.
const (
	SourceHub  = "hub"
	SourcePush = "push"
	SourceAPI  = "api" // of a program that speaks another protocol
)

const (
	maxTitle     = 200 // characters
	derivedTitle = 80  // characters of a title that comes from the first message
)

// session is a row of chat_sessions.
type session struct {
	Key, TenantID, UserID, ID, UserName, AgentName, Title, Source string

	Messages       int64
	Size           int64 // of the messages, see sizeOf
	RuntimeSession string
	Waiting        bool // perhaps: the last message decides
	Ephemeral      bool // deleted with the end of its answer, unless that waits
	Conversation   relay.Conversation
	LastMessageAt  time.Time
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

func (s session) view() wire.ChatSession {
	return wire.ChatSession{
		ID: s.ID, AgentName: s.AgentName, UserID: s.UserID, UserName: s.UserName, Title: s.Title, Source: s.Source, MessageCount: s.Messages, Waiting: s.Waiting,
		LastMessageAt: wire.Time{Time: s.LastMessageAt}, CreatedAt: wire.Time{Time: s.CreatedAt}, UpdatedAt: wire.Time{Time: s.UpdatedAt},
	}
}

// titleOf returns a title from the first line of a message.
func titleOf(message string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	line = api.Plain(strings.Join(strings.Fields(line), " "))
	if short := excerpt.Characters(line, derivedTitle); short != line {
		return short + "..."
	}

	return line
}

// owned returns the reference to a session of the caller with that agent.
func owned(caller api.Caller, agentName, id string) (reference, error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return reference{}, err
	}

	if caller.UserID == "" || caller.TenantID == "" {
		return reference{}, wire.Unauthenticated
	}

	return reference{TenantID: caller.TenantID, UserID: caller.UserID, AgentName: agentName, ID: id}, nil
}

// ownedBy is owned, and fails with wire.NotFound unless the agent is enabled.
func (s *Service) ownedBy(ctx context.Context, caller api.Caller, agentName, id string) (reference, error) {
	ref, err := owned(caller, agentName, id)
	if err != nil {
		return ref, err
	}

	return ref, s.enabledAgent(ctx, caller, agentName)
}

// Sessions returns the caller's own sessions with an agent, the latest change first.
func (s *Service) Sessions(ctx context.Context, caller api.Caller, agentName string, page api.Page) (api.List[wire.ChatSession], error) {
	ref, err := s.ownedBy(ctx, caller, agentName, "")
	if err != nil {
		return api.List[wire.ChatSession]{}, err
	}

	return s.list(ctx, filter{TenantID: ref.TenantID, UserID: ref.UserID, AgentName: agentName}, page)
}

func (s *Service) list(ctx context.Context, f filter, page api.Page) (api.List[wire.ChatSession], error) {
	sessions, total, err := sessionsOf(ctx, s.store.Read(), f, page)
	if err != nil {
		return api.List[wire.ChatSession]{}, err
	}

	list := api.List[wire.ChatSession]{Total: total}
	var keys []string
	for _, session := range sessions {
		keys = append(keys, session.Key)
	}

	answering, err := relay.SessionsInProgress(ctx, s.store.Read(), f.TenantID, keys)
	for _, session := range sessions {
		v := session.view()
		v.Answering = answering[session.Key]
		list.Items = append(list.Items, v)
	}

	return list, err
}

// CreateSession creates a session of the caller with an agent, which need not be deployed. It fails
// with wire.Conflict if the caller has too many.
func (s *Service) CreateSession(ctx context.Context, caller api.Caller, agentName string, in bodies.ChatSessionRequest) (wire.ChatSession, error) {
	ref, err := s.ownedBy(ctx, caller, agentName, ids.New())
	if err != nil {
		return wire.ChatSession{}, err
	}

	fields := api.Fields{}
	title := fields.Line("title", in.Title, 0, maxTitle)
	if err := fields.Err(); err != nil {
		return wire.ChatSession{}, err
	}

	now := s.store.Now()
	created := session{
		Key: ref.ID, TenantID: ref.TenantID, UserID: ref.UserID, ID: ref.ID, UserName: caller.UserName, AgentName: agentName,
		Title: title, Source: SourceHub, CreatedAt: now, UpdatedAt: now,
	}
	err = s.store.DB.Tx(ctx, func(tx *sql.Tx) error {
		if _, err := insertSession(ctx, tx, created); err != nil {
			return err
		}

		sum, err := s.quotas.add(ctx, tx, created.TenantID, created.UserID, quota{sessions: 1}, now)
		if err != nil {
			return err
		}

		return sum.check()
	})
	return created.view(), err
}

// DeleteSession deletes a session of the caller with its messages. An answer in progress is
// cancelled.
func (s *Service) DeleteSession(ctx context.Context, caller api.Caller, agentName, id string) error {
	ref, err := s.ownedBy(ctx, caller, agentName, id)
	if err != nil {
		return err
	}

	return s.delete(ctx, caller, ref)
}

func (s *Service) delete(ctx context.Context, caller api.Caller, ref reference) error {
	return s.store.Change(ctx, store.Change{Caller: caller}, func(tx *store.Tx) error {
		found, err := findSession(ctx, tx.Tx, ref)
		if err != nil {
			return err
		}

		files, err := countFiles(ctx, tx.Tx, found)
		if err != nil {
			return err
		}

		// An answer may have begun or ended in the meantime.
		deleted, runID, err := deleteSession(ctx, tx.Tx, found)
		if err != nil {
			return err
		}

		if err := relay.InsertTranscript(ctx, tx.Tx, deleted.transcript(), tx.Now); err != nil {
			return err
		}

		event := caller.Event()
		event.TargetType, event.TargetID, event.TargetName = targetChat, deleted.ID, deleted.AgentName
		tx.Record(actionDeleteChat.Record(event, deleteChatDetail{Owner: deleted.UserName, Source: deleted.Source, Messages: deleted.Messages, Files: files}))
		tx.AfterCommit(func() {
			if runID != "" {
				s.relay.CancelRun(ctx, deleted.TenantID, deleted.AgentName, runID)
			}

			if deleted.RuntimeSession != "" {
				s.relay.DeleteTranscripts()
			}
		})
		return nil
	})
}

// transcript returns the session of the runtime.
func (s session) transcript() relay.Transcript {
	return relay.Transcript{TenantID: s.TenantID, AgentName: s.AgentName, RuntimeSession: s.RuntimeSession}
}

const stateCancelling = "cancelling"

// Cancel cancels the answer in progress in a session of the caller, which may be relayed by another
// hub. It fails with wire.Conflict if there is none.
func (s *Service) Cancel(ctx context.Context, caller api.Caller, agentName, id string) (bodies.Cancelling, error) {
	ref, err := s.ownedBy(ctx, caller, agentName, id)
	if err != nil {
		return bodies.Cancelling{}, err
	}

	in, err := findSession(ctx, s.store.Read(), ref)
	if err != nil {
		return bodies.Cancelling{}, err
	}

	runID, err := s.relay.Cancel(ctx, in.TenantID, in.Key, "")
	return bodies.Cancelling{RunID: runID, State: stateCancelling}, err
}

// Filter selects sessions. Empty fields select all.
type Filter struct {
	Agent, Source string

	User     string    // part of the name or the id of the user, in any letter case
	From, To time.Time // of the creation, inclusive
}

// visible returns the owner whose sessions the caller may see: a member only its own, others those
// of all users, which is "".
func visible(caller api.Caller) (string, error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return "", err
	}

	if caller.UserID == "" || caller.TenantID == "" {
		return "", wire.Unauthenticated
	}

	if rbac.AdminWrite.Check(caller) == nil {
		return "", nil
	}

	return caller.UserID, nil
}

// AllSessions returns the sessions that the caller may see, with every agent, the latest change
// first.
func (s *Service) AllSessions(ctx context.Context, caller api.Caller, f Filter, page api.Page) (api.List[wire.ChatSession], error) {
	owner, err := visible(caller)
	if err != nil {
		return api.List[wire.ChatSession]{}, err
	}

	return s.list(ctx, filter{
		TenantID: caller.TenantID, UserID: owner, AgentName: f.Agent, Source: f.Source, User: f.User, From: f.From, To: f.To,
	}, page)
}

// anySession returns the reference to a session that the caller may see. Without userID, the owner
// may be any user.
func anySession(caller api.Caller, id, userID string) (reference, error) {
	owner, err := visible(caller)
	if err != nil {
		return reference{}, err
	}

	if owner != "" && userID != "" && owner != userID {
		return reference{}, noSession()
	}

	if owner != "" {
		userID = owner
	}

	return reference{TenantID: caller.TenantID, UserID: userID, ID: id}, nil
}

// AnySession returns a session that the caller may see. userID is the id of its owner, and may be
// empty unless several users have a session with the id.
func (s *Service) AnySession(ctx context.Context, caller api.Caller, id, userID string) (wire.ChatSession, error) {
	ref, err := anySession(caller, id, userID)
	if err != nil {
		return wire.ChatSession{}, err
	}

	found, err := findSession(ctx, s.store.Read(), ref)
	if err != nil {
		return wire.ChatSession{}, err
	}

	answering, err := relay.SessionsInProgress(ctx, s.store.Read(), found.TenantID, []string{found.Key})
	v := found.view()
	v.Answering = answering[found.Key]
	return v, err
}

// AnyMessages returns the messages of a session that the caller may see, the oldest first.
func (s *Service) AnyMessages(ctx context.Context, caller api.Caller, id, userID string, page api.Page) (MessageList, error) {
	ref, err := anySession(caller, id, userID)
	if err != nil {
		return MessageList{}, err
	}

	return s.messages(ctx, ref, page)
}

// DeleteAnySession deletes a session that the caller may see.
func (s *Service) DeleteAnySession(ctx context.Context, caller api.Caller, id, userID string) error {
	ref, err := anySession(caller, id, userID)
	if err != nil {
		return err
	}

	return s.delete(ctx, caller, ref)
}

// actionDeleteChat is the only recorded action. The title is not recorded, because it comes from a
// message: the target has the name of the agent.
var actionDeleteChat = auditlog.Define[deleteChatDetail]("agent.delete_chat")

const targetChat = "chat_session"

type deleteChatDetail struct {
	Owner    string `json:"owner"` // the user name of the owner, who may not be the caller
	Source   string `json:"source"`
	Messages int64  `json:"messages"`
	Files    int64  `json:"files,omitempty"` // images and files of messages
}
