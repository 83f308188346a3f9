package catalog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
)

const (
	// checksAtOnce bounds the uploads that are checked at the same time, which takes up to a few
	// seconds of a processor each. A tenant has at most one of them.
	checksAtOnce = 2

	// checksOfTenant and checksOfUser bound the uploads that are checked or wait.
	checksOfTenant = 33
	checksOfUser   = 9
)

// slots share the checks of uploads between tenants, and between the users of a tenant. An upload
// waits for those of its user that came before, then for the turn of its tenant, and then for a free
// slot. Users and tenants take turns, because each has one upload that waits for the next turn, and
// waiting senders of a channel proceed in their order.
type slots struct {
	mu      sync.Mutex        // guards shares
	shares  map[string]*share // of users and tenants
	running chan struct{}     // has an element for each check
}

// share has the uploads of a user or a tenant.
type share struct {
	number int           // that are checked or wait
	turn   chan struct{} // has an element while one of them is checked or waits for the next turn
}

func newSlots() *slots {
	return &slots{shares: map[string]*share{}, running: make(chan struct{}, checksAtOnce)}
}

// checked runs check when it is the turn of an upload of the caller. It returns the cause of ctx if
// that ends before.
func (s *Service) checked(ctx context.Context, caller api.Caller, check func() error) error {
	user := caller.TenantID + "/" + caller.UserID
	ofUser, err := s.slots.enter(user, checksOfUser, "yours")
	if err != nil {
		return err
	}
	defer s.slots.leave(user, ofUser)
	ofTenant, err := s.slots.enter(caller.TenantID, checksOfTenant, "the organization")
	if err != nil {
		return err
	}
	defer s.slots.leave(caller.TenantID, ofTenant)
	for _, turn := range []chan struct{}{ofUser.turn, ofTenant.turn, s.slots.running} {
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
	return check()
}

// enter adds an upload to a share, which has at most most of them.
func (s *slots) enter(key string, most int, whose string) (*share, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.shares[key]
	if of == nil {
		of = &share{turn: make(chan struct{}, 1)}
		s.shares[key] = of
	}
	if of.number == most {
		return nil, &api.Error{
			Code: api.RateLimited, RetryAfter: 10 * time.Second,
			Message: fmt.Sprintf("%d uploads of %s wait for their check: try again later.", most-1, whose),
		}
	}
	of.number++
	return of, nil
}

func (s *slots) leave(key string, of *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of.number--; of.number == 0 {
		delete(s.shares, key)
	}
}
