package chat

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/seed93082962/agenthost/hub/internal/aigc"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/rbac"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

// exchange is a message of the user and its answer.
type exchange struct {
	s         *Service
	ref       reference
	session   session // as of the transaction that stores the message
	user      message
	assistant message
	input     wire.ChatMessageRequest
	files     []namedFile // of the messages that are stored
	hint      string      // the notice that is only in the first event
	sent      *earlier    // by a concurrent call, with errSent
	answer    *relay.Answer
	after     string // the run that the message must follow, or ""
	maxTurns  *int

	// Of a client that carries its conversation: what it has of the session, and that with the
	// message.
	before, through relay.Conversation

	// Of answers.
	caller    api.Caller
	approvers string          // the role whose group is below, or ""
	group     rbac.Group      // which the caller must have
	changing  context.Context // of the transaction that stores them
	some      bool            // others may be missing
}

func (s *Service) newExchange(ctx context.Context, ref reference, input wire.ChatMessageRequest) (*exchange, error) {
	now := s.store.Now()
	m := &exchange{s: s, ref: ref, input: input}
	m.user = message{ID: ids.New(), ClientID: input.ClientMessageID, Role: roleUser, Status: relay.StatusCompleted, Text: input.Message, CreatedAt: now}
	m.assistant = message{ID: ids.New(), Role: roleAssistant, Status: relay.StatusPartial, RunID: ids.Random().String(), CreatedAt: now}
	var err error
	m.hint, err = s.label(ctx, ref.TenantID, &m.assistant)
	return m, err
}

// label sets the label and the notice of a new answer. It returns a notice that the answer does not
// contain.
func (s *Service) label(ctx context.Context, tenantID string, answer *message) (string, error) {
	if s.cfg.Labels == nil {
		return "", nil
	}

	marker, err := s.cfg.Labels.Label(ctx, tenantID)
	if err != nil || marker == nil {
		return "", err
	}

	answer.AIGC, err = json.Marshal(marker.Label)
	var hint string
	switch marker.Mode {
	case aigc.ModeHint:
		hint = marker.Text
	case aigc.ModeAppend, aigc.ModePrepend:
		answer.Notice, answer.NoticeAt = marker.Text, marker.Mode
	case aigc.ModeOff:
	}

	return hint, err
}

// run returns the run of the answer.
func (m *exchange) run() relay.AnswerRun {
	return relay.AnswerRun{
		ID: m.assistant.RunID, TenantID: m.ref.TenantID, UserID: m.ref.UserID, UserName: m.session.UserName, AgentName: m.ref.AgentName,
		SessionKey: m.session.Key, SessionID: m.ref.ID, RuntimeSession: m.session.RuntimeSession, Ephemeral: m.session.Ephemeral,
		Conversation: m.through, UserMessageID: m.user.ID, MessageID: m.assistant.ID, Seq: m.assistant.Seq,
		Label: m.assistant.AIGC, Hint: m.hint, Notice: m.assistant.Notice, NoticeAt: m.assistant.NoticeAt,
	}
}

// request returns what the run of a message gets.
func (m *exchange) request() runtimewire.RunRequest {
	turn := m.user.turn()
	if m.input.Message == "" && turn.Content != "" { // the parts have the same numbers in errors
		turn.Parts = slices.Insert(turn.Parts, 0, runtimewire.ContentPart{Type: runvalue.PartText, Text: turn.Content})
		turn.Content = ""
	}

	return runtimewire.RunRequest{
		MaxTurns: m.maxTurns, Message: turn.Content, Content: turn.Parts, OutputSchema: m.input.OutputSchema, Inputs: m.input.Inputs, ClientTools: m.input.ClientTools,
	}
}

// read reads the parts of a message, and those of a history before it, whose messages it returns.
func (m *exchange) read(ctx context.Context, history []runtimewire.Turn) ([]message, error) {
	parts := [][]runtimewire.ContentPart{m.input.Content}
	for _, turn := range history {
		parts = append(parts, turn.Parts)
	}

	all := make([]message, 0, len(history)+2)
	r, err := m.s.readUploads(ctx, m.ref, parts...)
	for i := 0; i < len(history) && err == nil; i++ {
		all = append(all, message{ID: ids.New(), Role: history[i].Role, Status: relay.StatusCompleted, CreatedAt: m.user.CreatedAt})
		err = r.fill(&all[i], fmt.Sprintf("history[%d].parts", i), relay.Clean(history[i].Content), history[i].Parts)
	}

	if err == nil {
		err = r.fill(&m.user, "content", m.input.Message, m.input.Content)
	}

	m.files = r.files
	return all, err
}

// title returns the title of a session that begins with the message.
func (m *exchange) title() string {
	return cmp.Or(titleOf(m.user.Text), m.user.titleOfFiles())
}

// insertFiles stores the files of the messages in their session.
func (m *exchange) insertFiles(ctx context.Context, tx *sql.Tx) error {
	if len(m.files) == 0 {
		return nil
	}

	for _, f := range m.files {
		stored, err := insertFile(ctx, tx, m.session, f.file, m.user.CreatedAt)
		if err == nil && !stored { // a sweep, or the deletion of a chat, was first
			err = unknownUpload(f.field)
		}

		if err != nil {
			return err
		}
	}

	return checkFiles(ctx, tx, m.ref.TenantID, m.ref.UserID)
}

// stored releases the bytes of the files.
func (m *exchange) stored() {
	m.files = nil
	for i := range m.input.Content {
		m.input.Content[i].Data = nil
	}
}

// attach reads the bytes of a request's files.
func (m *exchange) attach(ctx context.Context, req *runtimewire.RunRequest, hold func(bytes int) error) error {
	return m.s.attach(ctx, m.session, req, hold)
}
