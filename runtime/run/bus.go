// Package run has the bus that connects the replicas of a runtime: an id of a run is in use if it
// is at any of them, each of them cancels the runs of all, and has the states of their ended ones.
package run

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// Errors of a bus. Any other error of its methods means that the bus is unavailable.
var (
	ErrChanged     = errors.New("entry was changed")
	ErrMalformed   = errors.New("entry is malformed")
	ErrUnavailable = errors.New("bus is unavailable")
)

// ID is the id of a run.
type ID = ids.ID

// Bus connects the replicas of a runtime. It has one entry for each run, which is replaced only by
// a writer that has read it, and it carries notifications to the owner of a run. [NewMemoryBus]
// connects registries of one process, runtime/run/natsbus those of many. A Bus is safe for
// concurrent use, and its methods return when their context ends.
type Bus interface {
	// Get returns the entry of a run. Its Revision is 0 if there is none. It fails with
	// [ErrMalformed] for an entry of another program or of a newer version. If that has no owner, the
	// owner of the run replaces it: Get then also returns its Revision.
	Get(ctx context.Context, id ID) (Claim, error)

	// Put stores an entry for the time ttl, which may be rounded up to a second, if the stored one
	// has the revision e.Revision, and returns the new revision. Otherwise it fails with
	// [ErrChanged].
	Put(ctx context.Context, id ID, e Claim, ttl time.Duration) (revision uint64, err error)

	// Delete deletes the entry with that revision. If there is none, it may fail with [ErrChanged].
	Delete(ctx context.Context, id ID, revision uint64) error

	// Notify calls the function of the owner's Listen, and waits until it returns. An error means
	// that the notification may be lost.
	Notify(ctx context.Context, owner, id ID) error

	// Listen calls notified for the notifications of an owner until stop is called. A call may be in
	// progress then, and several at the same time.
	Listen(owner ID, notified func(id ID)) (stop func())
}

// Claim is what a [Bus] stores about a run: the registry that has claimed its id, and its end.
type Claim struct {
	Owner    ID          // the registry that executes the run
	State    wire.State  // empty while the run is active and not cancelled
	Reason   wire.Reason // of a cancel
	Revision uint64      // changes with each Put
}

// memoryBus is the [Bus] of one process.
type memoryBus struct {
	mu       sync.Mutex // guards the fields below
	revision uint64
	entries  map[ID]memoryClaim
	swept    time.Time // when expired entries were removed
	owners   map[ID]func(ID)
}

var _ Bus = (*memoryBus)(nil)

type memoryClaim struct {
	Claim
	expires time.Time
}

// sweepPeriod is the time after which expired entries of a bus are removed.
const sweepPeriod = time.Minute

// NewMemoryBus returns a bus for the runtimes of one process, without entries.
func NewMemoryBus() Bus {
	return &memoryBus{entries: map[ID]memoryClaim{}, owners: map[ID]func(ID){}, swept: time.Now()}
}

// Get implements [Bus].
func (b *memoryBus) Get(_ context.Context, id ID) (Claim, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.get(id), nil
}

// get returns the entry, unless it has expired. The caller holds mu.
func (b *memoryBus) get(id ID) Claim {
	e := b.entries[id]
	if !time.Now().Before(e.expires) {
		return Claim{}
	}

	return e.Claim
}

// Put implements [Bus].
func (b *memoryBus) Put(_ context.Context, id ID, e Claim, ttl time.Duration) (uint64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.get(id).Revision != e.Revision {
		return 0, ErrChanged
	}

	now := time.Now()
	if now.Sub(b.swept) >= sweepPeriod {
		for id, e := range b.entries {
			if !now.Before(e.expires) {
				delete(b.entries, id)
			}
		}

		b.swept = now
	}

	b.revision++
	e.Revision = b.revision
	b.entries[id] = memoryClaim{e, now.Add(ttl)}
	return e.Revision, nil
}

// Delete implements [Bus].
func (b *memoryBus) Delete(_ context.Context, id ID, revision uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.get(id).Revision != revision {
		return ErrChanged
	}

	delete(b.entries, id)
	return nil
}

// Notify implements [Bus].
func (b *memoryBus) Notify(_ context.Context, owner, id ID) error {
	b.mu.Lock()
	notified := b.owners[owner]
	b.mu.Unlock()
	if notified == nil {
		return ErrUnavailable
	}

	notified(id)
	return nil
}

// Listen implements [Bus].
func (b *memoryBus) Listen(owner ID, notified func(ID)) func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.owners[owner] = notified
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.owners, owner)
	}
}
