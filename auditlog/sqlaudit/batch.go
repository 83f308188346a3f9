package sqlaudit

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/seed93082962/agenthost/auditlog"
)

// batcher gathers concurrent calls of Append. Its goroutine writes what has come while it wrote what came before, so a
// call that is alone does not wait.
type batcher struct {
	w    writer
	wake chan struct{} // holds one token where there may be something to do
	done chan struct{}

	last int // calls in the last batch

	mu      sync.Mutex // guards what follows
	pending []*call
	closed  bool
}

// call is one call of Append.
type call struct {
	records []auditlog.Record
	done    chan error
	state   atomic.Int32
	batch   *batch // set before state is taken
}

// States of a call. Whoever moves it away from waiting decides.
const (
	waiting = iota
	taken
	gone
)

// batch is calls that are written together. It is given up when none of their callers waits any longer.
type batch struct {
	calls  []*call
	left   atomic.Int64 // callers that still wait
	cancel context.CancelCauseFunc
}

func (b *batcher) start(s *Store) {
	b.w = writer{store: s, chains: map[string]*chain{}}
	b.wake, b.done = make(chan struct{}, 1), make(chan struct{})
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
	}
	if c.state.CompareAndSwap(waiting, gone) {
		return context.Cause(ctx)
	}
	if c.batch.left.Add(-1) == 0 {
		c.batch.cancel(context.Cause(ctx))
	}
	select {
	case err := <-c.done: // it was over all the same
		return err
	default:
		return unknown(context.Cause(ctx))
	}
}

func (b *batcher) run() {
	defer close(b.done)
	for range b.wake {
		for {
			b.gather()
			calls, closed := b.take()
			if len(calls) == 0 {
				if closed {
					return
				}
				break
			}
			b.last = len(calls)
			b.commit(calls)
		}
	}
}

// gather lets those who were answered last come back, as most do at once: larger batches are worth a turn or two. Where
// nobody comes it returns.
func (b *batcher) gather() {
	for before := -1; ; {
		runtime.Gosched()
		b.mu.Lock()
		n := len(b.pending)
		b.mu.Unlock()
		if n == before || n >= b.last {
			return
		}
		before = n
	}
}

// take takes what a transaction can hold; what is left stays for the next.
func (b *batcher) take() (calls []*call, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	size, n := 0, 0
	for n < len(b.pending) && size < b.w.store.sql.batchSize {
		size += len(b.pending[n].records)
		n++
	}
	calls = b.pending[:n:n]
	b.pending = b.pending[n:]
	if len(b.pending) == 0 {
		b.pending = nil
	}
	return calls, b.closed
}

func (b *batcher) commit(calls []*call) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	w := &batch{cancel: cancel}
	w.left.Add(1) // until all calls are in
	var records []auditlog.Record
	for _, c := range calls {
		c.batch = w
		w.left.Add(1)
		if !c.state.CompareAndSwap(waiting, taken) {
			w.left.Add(-1)
			continue
		}
		w.calls = append(w.calls, c)
		records = append(records, c.records...)
	}
	if w.left.Add(-1) == 0 {
		return
	}
	err := b.w.write(ctx, records)
	for _, c := range w.calls {
		own := err
		if len(w.calls) > 1 && refused(err) { // one of them is at fault
			own = b.w.write(ctx, c.records)
		}
		c.done <- own
	}
}
