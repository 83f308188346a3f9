package chat

import (
	"context"
	"database/sql"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
)

// cancelWithin bounds the call of a runtime.
const cancelWithin = 5 * time.Second

// Cancelling is a run that is being cancelled. Its answer ends with a cancelled event.
type Cancelling struct {
	RunID string `json:"runId"`
	State string `json:"state"` // cancelling
}

// Cancel cancels the answer in progress in a session of the caller, which may be relayed by another
// hub. One that no hub relays ends immediately, or when the lease of its hub has passed. It fails
// with api.Conflict if there is none.
func (s *Service) Cancel(ctx context.Context, caller api.Caller, agentName, id string) (Cancelling, error) {
	ref, err := s.ownedBy(ctx, caller, agentName, id)
	if err != nil {
		return Cancelling{}, err
	}
	in, err := findSession(ctx, s.db.Read(), ref)
	if err != nil {
		return Cancelling{}, err
	}
	var found run
	err = s.db.Tx(ctx, func(tx *sql.Tx) (err error) {
		found, err = requestCancel(ctx, tx, in, s.now())
		return err
	})
	if err != nil {
		return Cancelling{}, err
	}
	if (found.Expired || found.WorkerID == s.writer.id) && !s.writer.has(found) {
		if _, err := s.endRun(ctx, found, s.writer.id); err != nil {
			return Cancelling{}, err
		}
	}
	s.cancelRun(ctx, in.TenantID, in.AgentName, found.ID)
	return Cancelling{found.ID, "cancelling"}, nil
}

// cancelRun cancels a run in its runtime. If that fails, because the run is not there yet or the
// runtime does not respond, the hub that relays the answer closes the connection: this one
// immediately, another when it renews the lease.
func (s *Service) cancelRun(ctx context.Context, tenantID, agentName, runID string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelWithin)
	defer cancel()
	endpoint, err := s.cfg.Endpoint(ctx, tenantID, agentName)
	if err == nil {
		runtime, e := s.client(endpoint, nil)
		if err = e; err == nil {
			_, err = runtime.Cancel(ctx, runID)
		}
	}
	if err != nil {
		s.writer.cancel(runID, errCancelled)
	}
}
