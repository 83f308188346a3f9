package chat

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/rbac"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

// groups are the roles that may approve, by the approvers of an agent.
var groups = map[string]rbac.Group{string(rbac.Maintainer): rbac.AdminWrite, string(rbac.Admin): rbac.AdminOnly}

var (
	errNotWaiting = wire.Conflict.New("This does not wait any more: another answer or a message came first.")
	errLost       = wire.Conflict.New("The runtime of the agent no longer has this conversation, and what waited is dropped: send a message to continue.")
	errApprovers  = wire.Conflict.New("The users who approve the calls of this agent have changed: try again.")

	// errIncomplete means that answers are stored, and others are missing.
	errIncomplete = errors.New("answers are missing")
)

// resume stores decisions and their authors, and if none is missing, the run that continues the
// answer. It fails with errIncomplete after it has stored them if one is missing.
func (m *exchange) resume(_ context.Context, a *relay.Answer) (runtimewire.RunRequest, error) {
	var request runtimewire.RunRequest
	var outcome error // of a change that is made
	runID := m.assistant.RunID
	err := m.s.store.Change(m.changing, store.Change{Caller: m.caller, Group: m.group}, func(tx *store.Tx) error {
		request, outcome = runtimewire.RunRequest{}, nil
		if err := m.s.store.Own(m.changing, tx.Tx); err != nil {
			return err
		}

		wait, err := m.lockWait(tx, runID)
		if err != nil {
			return err
		}

		former := m.assistant
		if err := m.apply(tx, &wait); err != nil {
			return err
		}

		switch {
		case len(wait.Pending()) > 0:
			outcome = errIncomplete
			return storeAnswers(m.changing, tx.Tx, m.session, former, wait)
		case m.session.RuntimeSession == "":
			outcome = errLost
			return dropWait(m.changing, tx.Tx, m.session, former)
		}

		run, err := answerOf(m.changing, tx, m.session, former.ID)
		if err != nil {
			return err
		}

		if m.session.Conversation != m.before { // the client has another one
			m.through = ""
		}

		m.user = message{ID: run.UserMessageID, Seq: former.Seq - 1}
		m.assistant.RunID = runID
		if err := a.Reserve(m.changing, tx.Tx, m.run()); err != nil {
			return err
		}

		part := relay.Former{Text: former.Text, Content: former.Content, Answered: former.Content, Model: former.Model}
		if former.Status == relay.StatusCompleted {
			part.Answered = wait.Content(former.Text, former.Content)
		}

		if former.Usage != nil {
			part.Usage = *former.Usage
		}

		request.Inputs, request.ClientTools = wait.Inputs, wait.ClientTools
		if m.input.Inputs != nil {
			request.Inputs, request.ClientTools = m.input.Inputs, m.input.ClientTools
		}

		request.OutputSchema = m.input.OutputSchema // without one, the runtime has that of the message
		for _, call := range wait.Calls {
			request.Answers = append(request.Answers, call.Answered.Answer)
		}

		if part.Pending, err = wait.Without(m.input.Answers).Encode(); err != nil {
			return err
		}

		if part.Unanswered, err = wait.Without(request.Answers).Encode(); err != nil {
			return err
		}

		a.Resume(part)
		return continueAnswer(m.changing, tx.Tx, m.session, former, wait, runID, part.Answered, tx.Now)
	})
	if err == nil {
		err = outcome
	}

	return request, err
}

// lockWait locks the session, and returns what its last answer waits for. That of a run that no
// runtime accepted has its answers. It fails with errSent if the answers were given before.
func (m *exchange) lockWait(tx *store.Tx, runID string) (relay.Wait, error) {
	locked, err := lockSession(m.changing, tx.Tx, m.ref.TenantID, m.ref.UserID, m.ref.ID)
	if err != nil {
		return relay.Wait{}, err
	}

	last, err := messagesOf(m.changing, tx, locked, locked.Messages-1, locked.Messages)
	if err != nil {
		return relay.Wait{}, err
	}

	if m.sent, err = findAnswered(m.changing, tx, locked, m.caller.UserID, m.input.Answers); err != nil {
		return relay.Wait{}, err
	}

	if m.sent != nil {
		running, err := relay.InProgress(m.changing, tx.Tx, locked.TenantID, locked.Key)
		if err != nil {
			return relay.Wait{}, err
		}

		if m.sent.started || running || m.sent.runID != runID {
			return relay.Wait{}, errSent
		}
	}

	if len(last) == 0 || last[0].Pending == "" || (last[0].Status == relay.StatusCompleted) == (m.sent != nil) {
		return relay.Wait{}, errNotWaiting
	}

	m.session, m.assistant = locked, last[0]
	return relay.WaitOf(last[0].Pending)
}

// apply adds the answers of the caller to what waits, and records approvals.
func (m *exchange) apply(tx *store.Tx, wait *relay.Wait) error {
	approvers, err := m.s.relay.Approvers(m.changing, tx.Tx, m.session.TenantID, m.session.AgentName)
	if err != nil {
		return err
	}

	if err := m.s.checkOwner(m.changing, tx, m.session); err != nil {
		return err
	}

	fields := api.Fields{}
	for i, answer := range m.input.Answers {
		n := slices.IndexFunc(wait.Calls, func(c relay.Call) bool { return c.ID == answer.ID })
		if n < 0 {
			return errNotWaiting
		}

		call := &wait.Calls[n]
		if err := m.mayAnswer(call.Kind, approvers); err != nil {
			return err
		}

		if before := call.Answered; before != nil {
			if relay.AnswerDigest(before.UserID, before.Answer) != relay.AnswerDigest(m.caller.UserID, answer) {
				return errNotWaiting
			}

			continue
		}

		at := ""
		if !m.some {
			at = fmt.Sprintf("answers[%d].", i)
		}

		checkAnswer(fields, at, call.Kind, answer)
		call.Answered = &relay.Answered{Answer: answer, UserID: m.caller.UserID, UserName: m.caller.UserName, At: wire.Time{Time: tx.Now}}
		if call.Kind == runvalue.InputApproval {
			m.record(tx, call)
		}
	}

	for _, call := range wait.Calls {
		if call.Answered == nil && !m.some && m.mayAnswer(call.Kind, approvers) == nil {
			fields.Add("answers", "must have one for "+call.ID)
		}
	}

	return fields.Err()
}

// mayAnswer fails unless the caller may answer a call of a kind.
func (m *exchange) mayAnswer(kind, approvers string) error {
	owner := m.caller.UserID == m.session.UserID
	group, byRole := groups[approvers]
	switch {
	case kind != runvalue.InputApproval && !owner, !byRole && !owner:
		return wire.Forbidden.New("Only the owner of the chat may answer this.")
	case kind != runvalue.InputApproval, !byRole:
		return nil
	case owner:
		return wire.Forbidden.New("Calls of this agent are approved by another user, with the role " + approvers + " or a higher one.")
	case m.approvers != approvers: // the change checks the group of the former
		return errApprovers
	}

	return group.Check(m.caller)
}

// record records an approval or a rejection.
func (m *exchange) record(tx *store.Tx, call *relay.Call) {
	event := m.caller.Event()
	event.TargetType, event.TargetID, event.TargetName = targetChat, m.session.ID, m.session.AgentName
	detail := answerDetail{
		Owner: m.session.UserName, ID: call.ID, Tool: excerpt.Head(call.ToolName, maxToolName), Digest: relay.Digest(call.Executed),
		Executed: excerpt.Head(call.Executed, relay.MaxExecuted), Input: excerpt.Head(string(call.Answered.Input), relay.MaxExecuted),
		Reason: call.Answered.Reason,
	}
	if call.Answered.Input != nil {
		detail.InputDigest = relay.Digest(string(call.Answered.Input))
	}

	action := actionRejectCall
	if call.Answered.Decision == runvalue.DecisionApprove {
		action = actionApproveCall
	}

	tx.Record(action.Record(event, detail))
}

// The target of an approval is the chat session, with the name of its agent.
var (
	actionApproveCall = auditlog.Define[answerDetail]("agent.approve_call")
	actionRejectCall  = auditlog.Define[answerDetail]("agent.reject_call")
)

type answerDetail struct {
	Owner    string `json:"owner"` // the user name of the owner of the session
	ID       string `json:"id"`    // of what waited
	Tool     string `json:"tool"`
	Digest   string `json:"digest"`           // the SHA-256 of what is executed, in hexadecimal
	Executed string `json:"executed"`         // its first 4 KiB
	Input    string `json:"input,omitempty"`  // the first 4 KiB of one that replaces the input of the call
	Reason   string `json:"reason,omitempty"` // of a rejection

	InputDigest string `json:"inputDigest,omitempty"` // the SHA-256 of all of the input that replaces that of the call
}
