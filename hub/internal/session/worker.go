package session

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/clitoken"
)

const (
	sweepEvery  = 10 * time.Minute
	keepEnded   = 7 * 24 * time.Hour // how long an ended session is distinguished from an unknown one
	flushWithin = 5 * time.Second
	maxUses     = 1 << 14 // uses that wait to be written; further ones are dropped
)

// worker records in the background when sessions and CLI tokens were last used, deletes ended ones,
// and rotates the signing key.
type worker struct {
	s    *Service
	wake chan struct{}

	mu   sync.Mutex // guards uses
	uses map[use]seen
}

// use names a session, or else a CLI token.
type use struct{ session, token string }

type seen struct {
	at       int64
	remoteIP string
}

func (w *worker) used(u use, at seen) {
	w.mu.Lock()
	w.keep(u, at)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default: // it will see this use too
	}
}

// keep is called with mu held.
func (w *worker) keep(u use, at seen) {
	if known, ok := w.uses[u]; ok && known.at > at.at || !ok && len(w.uses) >= maxUses {
		return
	}

	w.uses[u] = at
}

func (w *worker) run(ctx context.Context) {
	defer w.flush(context.WithoutCancel(ctx)) // the last uses
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	w.sweep(ctx)
	for {
		select {
		case <-w.wake:
			w.flush(ctx)
		case <-sweep.C:
			w.flush(ctx) // uses that could not be written before
			w.sweep(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// flush writes each use in its own statement, so that two replicas cannot deadlock. Uses that
// cannot be written are kept for the next flush.
func (w *worker) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushWithin)
	defer cancel()
	w.mu.Lock()
	uses := maps.Clone(w.uses)
	clear(w.uses)
	w.mu.Unlock()
	for u, at := range uses {
		if err := w.record(ctx, u, at); err != nil {
			w.mu.Lock()
			for u, at := range uses {
				w.keep(u, at)
			}

			w.mu.Unlock()
			w.s.store.Logger.Warn("writing last use failed", "err", err)
			return
		}

		delete(uses, u)
	}
}

// record records a use, unless another replica has recorded one within useEvery.
func (w *worker) record(ctx context.Context, u use, at seen) error {
	after := at.at - useEvery.Microseconds()
	if u.session != "" {
		return recordUse(ctx, w.s.store.DB.Write(), u.session, at.at, after)
	}

	return clitoken.RecordUse(ctx, w.s.store.DB.Write(), u.token, at.remoteIP, at.at, after)
}

// sweep rotates a signing key that is due, and deletes rows that are no longer needed. Rotated
// refresh tokens are deleted only with their session: until then, the use of one means that a
// second client has a copy.
func (w *worker) sweep(ctx context.Context) {
	sessions := func(ctx context.Context) error {
		return deleteSessions(ctx, w.s.store.DB.Write(), w.s.store.Now().Add(-keepEnded))
	}
	for _, sweep := range []func(context.Context) error{w.s.keys.Sweep, w.s.users.Sweep, w.s.passwords.Sweep, w.s.cliTokens.Sweep, sessions} {
		if err := sweep(ctx); err != nil && ctx.Err() == nil {
			w.s.store.Logger.Warn("rotating the signing key or deleting expired rows failed", "err", err)
		}
	}
}
