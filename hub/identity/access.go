package identity

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/rbac"
)

// watchEvery is the time between two checks of the requests in progress, and the age at which a
// request takes part in them. With the query, the access of another replica's change ends within 2
// s.
const watchEvery = 500 * time.Millisecond

// access is what a session or a CLI token permits now. The zero value is one that does not exist.
type access struct {
	id       string
	userID   string
	role     rbac.Role
	disabled bool
	revoked  bool
	why      string // a session ended
	expired  bool
}

// check returns why the caller may not call a route of the group, or nil. The zero group has every
// role.
func (a access) check(caller api.Caller, group rbac.Group) error {
	switch {
	case a.userID == "" || a.userID != caller.UserID:
		return api.TokenRevoked
	case a.disabled && (!a.revoked || a.why == endedByDisable) && !a.expired:
		return api.AccountDisabled.Of(caller)
	case a.disabled:
		return api.AccountDisabled
	case a.revoked:
		return api.TokenRevoked
	case a.expired:
		return api.TokenExpired
	case group.IsZero():
		return nil
	}
	return group.Check(api.Caller{RoleNow: a.role})
}

// credentialOf returns the id of the session or CLI token of a caller.
func credentialOf(c api.Caller) string { return c.SessionID + c.TokenID }

// Admit returns the context of a request of the caller. Its transactions commit only if the caller
// may still call a route of the group: a request may take longer than the access of its caller, and
// a cached state may be older. The context is cancelled with a cause that wraps
// [api.ErrAccessEnded] when the access ends: by a change of this process immediately, otherwise
// within 2 seconds. The end of the request calls the function.
func (s *Service) Admit(ctx context.Context, caller api.Caller, group rbac.Group) (context.Context, func()) {
	ctx = db.WithCheck(ctx, func(ctx context.Context, tx *sql.Tx) error {
		all, err := readAccess(ctx, tx, s.store.Now(), credentialOf(caller))
		if err != nil {
			return err
		}
		return all[credentialOf(caller)].check(caller, group)
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
	stop context.CancelFunc
	done chan struct{}

	mu      sync.Mutex // guards the fields below
	open    map[*watched]struct{}
	changed map[string]bool // users whose access this process has changed
}

func startWatcher(s *Service) *watcher {
	ctx, stop := context.WithCancel(context.Background())
	w := &watcher{s: s, wake: make(chan struct{}, 1), stop: stop, done: make(chan struct{}), open: map[*watched]struct{}{}, changed: map[string]bool{}}
	go w.run(ctx)
	return w
}

func (w *watcher) close() {
	w.stop()
	<-w.done
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
	defer close(w.done)
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
func (w *watcher) due(before time.Time) (due []*watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
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
		id := credentialOf(one.caller)
		if requests[id] == nil {
			ids = append(ids, id)
		}
		requests[id] = append(requests[id], one)
	}
	for len(ids) > 0 {
		some := ids[:min(len(ids), maxAccesses)]
		ids = ids[len(some):]
		all, err := readAccess(ctx, w.s.store.Read(), w.s.store.Now(), some...)
		if err != nil {
			return err
		}
		for _, id := range some {
			for _, one := range requests[id] {
				if err := all[id].check(one.caller, one.group); err != nil {
					one.end(fmt.Errorf("%w: %w", api.ErrAccessEnded, codeOf(err)))
				}
			}
		}
	}
	return nil
}

// codeOf returns the code of an error of access.check.
func codeOf(err error) api.Code {
	code := api.Forbidden
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e.Code
	}
	errors.As(err, &code)
	return code
}

// maxAccesses bounds the ids of one query.
const maxAccesses = 64

// readAccess returns the access of sessions and CLI tokens by their ids. The query has one form for
// one id and one for all other numbers, which connections keep prepared.
func readAccess(ctx context.Context, q db.Querier, now time.Time, ids ...string) (map[string]access, error) {
	n := 1
	if len(ids) > 1 {
		n = maxAccesses
	}
	marks, args := make([]string, n), make([]any, n)
	for i := range n {
		marks[i], args[i] = fmt.Sprintf("$%d", i+1), ""
		if i < len(ids) {
			args[i] = ids[i]
		}
	}
	in := strings.Join(marks, ", ")
	found, err := db.Collect(ctx, q, "read access", func(row db.Scanner) (a access, err error) {
		var (
			role, status           string
			revoked, idle, expires sql.NullInt64
		)
		if err := row.Scan(&a.id, &a.userID, &role, &status, &revoked, &a.why, &idle, &expires); err != nil {
			return a, err
		}
		passed := func(t sql.NullInt64) bool { return t.Valid && !now.Before(db.Time(t.Int64)) }
		a.disabled, a.revoked, a.expired = status != statusActive, revoked.Valid, passed(idle) || passed(expires)
		a.role, err = rbac.ParseRole(role)
		return a, err
	}, `SELECT s.id, m.id, m.role, m.status, s.revoked_at, COALESCE(s.revoked_why, ''), s.idle_until, s.expires_at
			FROM sessions s JOIN members m ON m.id = s.user_id AND m.tenant_id = s.tenant_id WHERE s.id IN (`+in+`)
		UNION ALL SELECT t.id, m.id, m.role, m.status, t.revoked_at, '', t.expires_at, t.expires_at
			FROM cli_tokens t JOIN members m ON m.id = t.user_id AND m.tenant_id = t.tenant_id WHERE t.id IN (`+in+`)`, args...)
	all := make(map[string]access, len(found))
	for _, a := range found {
		all[a.id] = a
	}
	return all, err
}
