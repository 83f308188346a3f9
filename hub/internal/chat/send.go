package chat

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/internal/toolschema"
	"github.com/seed93082962/agenthost/rbac"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

const maxClientID = 128 // characters

// Values of onDisconnect.
const (
	disconnectCancels   = "cancel"
	disconnectContinues = "continue"
)

// continues reports whether the answer outlives the request.
func continues(in wire.ChatMessageRequest) bool {
	return in.Background || in.OnDisconnect == disconnectContinues
}

// checkMessage returns a message as it is stored, or its faults.
func checkMessage(in wire.ChatMessageRequest) (wire.ChatMessageRequest, error) {
	fields := api.Fields{}
	if strings.TrimSpace(in.Message) == "" && len(in.Content) == 0 && len(in.Answers) == 0 {
		fields.Add("message", "must not be empty")
	} else if in.Message != "" && len(in.Answers) > 0 {
		fields.Add("message", "must be absent with answers")
	} else if len(in.Content) > 0 && len(in.Answers) > 0 {
		fields.Add("content", "must be absent with answers")
	} else if in.Message != relay.Clean(in.Message) {
		fields.Add("message", "must be UTF-8 without NUL")
	}

	if in.OnDisconnect != "" && in.OnDisconnect != disconnectCancels && in.OnDisconnect != disconnectContinues {
		fields.Add("onDisconnect", "must be cancel or continue")
	}

	if in.Background && in.OnDisconnect == disconnectCancels {
		fields.Add("onDisconnect", "must be continue with background")
	}

	if string(in.OutputSchema) == "null" {
		in.OutputSchema = nil
	}

	if schema := in.OutputSchema; schema != nil && (!isObject(schema) || len(schema) > toolschema.MaxOutputSchema) { // the runtime checks the rest
		fields.Add("outputSchema", fmt.Sprintf("must be an object of at most %d KiB", toolschema.MaxOutputSchema>>10))
	}

	withoutNulls(in)
	checkParts(fields, "content", in.Content)
	checkInputs(fields, in)
	checkAnswers(fields, in.Answers)
	in.ClientMessageID = fields.Line("clientMessageId", in.ClientMessageID, 0, maxClientID)
	return in, fields.Err()
}

// Send stores a message in a session of the caller and starts the answer, whose caller must call
// Close, unless it continues. If a message with the same ClientMessageID was sent before and its
// run was started, it returns that one instead. It fails with code.AgentNotDeployed, with
// wire.Conflict while another answer is in progress or if the caller has stored too much, with
// wire.RateLimited if too many answers are in progress, and with code.UpstreamFailed if the runtime
// rejects the run, which is stored as a failed answer. With answers, it continues the answer that
// waits for them, and returns neither if others have to answer too.
func (s *Service) Send(ctx context.Context, caller api.Caller, agentName, id string, in wire.ChatMessageRequest) (*relay.Answer, *wire.RepeatedMessage, error) {
	answer, before, err := s.send(ctx, caller, agentName, id, in, Place{})
	if errors.Is(err, errIncomplete) {
		return nil, nil, nil
	}

	if err != nil || before == nil {
		return answer, nil, err
	}

	sent, err := s.sent(ctx, before)
	return nil, sent, err
}

// sent returns a message that was sent before, with its answer, which may have 8 MiB.
func (s *Service) sent(ctx context.Context, e *earlier) (*wire.RepeatedMessage, error) {
	user, assistant, err := readSent(ctx, s.store.Read(), e)
	if err != nil {
		return nil, err
	}

	explain := s.relay.Remedies(ctx, e.session.TenantID, e.session.AgentName)
	return &wire.RepeatedMessage{
		UserMessage: user.view(e.session.ID, explain), AssistantMessage: assistant.view(e.session.ID, explain), Status: assistant.Status,
	}, nil
}

// errSent rolls back the transaction of a message that was sent before.
var errSent = errors.New("the message was sent before")

// send is Send without the text of a message that was sent before, for a message that must have
// that place.
func (s *Service) send(ctx context.Context, caller api.Caller, agentName, id string, in wire.ChatMessageRequest, at Place) (*relay.Answer, *earlier, error) {
	in, err := checkMessage(in)
	if err != nil {
		return nil, nil, err
	}

	ref, err := s.ownedBy(ctx, caller, agentName, id)
	if err != nil {
		return nil, nil, err
	}

	before, err := s.sentBefore(ctx, caller, ref, in)
	if err != nil || s.began(before) {
		return nil, before, err
	}

	endpoint, err := s.cfg.Deployments.Endpoint(ctx, caller.TenantID, agentName)
	if err != nil {
		return nil, nil, err
	}

	m, err := s.newExchange(ctx, ref, in)
	if err != nil {
		return nil, nil, err
	}

	m.caller, m.after = caller, at.AfterRun
	m.setTalk(at)
	store := m.begin
	if m.again(before) {
		store = m.restart
	} else if _, err := m.read(ctx, nil); err != nil {
		return nil, nil, err
	}

	ended := func() {}
	if continues(in) {
		ctx, ended = s.cfg.Admit(context.WithoutCancel(ctx), caller, rbac.Group{})
	}

	former := ""
	if len(in.Answers) > 0 {
		store, m.changing = m.resume, ctx
		if former, err = s.lastRun(ctx, ref); err != nil {
			ended()
			return nil, nil, err
		}
	}

	answer, err := s.relay.Start(ctx, m.run(), relay.Start{
		Endpoint: endpoint, Continues: continues(in), Store: store, FormerRun: former,
		History: func(ctx context.Context) ([]runtimewire.Turn, runtimewire.Turn, error) {
			if n := len(at.Talk); n > 0 {
				var turns []runtimewire.Turn
				for _, turn := range at.Talk[:n-1] {
					turns = append(turns, m.withoutNotice(turn))
				}

				return turns, runtimewire.Turn{}, nil
			}

			history, unanswered, err := historyOf(ctx, s.store.Read(), m.session, m.user.Seq)
			if len(unanswered.Parts)+len(m.user.turn().Parts) >= runvalue.MaxParts { // they become one message
				unanswered = withoutFiles(unanswered)
			}

			return history, unanswered, err
		},
		Attach: m.attach,
	})
	if err == nil && continues(in) {
		answer.Continue(ended)
		return answer, nil, nil
	}

	ended()
	switch {
	case errors.Is(err, errSent):
		return nil, m.sent, nil
	case errors.Is(err, relay.ErrRelayed): // by a concurrent call
		return nil, before, nil
	case errors.Is(err, relay.ErrStartedBefore):
		return nil, &earlier{session: m.session, seq: m.user.Seq}, nil
	}

	return answer, nil, err
}

// lastRun returns the run of the last answer of a session.
func (s *Service) lastRun(ctx context.Context, ref reference) (string, error) {
	found, err := findSession(ctx, s.store.Read(), ref)
	if err != nil {
		return "", err
	}

	return lastRun(ctx, s.store.Read(), found)
}

// sentBefore returns the message of a clientMessageId, or that of the answers, or nil if it was not
// sent.
func (s *Service) sentBefore(ctx context.Context, caller api.Caller, ref reference, in wire.ChatMessageRequest) (*earlier, error) {
	if in.ClientMessageID == "" && len(in.Answers) == 0 {
		return nil, nil // no query delays the run
	}

	found, err := findSession(ctx, s.store.Read(), ref)
	if err != nil {
		return nil, err
	}

	if len(in.Answers) > 0 {
		return findAnswered(ctx, s.store.Read(), found, caller.UserID, in.Answers)
	}

	return findSent(ctx, s.store.Read(), found, in.ClientMessageID)
}

// began reports whether a message was sent before, and a runtime has perhaps accepted its run.
func (s *Service) began(before *earlier) bool {
	return before != nil && (before.started || s.relay.Has(before.runID))
}

// again reports whether the message was sent before. The run has the former id then, so that a
// runtime that has accepted it rejects it.
func (m *exchange) again(before *earlier) bool {
	if before != nil {
		m.assistant.RunID = before.runID
	}

	return before != nil
}

// restart stores the run of a message that was sent before, if its run never started.
func (m *exchange) restart(ctx context.Context, a *relay.Answer) (runtimewire.RunRequest, error) {
	clientID := m.user.ClientID
	err := m.s.store.DB.Tx(ctx, func(tx *sql.Tx) error {
		if err := m.s.store.Own(ctx, tx); err != nil {
			return err
		}

		locked, err := lockSession(ctx, tx, m.ref.TenantID, m.ref.UserID, m.ref.ID)
		if err != nil {
			return err
		}

		found, err := findSent(ctx, tx, locked, clientID)
		if err == nil && (found == nil || found.runID != m.assistant.RunID) {
			err = noSession() // a push has replaced it
		}

		if err != nil {
			return err
		}

		running, err := relay.InProgress(ctx, tx, locked.TenantID, locked.Key)
		if err != nil {
			return err
		}

		if running || found.started {
			m.sent = found
			return errSent
		}

		user, assistant, err := readSent(ctx, tx, found)
		if err != nil {
			return err
		}

		m.session, m.user, m.assistant = locked, user, assistant
		if err := a.Reserve(ctx, tx, m.run()); err != nil {
			return err
		}

		return restartAnswer(ctx, tx, locked, assistant)
	})
	return m.request(), err
}
