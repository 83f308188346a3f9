package sqlaudit

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/seed93082962/agenthost/auditlog"
)

// batcher gathers concurrent calls of Append. Its goroutine has one transaction in flight, and meanwhile seals what comes
// for the next behind the entries that are in flight: if these turn out not to be written, it is sealed again. So a call
// that is alone does not wait, and of many the server and the client are busy at the same time.
type batcher struct {
	w    writer
	wake chan struct{} // holds one token where there may be something to do
	done chan struct{}

	next   *batch     // is being filled
	flying *batch     // is being written; nil where none is
	landed chan error // of flying
	all    int        // calls that were there when the last batch landed: it and those that waited

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
	err     error  // where each call of a batch has its own
}

// States of a call. Whoever moves it away from waiting decides.
const (
	waiting = iota
	taken
	gone
)

// batch is calls that are written together. It is given up when none of their callers waits any longer.
type batch struct {
	calls   []*call
	records []auditlog.Record
	draft   *draft // of records; nil where it was not tried yet, or where they must be
	locked  bool   // written with the log locked

	left   atomic.Int64    // callers that still wait
	ctx    context.Context //nolint:containedctx // of the transaction, which is in flight on another goroutine
	cancel context.CancelCauseFunc
}

func (b *batcher) start(s *Store) {
	b.w = writer{store: s, chains: map[string]*chain{}}
	b.wake, b.done, b.landed = make(chan struct{}, 1), make(chan struct{}), make(chan error, 1)
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
	for {
		select {
		case <-b.wake:
		case err := <-b.landed:
			b.land(err)
		}
		b.board()
		for b.flying == nil && b.next != nil {
			b.gather()
			b.launch()
			b.board() // where all callers of that were gone, what is left is not announced again
		}
		if b.idle() {
			return
		}
	}
}

// idle tells that nothing is left to do, and nothing will be.
func (b *batcher) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed && len(b.pending) == 0 && b.next == nil && b.flying == nil
}

// gather lets those who were answered last come back, as most do at once: larger batches are worth a turn or two. Where
// nobody comes it returns.
func (b *batcher) gather() {
	for before := -1; before < len(b.next.calls) && len(b.next.calls) < b.all; {
		before = len(b.next.calls)
		runtime.Gosched()
		b.board()
	}
}

// board brings what is pending into the next batch, as far as a transaction can hold it.
func (b *batcher) board() {
	b.mu.Lock()
	if b.next == nil && len(b.pending) > 0 {
		b.next = &batch{}
	}
	size, n := 0, 0
	if b.next != nil {
		size = len(b.next.records)
	}
	for n < len(b.pending) && size < b.w.store.sql.batchSize {
		size += len(b.pending[n].records)
		n++
	}
	calls := b.pending[:n:n]
	if b.pending = b.pending[n:]; len(b.pending) == 0 {
		b.pending = nil
	}
	b.mu.Unlock()
	if n == 0 {
		return
	}
	from := len(b.next.records)
	for _, c := range calls {
		b.next.calls = append(b.next.calls, c)
		b.next.records = append(b.next.records, c.records...)
	}
	if b.flying != nil && b.flying.draft == nil {
		return // it has the chains
	}
	if from == 0 || b.next.draft != nil {
		b.next.seal(&b.w, from)
	}
}

// seal drafts the records from an index on.
func (t *batch) seal(w *writer, from int) {
	t.draft = w.draft(t.draft, t.records[from:])
	t.locked = t.draft == nil
}

// launch writes the next batch.
func (b *batcher) launch() {
	w := b.next
	b.next = nil
	w.ctx, w.cancel = context.WithCancelCause(context.Background())
	w.left.Add(1) // until all calls are in
	there := make([]*call, 0, len(w.calls))
	for _, c := range w.calls {
		c.batch = w
		w.left.Add(1)
		if c.state.CompareAndSwap(waiting, taken) {
			there = append(there, c)
		} else {
			w.left.Add(-1)
		}
	}
	if len(there) < len(w.calls) {
		w.calls, w.records, w.draft = there, nil, nil
		for _, c := range there {
			w.records = append(w.records, c.records...)
		}
	}
	if w.left.Add(-1) == 0 {
		w.cancel(nil)
		return
	}
	if w.draft == nil && !w.locked {
		w.seal(&b.w, 0)
	}
	if w.draft != nil {
		w.draft.committed() // so it is hoped
	}
	b.fly(w)
}

func (b *batcher) fly(w *batch) {
	b.flying = w
	go func() {
		if w.draft != nil {
			b.landed <- b.w.bold(w.ctx, w.draft)
			return
		}
		err := b.w.write(w.ctx, w.records)
		for _, c := range w.calls {
			c.err = err
			if len(w.calls) > 1 && refused(err) { // one of them is at fault
				c.err = b.w.write(w.ctx, c.records)
			}
		}
		b.landed <- nil
	}()
}

// land answers the callers of the batch that was in flight.
func (b *batcher) land(err error) {
	w := b.flying
	b.flying = nil
	if err != nil {
		b.w.forget(w.draft, err)
		if b.next != nil {
			b.next.draft = nil // it was sealed behind these
		}
		if transient(err) || refused(err) {
			w.draft, w.locked = nil, true
			b.fly(w)
			return
		}
		for _, c := range w.calls {
			c.err = err
		}
	}
	b.board()
	b.all = len(w.calls)
	if b.next != nil {
		b.all += len(b.next.calls)
	}
	for _, c := range w.calls {
		c.done <- c.err
	}
	w.cancel(nil)
}
