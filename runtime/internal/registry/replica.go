package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/run"
	"github.com/seed93082962/agenthost/runtime/wire"
)

const (
	// lease is the time after which the entry of an active run expires. Its owner renews it every
	// renewPeriod, and then also reads a cancel of which the notification was lost.
	lease       = 30 * time.Second
	renewPeriod = 5 * time.Second

	// callTimeout bounds one call of the bus, and notifyTimeout a notification.
	callTimeout   = 3 * time.Second
	notifyTimeout = time.Second

	// probePeriod is the time between two attempts to reach an unavailable bus.
	probePeriod = 200 * time.Millisecond

	// patience bounds how long the end of a run waits for an unavailable bus, counted from the last
	// time that it was available. A cancel that was stored before is found if the bus returns
	// within this time.
	patience = 5 * time.Second

	// attempts bounds the changes of an entry by other replicas while one replica changes it.
	attempts = 8

	// maxUnstored bounds the ends that wait for an unavailable bus. The further ones remain known
	// to this replica only.
	maxUnstored = 10_000

	// renewals is the number of entries that are renewed at the same time.
	renewals = 16
)

// replica is a registry's connection to its bus.
type replica struct {
	bus   run.Bus
	owner ids.ID // a new one for each registry, so that a restarted process owns nothing
	log   *slog.Logger

	life   context.Context // ends with close
	end    context.CancelFunc
	work   sync.WaitGroup
	silent func() // ends the notifications

	mu    sync.Mutex // guards the fields below
	lost  time.Time  // since when the bus is unavailable; zero if it is available
	found chan struct{}
	wake  chan struct{} // the bus was lost: begin to probe it
}

// connect connects the registry to its bus.
func (g *Registry) connect() {
	p := &replica{bus: g.cfg.Bus, owner: ids.Random(), log: g.cfg.Logger, wake: make(chan struct{}, 1)}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}

	p.life, p.end = context.WithCancel(context.Background())
	g.replica = p
	p.silent = p.bus.Listen(p.owner, g.notified)
	p.work.Go(func() { p.maintain(g) })
}

func (p *replica) close() {
	p.silent()
	p.end()
	p.work.Wait()
}

// call calls a method of the bus, unless the bus is known to be unavailable or the replica is
// closed. It returns an error that wraps ErrUnavailable for every failure other than ErrChanged.
func (p *replica) call(method func(ctx context.Context) error) error {
	if !p.available() {
		return run.ErrUnavailable
	}

	ctx, cancel := context.WithTimeout(p.life, callTimeout)
	defer cancel()
	if ctx.Err() != nil {
		return run.ErrUnavailable
	}

	err := method(ctx)
	if err == nil || errors.Is(err, run.ErrChanged) {
		return err
	}

	if p.life.Err() == nil && !errors.Is(err, run.ErrMalformed) { // the other entries are available
		p.lose(err)
	}

	return fmt.Errorf("%w: %w", run.ErrUnavailable, err)
}

func (p *replica) get(id ids.ID) (run.Claim, error) {
	var e run.Claim
	err := p.call(func(ctx context.Context) (err error) {
		e, err = p.bus.Get(ctx, id)
		return err
	})
	return e, err
}

func (p *replica) put(id ids.ID, e run.Claim, ttl time.Duration) (uint64, error) {
	var revision uint64
	err := p.call(func(ctx context.Context) (err error) {
		revision, err = p.bus.Put(ctx, id, e, ttl)
		return err
	})
	return revision, err
}

// notify sends a notification, which may be lost: the owner renews its entries.
func (p *replica) notify(owner, id ids.ID) {
	ctx, cancel := context.WithTimeout(p.life, notifyTimeout)
	defer cancel()
	if err := p.bus.Notify(ctx, owner, id); err != nil {
		p.log.Debug("notify the owner of a run", "run_id", id.String(), "err", err)
	}
}

func (p *replica) available() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost.IsZero()
}

// lose records that the bus is unavailable.
func (p *replica) lose(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.lost.IsZero() {
		return
	}

	p.lost, p.found = time.Now(), make(chan struct{})
	p.wake <- struct{}{} // maintain has taken the one of the previous loss
	p.log.Warn("the bus is unavailable: runs of other replicas cannot be cancelled here", "err", err)
}

// await waits until the bus is available, for at most patience since it was lost.
func (p *replica) await() bool {
	if p.life.Err() != nil {
		return false
	}

	p.mu.Lock()
	lost, found := p.lost, p.found
	p.mu.Unlock()
	if lost.IsZero() {
		return true
	}

	limit := time.NewTimer(time.Until(lost.Add(patience)))
	defer limit.Stop()
	select {
	case <-found:
		return true
	case <-limit.C:
	case <-p.life.Done():
	}

	return false
}

// maintain renews the entries, and probes an unavailable bus.
func (p *replica) maintain(g *Registry) {
	renew := time.NewTicker(renewPeriod)
	defer renew.Stop()
	for {
		select {
		case <-p.life.Done():
			return
		case <-renew.C:
		case <-p.wake:
			if !p.probe() {
				return
			}
		}

		g.renew()
	}
}

// probe returns when the bus is available, or false after close.
func (p *replica) probe() bool {
	retry := time.NewTicker(probePeriod)
	defer retry.Stop()
	for {
		ctx, cancel := context.WithTimeout(p.life, callTimeout)
		err := p.try(ctx)
		cancel()
		if err == nil {
			p.mu.Lock()
			p.log.Info("the bus is available again", "duration_ms", time.Since(p.lost).Milliseconds())
			p.lost = time.Time{}
			close(p.found)
			p.mu.Unlock()
			return true
		}

		select {
		case <-p.life.Done():
			return false
		case <-retry.C:
		}
	}
}

// try reads and writes an entry under an id that no run has. A bus that fails with ErrChanged is
// not available yet: the leader of a cluster without a majority compares with a write of an earlier
// attempt that it cannot commit. If that write was committed, the next attempt reads it.
func (p *replica) try(ctx context.Context) error {
	e, err := p.bus.Get(ctx, p.owner)
	if err != nil {
		return err
	}

	_, err = p.bus.Put(ctx, p.owner, run.Claim{Owner: p.owner, Revision: e.Revision}, probePeriod)
	return err
}

// notified reads the entry of an own run that another replica has changed.
func (g *Registry) notified(id ids.ID) {
	g.mu.Lock()
	r := g.claimed[id]
	g.mu.Unlock()
	if r != nil {
		r.readEntry()
	}
}

// renew stores the entries of the own runs again, and those that could not be stored before.
func (g *Registry) renew() {
	g.mu.Lock()
	runs := slices.Collect(maps.Values(g.claimed))
	runs = slices.AppendSeq(runs, maps.Values(g.unstored))
	g.mu.Unlock()

	var all sync.WaitGroup
	slots := make(chan struct{}, renewals)
	for _, r := range runs {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if r.renewEntry() {
				g.mu.Lock()
				defer g.mu.Unlock()
				delete(g.unstored, r.id)
			}
		})
	}

	all.Wait()
}

// cancelElsewhere cancels a run of another replica, or returns the end of one.
func (g *Registry) cancelElsewhere(id ids.ID, reason wire.Reason) (wire.CancelResponse, error) {
	response := wire.CancelResponse{RunID: id.String()}
	for range attempts {
		e, err := g.replica.get(id)
		if err != nil {
			return response, err
		}

		response.State, response.Reason = e.State, e.Reason
		switch {
		case e.Revision == 0:
			return response, ErrNotFound
		case e.State == wire.StateCancelling: // the notification of the first cancel may be lost
			g.replica.notify(e.Owner, id)
			return response, nil
		case e.State == wire.StateCancelled:
			return response, nil
		case e.State != "":
			return response, ErrEnded
		}

		e.State, e.Reason = wire.StateCancelling, reason
		if _, err = g.replica.put(id, e, lease); err == nil {
			g.replica.notify(e.Owner, id)
			response.State = wire.StateCancelling
			return response, nil
		}

		if !errors.Is(err, run.ErrChanged) {
			return response, err
		}
	}

	return response, fmt.Errorf("%w: the entry of the run changes all the time", run.ErrUnavailable)
}
