// Package run has the registry of the runs of a runtime: the active ones, which can be cancelled,
// and for some time the states of ended ones.
//
// A run is claimed under its id, started, and finished:
//
//	r, err := registry.Claim(ctx, id)      // ErrConflict: the id is in use, or was until recently
//	defer r.Release()                      // removes the run if it was not started
//	if err := r.Start(); err != nil { }    // ErrTooMany, ErrDraining
//	execute(r.Context())                   // is done when the run is cancelled
//	state := r.Finish(wire.StateCompleted) // cancelled, if the run was cancelled
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

// Errors of a registry.
var (
	ErrConflict = errors.New("run id is in use")
	ErrTooMany  = errors.New("too many runs")
	ErrDraining = errors.New("registry is draining")
	ErrNotFound = errors.New("run not found")
	ErrEnded    = errors.New("run has ended") // completed or failed: it cannot be cancelled
)

// The causes with which the context of a run is cancelled: see [context.Cause].
var (
	ErrClientRequest = errors.New("run cancelled by request")
	ErrDisconnect    = errors.New("run cancelled: the client disconnected")
	ErrShutdown      = errors.New("run cancelled: the runtime shuts down")
)

// cause returns the sentinel of a reason.
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

// Config configures a [Registry]. The zero value is valid.
type Config struct {
	// MaxActive limits the number of active runs. Defaults to 1000.
	MaxActive int
	// TerminalTTL is the time that the state of an ended run is stored. Defaults to 5 minutes.
	TerminalTTL time.Duration
	// DrainGrace is the time that Drain waits for the runs that it cancels. Defaults to 10 s.
	DrainGrace time.Duration
}

// Registry is the set of runs. It needs no goroutine: ended runs expire when the next run is
// claimed, finished or cancelled.
type Registry struct {
	cfg   Config
	epoch time.Time

	mu       sync.Mutex // guards the fields below and the state of every run
	claimed  map[ID]*Run
	series   series
	active   int // number of runs that were started and not finished
	draining bool
	idle     chan struct{} // created by Drain, closed when active is 0

	// Ended runs, and the order in which they expire. They contain no pointers: the garbage
	// collector does not scan a million of them.
	ended map[ID]outcome
	queue []expiry
	head  int
}

type outcome struct{ state, reason uint8 }

type expiry struct {
	id ID
	at time.Duration // since epoch; a time.Time would contain a pointer
}

// New returns a registry.
func New(cfg Config) *Registry {
	cfg.MaxActive = cmp.Or(cfg.MaxActive, 1000)
	cfg.TerminalTTL = cmp.Or(cfg.TerminalTTL, 5*time.Minute)
	cfg.DrainGrace = cmp.Or(cfg.DrainGrace, 10*time.Second)
	return &Registry{cfg: cfg, epoch: time.Now(), claimed: map[ID]*Run{}, ended: map[ID]outcome{}}
}

// Claim reserves the id for a run. The context of the run is derived from ctx. To cancel the run
// with a reason when ctx ends, pass context.WithoutCancel(ctx) and call [Run.Cancel]. Claim returns
// [ErrConflict] if a run with that id is active or its state is still stored.
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

// Cancel cancels the run with that id. The first reason wins. It returns the response of the cancel
// endpoint, which has the reason if the run was already cancelled. For a completed or failed run it
// returns [ErrEnded] and the state, for an unknown id [ErrNotFound].
func (g *Registry) Cancel(id ID, reason wire.Reason) (wire.CancelResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sweep()
	response := wire.CancelResponse{RunID: id.String()}
	if r, ok := g.claimed[id]; ok {
		response.State, response.Reason = wire.StateCancelling, r.reason
		r.cancelLocked(reason)
		return response, nil
	}
	end, ok := g.ended[id]
	if !ok {
		return response, ErrNotFound
	}
	response.State, response.Reason = states[end.state], reasons[end.reason]
	if response.State != wire.StateCancelled {
		return response, ErrEnded
	}
	return response, nil
}

// Active returns the number of active runs.
func (g *Registry) Active() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.active
}

// Draining reports whether Drain was called.
func (g *Registry) Draining() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.draining
}

// Drain rejects new runs and waits for the active ones. When ctx ends, it cancels them with reason
// shutdown and waits at most DrainGrace more. It returns an error if a run is still active then.
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
		return errors.New("drain runs: some runs did not end after the cancel")
	}
}

// sweep removes the ended runs that have expired. The caller holds mu.
func (g *Registry) sweep() {
	now := time.Since(g.epoch)
	for g.head < len(g.queue) && g.queue[g.head].at <= now {
		delete(g.ended, g.queue[g.head].id)
		g.head++
	}
	// The queue is compacted when half of it has expired, so that each entry moves once on average.
	if g.head > len(g.queue)/2 {
		g.queue = append(g.queue[:0], g.queue[g.head:]...)
		g.head = 0
	}
	if g.head == len(g.queue) && cap(g.queue) > 1024 {
		g.queue, g.ended, g.head = nil, map[ID]outcome{}, 0
	}
}
