package chat

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/rbac"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

// Approvals returns what waits for the caller: in its own chats, and what its role approves in
// those of others. The oldest is first.
func (s *Service) Approvals(ctx context.Context, caller api.Caller, page api.Page) (api.List[wire.Approval], error) {
	if caller.UserID == "" || caller.TenantID == "" {
		return api.List[wire.Approval]{}, wire.Unauthenticated
	}

	rows, total, err := waitsFor(ctx, s.store.Read(), caller, page)
	list := api.List[wire.Approval]{Total: total}
	for _, row := range rows {
		list.Items = append(list.Items, row.Approval)
	}

	return list, err
}

// Approval returns what waits with all that a person needs to answer it. The owner of a chat sees
// what a role approves. It fails with wire.NotFound if it waits for others.
func (s *Service) Approval(ctx context.Context, caller api.Caller, id string) (wire.Approval, error) {
	row, err := findWait(ctx, s.store.Read(), caller, id, "")
	if err != nil {
		return wire.Approval{}, err
	}

	found, err := messagesOf(ctx, s.store.Read(), session{TenantID: caller.TenantID, Key: row.key}, row.seq-1, row.seq)
	if err != nil || len(found) == 0 {
		return wire.Approval{}, err
	}

	wait, err := found[0].wait()
	for _, call := range wait.Calls {
		if call.ID == row.ID {
			v := row.Approval
			v.Executed, v.Truncated, v.Input = call.Executed, false, call.Input
			v.Schema, v.URL, v.Server = call.Schema, call.URL, call.Server
			return v, err
		}
	}

	if err == nil {
		err = errNothing // it was answered in the meantime
	}

	return wire.Approval{}, err
}

// AnswerApproval stores the answer of the caller, and continues the answer that waits if no other
// is missing. It fails with wire.NotFound if nothing waits for the caller, with wire.Forbidden if
// the caller may not answer, with wire.Conflict if it does not wait any more, and as
// [Service.Send]. The same answer can be sent again.
func (s *Service) AnswerApproval(ctx context.Context, caller api.Caller, id string, in wire.ApprovalAnswer) (wire.ApprovalResult, error) {
	request, err := checkMessage(wire.ChatMessageRequest{Background: true, Answers: []runtimewire.Answer{{
		ID: id, Decision: in.Decision, Reason: in.Reason, Input: in.Input, Action: in.Action, Content: in.Content,
	}}})
	if err != nil {
		return wire.ApprovalResult{}, err
	}

	row, err := findWait(ctx, s.store.Read(), caller, id, relay.AnswerDigest(caller.UserID, request.Answers[0]))
	if err != nil {
		return wire.ApprovalResult{}, err
	}

	before, err := findAnswered(ctx, s.store.Read(), session{TenantID: caller.TenantID, Key: row.key}, caller.UserID, request.Answers)
	if err != nil || s.began(before) {
		return wire.ApprovalResult{State: stateRunning, RunID: row.runID}, err
	}

	m, err := s.newExchange(ctx, reference{TenantID: caller.TenantID, UserID: row.UserID, AgentName: row.AgentName, ID: row.SessionID}, request)
	if err != nil {
		return wire.ApprovalResult{}, err
	}

	m.caller, m.some, m.changing = caller, true, ctx
	m.again(before)
	var ended func()
	if row.UserID == caller.UserID {
		if err := s.enabledAgent(ctx, caller, row.AgentName); err != nil {
			return wire.ApprovalResult{}, err
		}

		ctx, ended = s.cfg.Admit(context.WithoutCancel(ctx), caller, rbac.Group{})
	} else {
		var done func()
		m.approvers, m.group = row.Approvers, groups[row.Approvers]
		m.changing, done = s.cfg.Admit(ctx, caller, m.group)
		defer done()
		ctx, ended = s.withOwner(ctx, m.ref)
	}

	answer, err := s.continueWith(ctx, m)
	if err == nil {
		answer.Continue(ended)
		return wire.ApprovalResult{State: stateRunning, RunID: answer.Run().ID}, nil
	}

	ended()
	switch {
	case errors.Is(err, errIncomplete):
		return wire.ApprovalResult{State: relay.StatusWaiting}, nil
	case errors.Is(err, errSent):
		return wire.ApprovalResult{State: stateRunning, RunID: m.sent.runID}, nil
	case errors.Is(err, relay.ErrRelayed), errors.Is(err, relay.ErrStartedBefore):
		return wire.ApprovalResult{State: stateRunning, RunID: row.runID}, nil
	}

	return wire.ApprovalResult{}, err
}

const stateRunning = "running"

// continueWith stores answers and starts the run that continues with them.
func (s *Service) continueWith(ctx context.Context, m *exchange) (*relay.Answer, error) {
	endpoint, err := s.cfg.Deployments.Endpoint(ctx, m.ref.TenantID, m.ref.AgentName)
	if err != nil {
		return nil, err
	}

	former, err := s.lastRun(ctx, m.ref)
	if err != nil {
		return nil, err
	}

	return s.relay.Start(ctx, m.run(), relay.Start{Endpoint: endpoint, Continues: true, Store: m.resume, FormerRun: former})
}

// ownerEvery is the time between two checks of the access of an owner.
const ownerEvery = time.Second

// withOwner returns the context of a run that another user continues: it ends with the access of
// the owner of the chat, until the caller calls the function.
func (s *Service) withOwner(ctx context.Context, ref reference) (context.Context, func()) {
	ctx, end := context.WithCancelCause(db.WithCheck(context.WithoutCancel(ctx), nil))
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(ownerEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}

			err := s.checkOwner(ctx, s.store.Read(), session{TenantID: ref.TenantID, UserID: ref.UserID, AgentName: ref.AgentName})
			if errors.Is(err, wire.Conflict) {
				end(fmt.Errorf("%w: %w", api.ErrAccessEnded, err))
			}
		}
	}()
	return ctx, func() {
		end(nil)
		<-done
	}
}

// checkOwner fails with wire.Conflict if the owner of a session may not use its agent any more.
func (s *Service) checkOwner(ctx context.Context, q db.Querier, in session) error {
	owner, err := s.cfg.Owner(ctx, q, in.TenantID, in.UserID)
	if err == nil {
		err = s.enabledAgent(ctx, owner, in.AgentName)
	}

	_, coded := errors.AsType[wire.Code](err)
	if _, ok := errors.AsType[*wire.Error](err); ok || coded {
		err = wire.Conflict.New("The owner of the chat may not use the agent any more.")
	}

	return err
}

func (s *Service) answerApproval(r *http.Request, in wire.ApprovalAnswer) (wire.ApprovalResult, error) {
	return s.AnswerApproval(r.Context(), api.CallerOf(r), r.PathValue("id"), in)
}

// approvalRoutes are the routes of what waits.
func (s *Service) approvalRoutes() []api.Route {
	approvals := func(method, path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		return api.Route{Method: method, Path: "/api/v1/approvals" + path, Access: api.SignedIn, Category: "agent", Handle: handle}
	}
	show := approvals(http.MethodGet, "/:id", api.Result(http.StatusOK, func(r *http.Request) (wire.Approval, error) {
		return s.Approval(r.Context(), api.CallerOf(r), r.PathValue("id"))
	}))
	show.Large = true
	return []api.Route{
		approvals(http.MethodGet, "", api.ListOf(s.Approvals)), show,
		rated(approvals(http.MethodPost, "/:id", api.ResultOf(http.StatusAccepted, s.answerApproval))),
	}
}
