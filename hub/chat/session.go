package chat

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

// Sources of a session.
const (
	sourceHub  = "hub"
	sourcePush = "push"
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
	LastMessageAt  time.Time
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// Session is a chat of one user with one agent.
type Session struct {
	ID            string   `json:"id"`
	AgentName     string   `json:"agentName"`
	UserID        string   `json:"userId"`
	UserName      string   `json:"userName"`
	Title         string   `json:"title"` // of the first message unless it was given
	Source        string   `json:"source"`
	MessageCount  int64    `json:"messageCount"`
	LastMessageAt api.Time `json:"lastMessageAt"` // null without messages
	CreatedAt     api.Time `json:"createdAt"`
	UpdatedAt     api.Time `json:"updatedAt"`
}

func (s session) view() Session {
	return Session{
		ID: s.ID, AgentName: s.AgentName, UserID: s.UserID, UserName: s.UserName, Title: s.Title, Source: s.Source, MessageCount: s.Messages,
		LastMessageAt: api.Time(s.LastMessageAt), CreatedAt: api.Time(s.CreatedAt), UpdatedAt: api.Time(s.UpdatedAt),
	}
}

// titleOf returns a title from the first line of a message.
func titleOf(message string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	line = strings.Join(strings.Fields(api.Plain(line)), " ")
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
		return reference{}, api.Unauthenticated
	}
	return reference{TenantID: caller.TenantID, UserID: caller.UserID, AgentName: agentName, ID: id}, nil
}

// ownedBy is owned, and fails with api.NotFound unless the agent is enabled.
func (s *Service) ownedBy(ctx context.Context, caller api.Caller, agentName, id string) (reference, error) {
	ref, err := owned(caller, agentName, id)
	if err != nil {
		return ref, err
	}
	return ref, s.enabledAgent(ctx, caller.TenantID, agentName)
}

// Sessions returns the caller's own sessions with an agent, the latest change first.
func (s *Service) Sessions(ctx context.Context, caller api.Caller, agentName string, page api.Page) (api.List[Session], error) {
	ref, err := s.ownedBy(ctx, caller, agentName, "")
	if err != nil {
		return api.List[Session]{}, err
	}
	return s.list(ctx, filter{TenantID: ref.TenantID, UserID: ref.UserID, AgentName: agentName}, page)
}

func (s *Service) list(ctx context.Context, f filter, page api.Page) (api.List[Session], error) {
	sessions, total, err := sessionsOf(ctx, s.db.Read(), f, page)
	list := api.List[Session]{Total: total}
	for _, session := range sessions {
		list.Items = append(list.Items, session.view())
	}
	return list, err
}

// SessionInput has the title of a new session, which defaults to the start of the first message.
type SessionInput struct {
	Title string `json:"title"`
}

// CreateSession creates a session of the caller with an agent, which need not be deployed. It fails
// with api.Conflict if the caller has too many.
func (s *Service) CreateSession(ctx context.Context, caller api.Caller, agentName string, in SessionInput) (Session, error) {
	ref, err := s.ownedBy(ctx, caller, agentName, ids.New())
	if err != nil {
		return Session{}, err
	}
	fields := api.Fields{}
	title := fields.Line("title", in.Title, 0, maxTitle)
	if err := fields.Err(); err != nil {
		return Session{}, err
	}
	now := s.now()
	created := session{
		Key: ref.ID, TenantID: ref.TenantID, UserID: ref.UserID, ID: ref.ID, UserName: caller.UserName, AgentName: agentName,
		Title: title, Source: sourceHub, CreatedAt: now, UpdatedAt: now,
	}
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		if _, err := insertSession(ctx, tx, created); err != nil {
			return err
		}
		sum, err := quotaOf(ctx, tx, created.TenantID, created.UserID)
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
	var deleted session
	var runID string
	err := s.db.Tx(ctx, func(tx *sql.Tx) (err error) {
		if deleted, err = findSession(ctx, tx, ref); err != nil {
			return err
		}
		if runID, err = deleteSession(ctx, tx, deleted); err != nil {
			return err
		}
		if err := insertTranscript(ctx, tx, deleted, s.now()); err != nil {
			return err
		}
		event := caller.Event()
		event.TargetType, event.TargetID, event.TargetName = targetChat, deleted.ID, deleted.AgentName
		return s.cfg.Audit.AppendTx(ctx, tx, actionDeleteChat.Record(event, deleteChatDetail{deleted.UserName, deleted.Source, deleted.Messages}))
	})
	if err != nil {
		return err
	}
	if runID != "" {
		s.cancelRun(ctx, deleted.TenantID, deleted.AgentName, runID)
	}
	if deleted.RuntimeSession != "" {
		select {
		case s.deleted <- struct{}{}:
		default: // the sweep will see this one too
		}
	}
	return nil
}
