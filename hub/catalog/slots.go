package catalog

import (
	"context"
	"fmt"
	"slices"
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

// slots share the checks of uploads between tenants: those that have uploads take turns.
type slots struct {
	mu      sync.Mutex // guards the fields below
	running int
	tenants []*queue // with uploads, the next one first
}

// queue has the uploads of a tenant.
type queue struct {
	tenant  string
	running bool
	waiting []chan struct{} // closed when it is the turn of the upload
}

// checked runs check when it is the turn of an upload of the caller's tenant. It returns the cause
// of ctx if that ends before.
func (s *Service) checked(ctx context.Context, caller api.Caller, check func() error) error {
	turn, err := s.slots.enqueue(caller.TenantID)
	if err != nil {
		return err
	}
	select {
	case <-turn:
	case <-ctx.Done():
		if s.slots.leave(caller.TenantID, turn) {
			return context.Cause(ctx)
		}
	}
	defer s.slots.release(caller.TenantID)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return check()
}

func (s *slots) enqueue(tenant string) (turn chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.of(tenant)
	if q == nil {
		q = &queue{tenant: tenant}
		s.tenants = append(s.tenants, q)
	}
	if len(q.waiting) == checksWaiting {
		return nil, &api.Error{
			Code: api.RateLimited, RetryAfter: 10 * time.Second,
			Message: fmt.Sprintf("%d uploads of the organization wait for their check: try again later.", checksWaiting),
		}
	}
	turn = make(chan struct{})
	q.waiting = append(q.waiting, turn)
	s.start()
	return turn, nil
}

// leave removes a waiting upload. It reports false if it is the turn of the upload.
func (s *slots) leave(tenant string, turn chan struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.of(tenant)
	i := slices.Index(q.waiting, turn)
	if i < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	s.start()
	return true
}

func (s *slots) release(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.of(tenant).running = false
	s.start()
}

// start gives the free slots to tenants, each of which then goes to the end, and forgets tenants
// without uploads. The caller has the lock.
func (s *slots) start() {
	for s.running < checksAtOnce {
		i := slices.IndexFunc(s.tenants, func(q *queue) bool { return !q.running && len(q.waiting) > 0 })
		if i < 0 {
			break
		}
		q := s.tenants[i]
		close(q.waiting[0])
		q.waiting, q.running = q.waiting[1:], true
		s.running++
		s.tenants = append(slices.Delete(s.tenants, i, i+1), q)
	}
	s.tenants = slices.DeleteFunc(s.tenants, func(q *queue) bool { return !q.running && len(q.waiting) == 0 })
}

// of returns the queue of a tenant, or nil. The caller has the lock.
func (s *slots) of(tenant string) *queue {
	for _, q := range s.tenants {
		if q.tenant == tenant {
			return q
		}
	}
	return nil
}
