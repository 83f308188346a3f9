package deployment

import (
	"context"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/wire"
)

// stopEvery is the pause between two calls that stop a runtime.
const stopEvery = 100 * time.Millisecond

// Running returns the deployments of this database whose runtimes a driver runs.
func (s *Service) Running(ctx context.Context, driver deploy.Driver) ([]deploy.Ref, error) {
	owner, err := readOwner(ctx, s.store.Read())
	if err != nil {
		return nil, err
	}

	refs, err := driver.List(ctx, owner)
	if err != nil {
		return nil, err
	}

	var running []deploy.Ref
	for _, ref := range refs {
		observed, err := driver.Observe(ctx, ref)
		if err != nil {
			return nil, err
		}

		if slices.ContainsFunc(observed.Runtimes, alive) {
			running = append(running, ref)
		}
	}

	return running, nil
}

// StopRuntimes stops the runtimes of all deployments of this database, and waits for their ends.
// The desired state remains: the next hub that starts has them run again. It returns the number of
// deployments, and fails with wire.Conflict while a hub serves the database.
func (s *Service) StopRuntimes(ctx context.Context, driver deploy.Driver) (int, error) {
	serving, err := s.store.Serving(ctx)
	if err == nil && serving {
		err = wire.Conflict.New("a hub serves this database and would start its agents again: stop it first")
	}

	if err != nil {
		return 0, err
	}

	tick := time.NewTicker(stopEvery)
	defer tick.Stop()
	stopped := 0
	for {
		running, err := s.Running(ctx, driver)
		if err != nil || len(running) == 0 {
			return stopped, err
		}

		stopped = max(stopped, len(running))
		for _, ref := range running {
			observed, err := driver.Observe(ctx, ref)
			if err != nil {
				return stopped, err
			}

			for _, r := range observed.Runtimes {
				if !alive(r) {
					continue
				}

				if err := driver.Stop(ctx, ref, r.Revision, 0); err != nil {
					return stopped, err
				}
			}
		}

		select {
		case <-ctx.Done():
			return stopped, context.Cause(ctx)
		case <-tick.C:
		}
	}
}
