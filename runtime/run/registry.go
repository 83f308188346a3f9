// Package run keeps track of the runs of a runtime: which are in progress, how to cancel them,
// and for a while how those ended that are over.
//
// A run is claimed under its id, started, and finished:
//
//	r, err := registry.Claim(ctx, id)     // ErrConflict: the id is in use or still remembered
//	defer r.Release()                     // forgets it, should it never have started
//	if err := r.Start(); err != nil { }   // ErrTooMany, ErrDraining
//	work(r.Context())                     // ends when the run is cancelled, with the cause
//	state := r.Finish(wire.StateCompleted) // cancelled, if it had been cancelled meanwhile
package run

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// ID is the id of a run.
type ID = ids.ID

// What a registry refuses.
var (
	ErrConflict = errors.New("run id is in use")
	ErrTooMany  = errors.New("too many runs")
	ErrDraining = errors.New("registry is draining")
	ErrNotFound = errors.New("run not found")
	ErrEnded    = errors.New("run has ended") // in a state that a cancel cannot change
)

// The causes with which the context of a run is cancelled: see [context.Cause].
var (
	ErrClientRequest = errors.New("run cancelled by request")
	ErrDisconnect    = errors.New("run cancelled: its caller went away")
	ErrShutdown      = errors.New("run cancelled: the runtime is going down")
)

// cause gives the sentinel of a reason.
func cause(reason wire.Reason) error {
	switch reason {
	case wire.ReasonDisconnect:
		return ErrDisconnect
	case wire.ReasonShutdown:
		return ErrShutdown
	default:
		return ErrClientRequest
	}
}

// Config of a [Registry]. Its zero value is ready for use.
type Config struct {
	// MaxActive bounds how many runs may be in progress at once. Defaults to 1000.
	MaxActive int
	// TerminalTTL is how long an ended run is remembered. Defaults to 5 minutes.
	TerminalTTL time.Duration
	// DrainGrace is how long Drain waits for runs that it has cancelled. Defaults to 10 s.
	DrainGrace time.Duration
}

// Registry is the set of runs. It holds no goroutine and no timer: what is over is swept when
// the next run comes, ends or is asked for.
type Registry struct {
	cfg   Config
	epoch time.Time

	mu       sync.Mutex // guards all below, and the state of every run
	claimed  map[ID]*Run
	active   int // runs that have started and not finished
	draining bool
	idle     chan struct{} // made by Drain, closed when active comes to 0

	// Ended runs, and the order in which they are forgotten. Neither holds a pointer, so that a
	// million of them costs the garbage collector nothing.
	ended map[ID]outcome
	queue []expiry
	head  int
}

type outcome struct{ state, reason uint8 }

type expiry struct {
	id ID
	at time.Duration // since the registry's epoch: on the monotonic clock, and without a pointer
}

// New makes a registry.
func New(cfg Config) *Registry {
	cfg.MaxActive = cmp.Or(cfg.MaxActive, 1000)
	cfg.TerminalTTL = cmp.Or(cfg.TerminalTTL, 5*time.Minute)
	cfg.DrainGrace = cmp.Or(cfg.DrainGrace, 10*time.Second)
	return &Registry{cfg: cfg, epoch: time.Now(), claimed: map[ID]*Run{}, ended: map[ID]outcome{}}
}

// Claim reserves the id for a run. The run's context has the values of ctx and ends with it;
// whoever wants a cancelled ctx to count as a cancel with a reason calls [Run.Cancel] and hands
// in a context without cancel. It answers [ErrConflict] while a run of that id is active or
// remembered.
func (g *Registry) Claim(ctx context.Context, id ID) (*Run, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sweep()
	if _, ok := g.claimed[id]; ok {
		return nil, ErrConflict
	}
	if _, ok := g.ended[id]; ok {
		return nil, ErrConflict
	}
	r := &Run{registry: g, id: id, state: wire.StateRunning}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	g.claimed[id] = r
	return r, nil
}

// Cancel asks the run to end. The first reason wins and stays. It answers with what a caller of
// the cancel endpoint is told: the reason from the second time on. [ErrEnded] comes with the
// state of a run that completed or failed before; [ErrNotFound] is an id that is unknown or
// forgotten.
func (g *Registry) Cancel(id ID, reason wire.Reason) (wire.CancelAnswer, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sweep()
	answer := wire.CancelAnswer{RunID: id.String()}
	if r, ok := g.claimed[id]; ok {
		answer.State, answer.Reason = wire.StateCancelling, r.reason
		r.cancelLocked(reason)
		return answer, nil
	}
	end, ok := g.ended[id]
	if !ok {
		return answer, ErrNotFound
	}
	answer.State, answer.Reason = states[end.state], reasons[end.reason]
	if answer.State != wire.StateCancelled {
		return answer, ErrEnded
	}
	return answer, nil
}

// Active tells how many runs are in progress.
func (g *Registry) Active() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.active
}

// Draining tells whether Drain was called.
func (g *Registry) Draining() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.draining
}

// Drain refuses new runs from now on and waits for those in progress. When ctx ends first they
// are cancelled with reason shutdown, and get DrainGrace to end. An error says that some did not.
func (g *Registry) Drain(ctx context.Context) error {
	g.mu.Lock()
	g.draining = true
	if g.idle == nil {
		g.idle = make(chan struct{})
		if g.active == 0 {
			close(g.idle)
		}
	}
	idle := g.idle
	g.mu.Unlock()

	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	for _, r := range g.claimed {
		r.cancelLocked(wire.ReasonShutdown)
	}
	g.mu.Unlock()

	grace := time.NewTimer(g.cfg.DrainGrace)
	defer grace.Stop()
	select {
	case <-idle:
		return nil
	case <-grace.C:
		return errors.New("drain runs: some did not end after they were cancelled")
	}
}

// sweep forgets the ended runs whose time is over. The caller holds mu.
func (g *Registry) sweep() {
	now := time.Since(g.epoch)
	for g.head < len(g.queue) && g.queue[g.head].at <= now {
		delete(g.ended, g.queue[g.head].id)
		g.head++
	}
	// Moving the rest down once half is gone costs each entry one move.
	if g.head > len(g.queue)/2 {
		g.queue = append(g.queue[:0], g.queue[g.head:]...)
		g.head = 0
	}
	if g.head == len(g.queue) && cap(g.queue) > 1024 {
		g.queue, g.ended, g.head = nil, map[ID]outcome{}, 0
	}
}
