package relay

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/runtime/client"
)

// maxSweepAgents is the number of runtimes that a sweep calls at once.
const maxSweepAgents = 8

// sweep ends runs that no hub relays, and deletes transcripts of deleted chats, until ctx ends.
func (r *Relay) sweep(ctx context.Context) {
	every := 10 * r.cfg.SaveEvery
	tick := time.Tick(every)
	free := map[string]time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		case <-r.deleted:
		}

		var err error
		if free, err = r.endFree(ctx, free, every); err != nil && ctx.Err() == nil {
			r.store.Logger.Warn("ending the answers of other hubs failed", "err", err)
		}

		if err := r.deleteLeft(ctx); err != nil && ctx.Err() == nil {
			r.store.Logger.Warn("deleting chats that are not stored failed", "err", err)
		}

		if err := r.deleteTranscripts(ctx); err != nil && ctx.Err() == nil {
			r.store.Logger.Warn("deleting transcripts failed", "err", err)
		}
	}
}

// endFree ends the runs of hubs that were killed or are suspended, and cancels them in their
// runtimes: the connection of a suspended hub is still open. A hub that was removed has the time
// after to join again, because it perhaps could not reach the database. A run of this hub ends
// if its answer could not be stored. seen has the times since which no hub relays the runs, and so
// has the result.
func (r *Relay) endFree(ctx context.Context, seen map[string]time.Time, after time.Duration) (map[string]time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	runs, err := freeRuns(ctx, r.store.Read(), r.store.HubID)
	still := map[string]time.Time{}
	var cancels []Lease
	for _, l := range runs {
		if r.Has(l.RunID) {
			continue
		}

		still[l.RunID] = time.Now()
		if since, ok := seen[l.RunID]; ok {
			still[l.RunID] = since
		}

		if err != nil || time.Since(still[l.RunID]) < after {
			continue
		}

		var ended bool
		if ended, err = r.endRun(ctx, l, r.store.HubID); ended {
			cancels = append(cancels, l)
		}
	}

	inParallel(cancels, func(l Lease) {
		if ctx.Err() == nil {
			r.CancelRun(ctx, l.TenantID, l.AgentName, l.RunID)
		}
	})
	return still, err
}

// waitLeft is the time for which a session that is not stored may wait for its client.
const waitLeft = time.Hour

// deleteLeft deletes the sessions that are not stored whose hub was killed, or whose client does
// not continue them.
func (r *Relay) deleteLeft(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	now := r.store.Now()
	found, err := db.Value[bool](ctx, r.store.Read(), "find ephemeral chat sessions", `SELECT EXISTS (SELECT 1 FROM chat_sessions WHERE ephemeral)`)
	if err != nil || !found {
		return err
	}

	return r.store.DB.Tx(ctx, func(tx *sql.Tx) error {
		return deleteEphemeral(ctx, tx, now, `(NOT waiting OR updated_at < $1)`, db.Micros(now.Add(-waitLeft)))
	})
}

// inParallel calls f for all items, for some of them at once.
func inParallel[T any](items []T, f func(T)) {
	slots := make(chan struct{}, maxSweepAgents)
	var calls sync.WaitGroup
	for _, item := range items {
		slots <- struct{}{}
		calls.Go(func() {
			defer func() { <-slots }()
			f(item)
		})
	}

	calls.Wait()
}

// endRun ends a run that no hub relays, see endLease.
func (r *Relay) endRun(ctx context.Context, l Lease, hubID string) (bool, error) {
	var counted usage.CountedRun
	err := r.store.DB.Tx(ctx, func(tx *sql.Tx) (err error) {
		counted, err = r.endLease(ctx, tx, l, hubID)
		return err
	})
	if err == nil {
		r.observe(counted)
	}

	return counted.ID != "", err
}

// observe adds runs of other hubs that are counted to the metrics. Those without an id have ended
// before.
func (r *Relay) observe(runs ...usage.CountedRun) {
	for _, one := range runs {
		if one.ID != "" && r.cfg.Usage != nil {
			r.cfg.Usage.Observe(one)
		}
	}
}

// deleteTranscripts deletes the transcripts that are due in their runtimes. Those of a runtime that
// does not respond are due again later, and one in use with the next sweep.
func (r *Relay) deleteTranscripts(ctx context.Context) error {
	all, err := claimTranscripts(ctx, r.store.DB.Write(), r.store.Now())
	if err != nil {
		return err
	}

	byAgent := map[[2]string][]Transcript{}
	for _, t := range all {
		agent := [2]string{t.TenantID, t.AgentName}
		byAgent[agent] = append(byAgent[agent], t)
	}

	inParallel(slices.Collect(maps.Values(byAgent)), func(transcripts []Transcript) {
		if err := r.deleteTranscriptsOf(ctx, transcripts); err != nil && ctx.Err() == nil {
			r.store.Logger.Warn("deleting transcripts failed", "err", err)
		}
	})
	return nil
}

// deleteTranscriptsOf deletes transcripts of one agent. The error is that of the database.
func (r *Relay) deleteTranscriptsOf(ctx context.Context, transcripts []Transcript) error {
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	memory := &account{budget: r.memory, holder: transcripts[0].TenantID}
	defer memory.release()
	for _, t := range transcripts {
		all, err := r.replicasOf(ctx, t.TenantID, t.AgentName, memory)
		for i := 0; i < len(all) && err == nil; i++ {
			err = all[i].DeleteSession(ctx, t.RuntimeSession)
		}

		switch {
		case errors.Is(err, client.ErrSessionBusy): // its run ends
			if err := InsertTranscript(ctx, r.store.DB.Write(), t, r.store.Now()); err != nil {
				return err
			}

			continue
		case err != nil && !errors.Is(err, code.AgentNotDeployed) && !errors.Is(err, wire.NotFound):
			return nil // it is stopped or does not respond: the transcripts are due again
		}

		if err := deleteTranscript(ctx, r.store.DB.Write(), t); err != nil { // without a deployment, its files are deleted
			return err
		}
	}

	return nil
}

// DeleteTranscripts deletes the transcripts that are due soon.
func (r *Relay) DeleteTranscripts() {
	select {
	case r.deleted <- struct{}{}:
	default: // the next sweep deletes them
	}
}
