package gateway

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/seed93082962/agenthost/hub/wire"
)

var errShutdown = &wire.Error{Code: wire.Unavailable, Message: "The hub shuts down: try again."}

// runs has the runs at /runtime in progress.
type runs struct {
	mu     sync.Mutex // guards the fields below
	closed bool
	open   map[*directRun]bool
}

// enter adds a run that begins. The caller must call leave.
func (r *runs) enter(run *directRun) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errShutdown
	}

	r.open[run] = true
	return nil
}

// leave removes a run that is counted.
func (r *runs) leave(run *directRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, run)
	close(run.counted)
}

// close rejects further runs, and returns those in progress.
func (r *runs) close() []*directRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return slices.Collect(maps.Keys(r.open))
}

// Reject rejects further runs at /runtime, for example while the hub drains.
func (s *Service) Reject() { s.runs.close() }

// Shutdown cancels the runs at /runtime in progress, and waits until they are counted or ctx ends.
// Further runs are rejected.
func (s *Service) Shutdown(ctx context.Context) {
	var cancels sync.WaitGroup
	defer cancels.Wait() // each ends within seconds, or with its run
	all := s.runs.close()
	for _, run := range all {
		cancels.Go(func() { run.cancel(errShutdown) })
	}

	for _, run := range all {
		select {
		case <-run.counted:
		case <-ctx.Done():
			return
		}
	}
}
