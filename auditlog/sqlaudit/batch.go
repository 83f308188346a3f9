package sqlaudit

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/internal/sqlerr"
)

// batcher writes concurrent calls of Append together. Its goroutine has one transaction in flight.
// The calls that arrive during that transaction are the next batch. A single call does not wait for
// others.
type batcher struct {
	store *Store
	wake  chan struct{} // has a token if there may be work
	done  chan struct{}

	mu      sync.Mutex // guards the fields below
	pending []*call
	closed  bool
	callers int                     // of the last batch, and those that waited for its end
	waiting int                     // callers of the batch in flight that did not give up
	cancel  context.CancelCauseFunc // of the batch in flight
}

// call is one call of Append.
type call struct {
	records []auditlog.Record
	done    chan error
}

const (
	// maxBatch is the number of entries after which a batch takes no more calls.
	maxBatch = 512

	// contended is the number of batches that are written with a lock after another process has
	// written to the log.
	contended = 16
)

func (b *batcher) start(s *Store) {
	b.store, b.wake, b.done = s, make(chan struct{}, 1), make(chan struct{})
	go b.run()
}

func (b *batcher) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.signal()
	<-b.done
}

func (b *batcher) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *batcher) append(ctx context.Context, records []auditlog.Record) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c := &call{records: records, done: make(chan error, 1)}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return ErrClosed
	}
	b.pending = append(b.pending, c)
	b.mu.Unlock()
	b.signal()
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return b.abandon(c, context.Cause(ctx))
	}
}

// abandon returns the error of a caller that does not wait any longer. A batch without callers is
// cancelled.
func (b *batcher) abandon(c *call, cause error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.pending, c); i >= 0 {
		b.pending = slices.Delete(b.pending, i, i+1)
		return cause
	}
	select {
	case err := <-c.done:
		return err
	default:
	}
	if b.waiting--; b.waiting == 0 {
		b.cancel(cause)
	}
	return unknown(cause)
}

func (b *batcher) run() {
	defer close(b.done)
	locked := 0
	for range b.wake {
		for {
			b.gather()
			ctx, calls := b.take()
			if len(calls) == 0 {
				break
			}
			b.write(ctx, calls, &locked)
		}
		if b.ended() {
			return
		}
	}
}

func (b *batcher) ended() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed && len(b.pending) == 0
}

// gather gives the callers of the last batch a few turns to call again: larger batches are cheaper.
func (b *batcher) gather() {
	for before, idle := 0, 0; idle < 2; runtime.Gosched() {
		b.mu.Lock()
		n, all := len(b.pending), b.callers
		b.mu.Unlock()
		if n >= all {
			return
		}
		if n == before {
			idle++
		}
		before = n
	}
}

// take makes a batch of the pending calls.
func (b *batcher) take() (context.Context, []*call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	size, n := 0, 0
	for n < len(b.pending) && size < maxBatch {
		size += len(b.pending[n].records)
		n++
	}
	if n == 0 {
		return nil, nil
	}
	calls := slices.Clone(b.pending[:n])
	b.pending = slices.Delete(b.pending, 0, n)
	ctx, cancel := context.WithCancelCause(context.Background())
	b.waiting, b.cancel = n, cancel
	return ctx, calls
}

// write writes a batch. If the database rejects it, each call is written by itself.
func (b *batcher) write(ctx context.Context, calls []*call, locked *int) {
	var records []auditlog.Record
	for _, c := range calls {
		records = append(records, c.records...)
	}
	var done bool
	var err error
	if *locked == 0 {
		if done, err = b.store.writeUnlocked(ctx, records); errors.Is(err, errMoved) {
			*locked = contended
		}
	}
	if !done {
		*locked = max(*locked-1, 0)
		err = b.store.writeLocked(ctx, records)
	}
	b.mu.Lock()
	b.callers = len(calls) + len(b.pending)
	b.mu.Unlock()
	for _, c := range calls {
		own := err
		if len(calls) > 1 && sqlerr.InvalidData(err) {
			own = b.store.writeLocked(ctx, c.records)
		}
		c.done <- own
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cancel(nil)
}
