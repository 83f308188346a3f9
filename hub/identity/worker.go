package identity

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/db"
)

const (
	sweepEvery  = 10 * time.Minute
	keepEnded   = 7 * 24 * time.Hour  // an ended session is told from an unknown one for so long
	keepShown   = 90 * 24 * time.Hour // so long lists show an invite or a CLI token that is of no use any more
	flushWithin = 5 * time.Second
	maxUses     = 1 << 14 // that wait to be written; more than that are not written down
)

// worker writes what no request should wait for: when sessions and CLI tokens were last used, and the removal of what has
// ended.
type worker struct {
	s    *Service
	wake chan struct{}
	stop context.CancelFunc
	done chan struct{}

	mu   sync.Mutex // guards uses
	uses map[use]seen
}

// use names a session, or else a CLI token.
type use struct{ session, token string }

type seen struct {
	at       int64
	remoteIP string
}

func startWorker(s *Service) *worker {
	ctx, stop := context.WithCancel(context.Background())
	w := &worker{s: s, wake: make(chan struct{}, 1), stop: stop, done: make(chan struct{}), uses: map[use]seen{}}
	go w.run(ctx)
	return w
}

func (w *worker) close() {
	w.stop()
	<-w.done
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
	defer close(w.done)
	defer w.flush(context.WithoutCancel(ctx)) // what came last
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	w.sweep(ctx)
	for {
		select {
		case <-w.wake:
			w.flush(ctx)
		case <-sweep.C:
			w.flush(ctx) // what could not be written before
			w.sweep(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// flush writes uses one by one: no two replicas can lock rows of the other's. What cannot be written waits for the next use.
func (w *worker) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushWithin)
	defer cancel()
	w.mu.Lock()
	uses := maps.Clone(w.uses)
	clear(w.uses)
	w.mu.Unlock()
	for u, at := range uses {
		before := at.at - useEvery.Microseconds() // another replica may have been first
		var err error
		if u.session != "" {
			_, err = w.s.db.Write().ExecContext(ctx, `UPDATE sessions SET last_used_at = $1 WHERE id = $2 AND last_used_at <= $3`,
				at.at, u.session, before)
		} else {
			_, err = w.s.db.Write().ExecContext(ctx, `UPDATE cli_tokens SET last_used_at = $1, last_used_ip = $2
				WHERE id = $3 AND (last_used_at IS NULL OR last_used_at <= $4)`, at.at, at.remoteIP, u.token, before)
		}
		if err != nil {
			w.mu.Lock()
			for u, at := range uses {
				w.keep(u, at)
			}
			w.mu.Unlock()
			w.s.cfg.Logger.Warn("writing last use failed", "err", err)
			return
		}
		delete(uses, u)
	}
}

// sweep removes what has no use any more. Rotated refresh tokens go with their session, not before: until then the use of
// one means that somebody has a copy.
func (w *worker) sweep(ctx context.Context) {
	if err := w.s.renewSetup(ctx); err != nil && ctx.Err() == nil {
		w.s.cfg.Logger.Warn("renewing the setup token failed", "err", err)
	}
	now := w.s.now()
	for _, old := range []struct {
		query  string
		before time.Time
	}{
		{`DELETE FROM sessions WHERE expires_at < $1 OR idle_until < $1 OR revoked_at < $1`, now.Add(-keepEnded)},
		{`DELETE FROM cli_tokens WHERE expires_at < $1 OR revoked_at < $1`, now.Add(-keepShown)},
		{`DELETE FROM invites WHERE expires_at < $1 OR used_at < $1 OR revoked_at < $1`, now.Add(-keepShown)},
		{`DELETE FROM login_attempts WHERE at5 < $1`, now.Add(-lockoutWindow)},
		{`DELETE FROM login_networks WHERE began < $1`, now.Add(-lockoutWindow)},
		{`DELETE FROM signing_keys WHERE expires_at < $1`, now},
	} {
		if _, err := w.s.db.Write().ExecContext(ctx, old.query, db.Micros(old.before)); err != nil && ctx.Err() == nil {
			w.s.cfg.Logger.Warn("removing what has ended failed", "err", err)
			return
		}
	}
}
