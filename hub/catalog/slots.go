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

	// checksWaiting bounds the uploads of a tenant that wait.
	checksWaiting = 32
)

// slots share the checks of uploads between tenants. An upload waits for those of its tenant that
// came before, and then for a free slot. Tenants take turns, because waiting senders of a channel
// proceed in their order.
type slots struct {
	mu      sync.Mutex // guards tenants
	tenants map[string]*tenantUploads
	running chan struct{} // has an element for each check
}

type tenantUploads struct {
	number int           // that are checked or wait
	turn   chan struct{} // has an element while one of them is checked or waits for a slot
}

func newSlots() *slots {
	return &slots{tenants: map[string]*tenantUploads{}, running: make(chan struct{}, checksAtOnce)}
}

// checked runs check when it is the turn of an upload of the caller's tenant. It returns the cause
// of ctx if that ends before.
func (s *Service) checked(ctx context.Context, caller api.Caller, check func() error) error {
	uploads, err := s.slots.enter(caller.TenantID)
	if err != nil {
		return err
	}
	defer s.slots.leave(caller.TenantID, uploads)
	for _, slot := range []chan struct{}{uploads.turn, s.slots.running} {
		select {
		case slot <- struct{}{}:
			defer func() { <-slot }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return check()
}

func (s *slots) enter(tenantID string) (*tenantUploads, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	uploads := s.tenants[tenantID]
	if uploads == nil {
		uploads = &tenantUploads{turn: make(chan struct{}, 1)}
		s.tenants[tenantID] = uploads
	}
	if uploads.number > checksWaiting {
		return nil, &api.Error{
			Code: api.RateLimited, RetryAfter: 10 * time.Second,
			Message: fmt.Sprintf("%d uploads of the organization wait for their check: try again later.", checksWaiting),
		}
	}
	uploads.number++
	return uploads, nil
}

func (s *slots) leave(tenantID string, uploads *tenantUploads) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if uploads.number--; uploads.number == 0 {
		delete(s.tenants, tenantID)
	}
}
