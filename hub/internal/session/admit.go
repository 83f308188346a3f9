package session

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/user"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/rbac"
)

// watchEvery is the time between two checks of the requests in progress, and the age at which a
// request takes part in them. With the query, the access of another replica's change ends within 2
// s.
const watchEvery = 500 * time.Millisecond

// Admit returns the context of a request of the caller. Its transactions commit only if the caller
// may still call a route of the group: a request may take longer than the access of its caller, and
// a cached state may be older. The context is cancelled with a cause that wraps
// [api.ErrAccessEnded] when the access ends: by a change of this process immediately, otherwise
// within 2 seconds. The end of the request calls the function.
func (s *Service) Admit(ctx context.Context, caller api.Caller, group rbac.Group) (context.Context, func()) {
	if caller.Kind == api.Own { // the hub does not know when that access ends
		return ctx, func() {}
	}

	ctx = db.WithCheck(ctx, func(ctx context.Context, tx *sql.Tx) error {
		all, err := user.ReadAccess(ctx, tx, s.store.Now(), user.CredentialOf(caller))
		if err != nil {
			return err
		}

		return all[user.CredentialOf(caller)].Check(caller, group)
	})
	ctx, end := context.WithCancelCause(ctx)
	w := &watched{caller: caller, group: group, began: time.Now(), end: end}
	s.watcher.add(w)
	return ctx, func() {
		s.watcher.remove(w)
		end(nil)
	}
}

// watched is a request in progress.
type watched struct {
	caller api.Caller
	group  rbac.Group
	began  time.Time
	end    context.CancelCauseFunc
}

// watcher ends the requests in progress whose callers have no access any more, with one query for
// all requests that take long.
type watcher struct {
	s    *Service
	wake chan struct{}

	mu      sync.Mutex // guards the fields below
	open    map[*watched]struct{}
	changed map[string]bool // users whose access this process has changed
}

func (w *watcher) add(one *watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[one] = struct{}{}
}

func (w *watcher) remove(one *watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, one)
}

// userChanged checks the requests of a user immediately.
func (w *watcher) userChanged(userID string) {
	w.mu.Lock()
	w.changed[userID] = true
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default: // it will see this user too
	}
}

// tenantChanged checks the requests of a tenant before it returns. If the database is unavailable,
// the next check of all requests ends them.
func (w *watcher) tenantChanged(tenantID string) {
	w.mu.Lock()
	var due []*watched
	for one := range w.open {
		if one.caller.TenantID == tenantID {
			due = append(due, one)
		}
	}

	w.mu.Unlock()
	if err := w.check(context.Background(), due); err != nil {
		w.s.store.Logger.Warn("checking requests in progress failed", "tenant", tenantID, "err", err)
	}
}

func (w *watcher) run(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	failing := false
	for {
		var due []*watched
		select {
		case <-tick.C:
			due = w.due(time.Now().Add(-watchEvery))
		case <-w.wake:
			due = w.due(time.Time{})
		case <-ctx.Done():
			return
		}

		err := w.check(ctx, due)
		if err != nil && !failing && ctx.Err() == nil { // once, not twice a second
			w.s.store.Logger.Warn("checking requests in progress failed", "err", err)
		}

		failing = err != nil
	}
}

// due returns the requests that began before the time, and those of changed users.
func (w *watcher) due(before time.Time) []*watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	var due []*watched
	for one := range w.open {
		if one.began.Before(before) || w.changed[one.caller.UserID] {
			due = append(due, one)
		}
	}

	clear(w.changed)
	return due
}

// check ends the requests without access. The database may be unavailable: the next check comes
// soon.
func (w *watcher) check(ctx context.Context, due []*watched) error {
	ctx, cancel := context.WithTimeout(ctx, flushWithin)
	defer cancel()
	requests := map[string][]*watched{}
	var ids []string
	for _, one := range due {
		id := user.CredentialOf(one.caller)
		if requests[id] == nil {
			ids = append(ids, id)
		}

		requests[id] = append(requests[id], one)
	}

	for len(ids) > 0 {
		some := ids[:min(len(ids), user.MaxAccesses)]
		ids = ids[len(some):]
		all, err := user.ReadAccess(ctx, w.s.store.Read(), w.s.store.Now(), some...)
		if err != nil {
			return err
		}

		for _, id := range some {
			for _, one := range requests[id] {
				if err := all[id].Check(one.caller, one.group); err != nil {
					one.end(fmt.Errorf("%w: %w", api.ErrAccessEnded, codeOf(err)))
				}
			}
		}
	}

	return nil
}

// codeOf returns the code of an error of user.Access.Check.
func codeOf(err error) wire.Code {
	code := wire.Forbidden
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e.Code
	}

	errors.As(err, &code)
	return code
}
