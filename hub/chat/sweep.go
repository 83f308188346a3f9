package chat

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
)

// maxSweepAgents is the number of runtimes that a sweep calls at once.
const maxSweepAgents = 8

// sweep ends runs that no hub relays, and deletes transcripts of deleted chats, until ctx ends.
func (s *Service) sweep(ctx context.Context) {
	tick := time.NewTicker(min(leaseTime, 10*s.cfg.SaveEvery))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.deleted:
		}
		for _, task := range []func(context.Context) error{s.endExpired, s.deleteTranscripts} {
			if err := task(ctx); err != nil && ctx.Err() == nil {
				s.cfg.Logger.Warn("sweeping chats failed", "err", err)
			}
		}
	}
}

// endExpired ends the runs of hubs that were killed.
func (s *Service) endExpired(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	runs, err := expiredRuns(ctx, s.db.Read(), s.now())
	if err != nil {
		return err
	}
	for _, r := range runs {
		if err := s.endRun(ctx, r, ""); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) endRun(ctx context.Context, r run, workerID string) error {
	return s.db.Tx(ctx, func(tx *sql.Tx) error { return endRun(ctx, tx, r, workerID, s.now()) })
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
			if sessionInUse(err) {
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
