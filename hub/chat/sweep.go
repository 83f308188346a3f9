package chat

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/runtime/client"
)

// maxSweepAgents is the number of runtimes that a sweep calls at once.
const maxSweepAgents = 8

// sweep ends runs that no hub relays, and deletes transcripts of deleted chats, until ctx ends.
func (s *Service) sweep(ctx context.Context) {
	every := min(leaseTime, 10*s.cfg.SaveEvery)
	tick := time.NewTicker(every)
	defer tick.Stop()
	expired := map[string]time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.deleted:
		}
		var err error
		if expired, err = s.endExpired(ctx, expired, every); err != nil && ctx.Err() == nil {
			s.cfg.Logger.Warn("ending the answers of other hubs failed", "err", err)
		}
		if err := s.deleteTranscripts(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Logger.Warn("deleting transcripts failed", "err", err)
		}
	}
}

// endExpired ends the runs of hubs that were killed or are suspended, and cancels them in their
// runtimes: the connection of a suspended hub is still open. A hub has the time after to renew a
// lease that has passed, because the database was perhaps unavailable. seen has the times since
// which leases have passed, and so has the result.
func (s *Service) endExpired(ctx context.Context, seen map[string]time.Time, after time.Duration) (map[string]time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	runs, err := expiredRuns(ctx, s.db.Read(), s.now())
	if err != nil {
		return nil, err
	}
	still := map[string]time.Time{}
	slots := make(chan struct{}, maxSweepAgents)
	var cancels sync.WaitGroup
	defer cancels.Wait()
	for _, r := range runs {
		since, ok := seen[r.ID]
		if !ok {
			since = time.Now()
		}
		still[r.ID] = since
		if time.Since(since) < after {
			continue
		}
		ended, err := s.endRun(ctx, r, "")
		if err != nil {
			return still, err
		}
		if !ended {
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return still, ctx.Err()
		}
		cancels.Go(func() {
			defer func() { <-slots }()
			s.cancelRun(ctx, r.TenantID, r.AgentName, r.ID)
		})
	}
	return still, nil
}

func (s *Service) endRun(ctx context.Context, r run, workerID string) (ended bool, err error) {
	err = s.db.Tx(ctx, func(tx *sql.Tx) (err error) {
		ended, err = endRun(ctx, tx, r, workerID, s.now())
		return err
	})
	return ended, err
}

// deleteTranscripts deletes the transcripts that are due in their runtimes. Those of a runtime that
// does not respond, or has one in use, are due again later.
func (s *Service) deleteTranscripts(ctx context.Context) error {
	all, err := claimTranscripts(ctx, s.db.Write(), s.now())
	if err != nil {
		return err
	}
	byAgent := map[[2]string][]session{}
	for _, t := range all {
		agent := [2]string{t.TenantID, t.AgentName}
		byAgent[agent] = append(byAgent[agent], t)
	}
	slots := make(chan struct{}, maxSweepAgents)
	failed := make(chan error, len(byAgent))
	for _, transcripts := range byAgent {
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			failed <- s.deleteTranscriptsOf(ctx, transcripts)
		}()
	}
	for range byAgent {
		err = errors.Join(err, <-failed)
	}
	return err
}

// deleteTranscriptsOf deletes transcripts of one agent. The error is that of the database.
func (s *Service) deleteTranscriptsOf(ctx context.Context, transcripts []session) error {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	for _, t := range transcripts {
		endpoint, err := s.cfg.Endpoint(ctx, t.TenantID, t.AgentName)
		switch {
		case errors.Is(err, api.AgentNotDeployed): // its files are deleted with the deployment
		case err != nil:
			return nil //nolint:nilerr // it is stopped: the transcripts are due again
		default:
			runtime, err := s.client(endpoint, nil)
			if err == nil {
				err = runtime.DeleteSession(ctx, t.RuntimeSession)
			}
			if errors.Is(err, client.ErrSessionBusy) {
				continue
			}
			if err != nil {
				return nil //nolint:nilerr // the runtime does not respond: the transcripts are due again
			}
		}
		if err := deleteTranscript(ctx, s.db.Write(), t); err != nil {
			return err
		}
	}
	return nil
}
