// Package registry has the runs of a runtime: the active ones, which can be cancelled, and for some
// time the states of ended ones.
//
// A run is claimed under its id, started, and finished:
//
//	r, err := runs.Claim(ctx, id)           // ErrConflict: the id is in use, or was until recently
//	defer r.Release()                       // removes the run if it was not started
//	if err := r.Start(); err != nil {}      // ErrTooMany, ErrDraining
//	err = execute(r.Context())              // is done when the run is cancelled
//	state, reason := r.Finish(err, persist) // cancelled, if the run was
//
// Registries with one [run.Bus] are those of replicas: an id is in use if it is at any of them,
// each of them cancels the runs of all, and has the states of their ended ones.
package registry

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/run"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// Errors of a registry.
var (
	ErrConflict = errors.New("run id is in use")
	ErrTooMany  = errors.New("too many runs")
	ErrDraining = errors.New("registry is draining")
	ErrNotFound = errors.New("run not found")
	ErrEnded    = errors.New("run has ended") // completed or failed: it cannot be cancelled
)

// Config configures a [Registry]. The zero value is valid.
type Config struct {
	// MaxActive limits the number of active runs. Defaults to 1000.
	MaxActive int
	// TerminalTTL is the time that the state of an ended run is stored. Defaults to 5 minutes.
	TerminalTTL time.Duration
	// DrainGrace is the time that Drain waits for the runs that it cancels. Defaults to 10 s.
	DrainGrace time.Duration
	// Bus connects the registry to those of the other replicas. Defaults to none.
	Bus run.Bus
	// Logger defaults to one that discards all records.
	Logger *slog.Logger
}

// Registry is the set of runs. Without a bus it needs no goroutine: ended runs are removed when
// later ones end.
type Registry struct {
	cfg     Config
	replica *replica // nil without a bus

	mu       sync.Mutex // guards the fields below and those of every run
	claimed  map[ids.ID]*Run
	active   int // number of runs that were started and not finished
	draining bool
	idle     chan struct{} // created by Drain, closed when active is 0

	// Ended runs. When recent is older than TerminalTTL, it replaces older, all of which has
	// expired by then.
	recent, older map[ids.ID]end
	since         time.Time // when recent was created

	// unstored has the ended runs whose state could not be stored on the bus yet.
	unstored map[ids.ID]*Run
}

// end is the end of a run.
type end struct {
	state  wire.State
	reason wire.Reason
	at     time.Time
}

// New returns a registry. With a bus, the caller must call Close.
func New(cfg Config) *Registry {
	cfg.MaxActive = cmp.Or(cfg.MaxActive, 1000)
	cfg.TerminalTTL = cmp.Or(cfg.TerminalTTL, 5*time.Minute)
	cfg.DrainGrace = cmp.Or(cfg.DrainGrace, 10*time.Second)
	g := &Registry{cfg: cfg, claimed: map[ids.ID]*Run{}, recent: map[ids.ID]end{}, since: time.Now(), unstored: map[ids.ID]*Run{}}
	if cfg.Bus != nil {
		g.connect()
	}

	return g
}

// Close disconnects the registry from its bus, which remains open. The runs continue.
func (g *Registry) Close() {
	if g.replica != nil {
		g.replica.close()
	}
}

// Available reports whether the bus can be reached, if there is one.
func (g *Registry) Available() bool { return g.replica == nil || g.replica.available() }

// Claim reserves the id for a run, whose context has the values of ctx. The end of ctx cancels the
// run with reason disconnect. Claim returns [ErrConflict] if a run with that id is active or its
// state is still stored, at this replica or, if the bus is available, at another one.
func (g *Registry) Claim(ctx context.Context, id ids.ID) (*Run, error) {
	r, err := g.claim(ctx, id)
	if err != nil || g.replica == nil {
		return r, err
	}

	if err := r.createEntry(); err != nil {
		r.remove()
		return nil, err
	}

	return r, nil
}

// claim reserves the id at this replica.
func (g *Registry) claim(ctx context.Context, id ids.ID) (*Run, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, claimed := g.claimed[id]
	if _, ended := g.ended(id); claimed || ended {
		return nil, ErrConflict
	}

	r := &Run{registry: g, id: id}
	if g.replica != nil {
		r.entry = &ownClaim{}
		r.entry.mu.Lock() // until createEntry
	}

	r.ctx, r.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	r.unbind = context.AfterFunc(ctx, func() { r.Cancel(wire.ReasonDisconnect) })
	g.claimed[id] = r
	return r, nil
}

// Cancel cancels the run with that id. The first reason wins. It returns the response of the cancel
// endpoint, which has the reason if the run was already cancelled. For a completed or failed run it
// returns [ErrEnded] and the state, for an unknown id [ErrNotFound], and [run.ErrUnavailable] for
// an id that only other replicas could know while the bus is unavailable.
func (g *Registry) Cancel(id ids.ID, reason wire.Reason) (wire.CancelResponse, error) {
	response := wire.CancelResponse{RunID: id.String()}
	g.mu.Lock()
	r := g.claimed[id]
	if r != nil && r.awaitEnd() {
		r = g.claimed[id]
	}

	if r != nil && r.end.state == "" {
		response.State, response.Reason = wire.StateCancelling, r.reason()
		r.cancel(reason)
		g.mu.Unlock()
		if g.replica != nil {
			response.Reason = r.cancelEntry(response.Reason)
		}

		return response, nil
	}

	e, ok := g.ended(id)
	if r != nil {
		e, ok = r.end, true
	}

	if r != nil && e.state == wire.StateCancelled {
		e.state = wire.StateCancelling // a part of it is active
	}

	g.mu.Unlock()
	switch {
	case !ok && g.replica != nil:
		return g.cancelElsewhere(id, reason)
	case !ok:
		return response, ErrNotFound
	}

	response.State, response.Reason = e.state, e.reason
	if e.reason == "" {
		return response, ErrEnded
	}

	return response, nil
}

// Active reports whether the run with that id has started or is about to, and has not ended. It
// fails with [run.ErrUnavailable] for an id that only other replicas could know while the bus is
// unavailable.
func (g *Registry) Active(id ids.ID) (bool, error) {
	g.mu.Lock()
	r := g.claimed[id]
	_, ended := g.ended(id)
	active := r != nil && r.end.state == ""
	g.mu.Unlock()
	if active || ended || g.replica == nil {
		return active, nil
	}

	e, err := g.replica.get(id)
	return e.Revision != 0 && (e.State == "" || e.State == wire.StateCancelling), err
}

// ended returns the end of a run, unless it has expired. The caller holds mu.
func (g *Registry) ended(id ids.ID) (end, bool) {
	e, ok := g.recent[id]
	if !ok {
		e, ok = g.older[id]
	}

	return e, ok && time.Since(e.at) < g.cfg.TerminalTTL
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
		r.cancel(wire.ReasonShutdown)
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
