package chat

import (
	"context"
	"net/http"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

// Runs returns the answers in progress of all users, in all hubs, the oldest first.
func (s *Service) Runs(ctx context.Context, caller api.Caller, page api.Page) (api.List[wire.ChatRun], error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return api.List[wire.ChatRun]{}, err
	}

	runs, total, err := relay.RunsOf(ctx, s.store.Read(), caller.TenantID, page)
	list := api.List[wire.ChatRun]{Total: total}
	for _, r := range runs {
		run := wire.ChatRun{
			RunID: r.RunID, State: "running", AgentName: r.AgentName, UserID: r.UserID, UserName: r.UserName, SessionID: r.SessionID,
			StartedAt: wire.Time{Time: r.StartedAt},
		}
		if r.Cancel {
			run.State = stateCancelling
		}

		list.Items = append(list.Items, run)
	}

	return list, err
}

// CancelRun cancels an answer in progress of any user, which may be relayed by another hub. It
// fails with wire.NotFound if there is none with the id of the run.
func (s *Service) CancelRun(ctx context.Context, caller api.Caller, runID string) (bodies.Cancelling, error) {
	var lease relay.Lease
	err := s.store.Change(ctx, store.Change{Caller: caller, Group: rbac.AdminWrite}, func(tx *store.Tx) error {
		run, err := relay.RequestCancel(ctx, tx.Tx, caller.TenantID, runID)
		if err != nil {
			return err
		}

		event := caller.Event()
		event.TargetType, event.TargetID, event.TargetName = targetChat, run.SessionID, run.AgentName
		tx.Record(actionCancelRun.Record(event, cancelRunDetail{Owner: run.UserName, RunID: runID}))
		lease = run.Lease
		return nil
	})
	if err == nil {
		err = s.relay.Requested(ctx, lease)
	}

	return bodies.Cancelling{RunID: runID, State: stateCancelling}, err
}

var actionCancelRun = auditlog.Define[cancelRunDetail]("agent.cancel_run")

type cancelRunDetail struct {
	Owner string `json:"owner"` // the user name of the owner
	RunID string `json:"runId"`
}

// runRoutes are the routes of answers in progress.
func (s *Service) runRoutes() []api.Route {
	return []api.Route{
		{
			Method: http.MethodGet, Path: "/api/v1/admin/runs", Group: rbac.AdminWrite, Category: "agent",
			Handle: api.ListOf(s.Runs),
		},
		{
			Method: http.MethodPost, Path: "/api/v1/admin/runs/:id/cancel", Group: rbac.AdminWrite, Category: "agent",
			Handle: api.CallBy(http.StatusAccepted, "id", s.CancelRun),
		},
	}
}
