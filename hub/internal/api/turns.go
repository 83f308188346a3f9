package api

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/wire"
)

// Turns share expensive work between tenants, and between the users of a tenant: a work waits for
// those of its user that came before, then for the turn of its tenant, and then for a free place.
// Create it with [NewTurns]. It is safe for concurrent use.
type Turns struct {
	noun             string
	ofUser, ofTenant int

	mu     sync.Mutex        // guards queues
	queues map[string]*queue // of users and tenants
	places chan struct{}     // has an element for each work that runs
}

// queue has the work of a user or a tenant.
type queue struct {
	number int           // that run or wait
	turn   chan struct{} // has an element while one of them runs or waits for the next turn
}

// NewTurns returns turns of atOnce works, whose name in errors is a plural noun. A user has at most
// ofUser that run or wait, and a tenant ofTenant.
func NewTurns(noun string, atOnce, ofUser, ofTenant int) *Turns {
	return &Turns{noun: noun, ofUser: ofUser, ofTenant: ofTenant, queues: map[string]*queue{}, places: make(chan struct{}, atOnce)}
}

// Do runs work when it is the caller's turn. Users and tenants take turns, because each has one
// work that waits for the next turn, and waiting senders of a channel proceed in their order. Do
// returns the cause of ctx if that ends before, and an error with RateLimited if too many works
// wait.
func (t *Turns) Do(ctx context.Context, caller Caller, work func() error) error {
	user := caller.TenantID + "/" + caller.UserID
	ofUser, err := t.enter(user, t.ofUser, "yours")
	if err != nil {
		return err
	}
	defer t.leave(user, ofUser)
	ofTenant, err := t.enter(caller.TenantID, t.ofTenant, "the organization")
	if err != nil {
		return err
	}
	defer t.leave(caller.TenantID, ofTenant)
	for _, turn := range []chan struct{}{ofUser.turn, ofTenant.turn, t.places} {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}

	if ctx.Err() != nil {
		return context.Cause(ctx)
	}

	return work()
}

// Waiting returns the number of works of a tenant that run or wait.
func (t *Turns) Waiting(tenantID string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := t.queues[tenantID]; q != nil {
		return q.number
	}

	return 0
}

// enter adds a work to a queue, which has at most limit of them.
func (t *Turns) enter(key string, limit int, owner string) (*queue, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.queues[key]
	if q == nil {
		q = &queue{turn: make(chan struct{}, 1)}
		t.queues[key] = q
	}

	if q.number == limit {
		return nil, &wire.Error{
			Code: wire.RateLimited, RetryAfter: 10 * time.Second,
			Message: fmt.Sprintf("%d %s of %s wait already: try again later.", limit-1, t.noun, owner),
		}
	}

	q.number++
	return q, nil
}

func (t *Turns) leave(key string, q *queue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q.number--; q.number == 0 {
		delete(t.queues, key)
	}
}
