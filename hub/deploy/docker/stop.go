package docker

import (
	"context"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/seed93082962/agenthost/hub/deploy"
)

// Stop requests the runtime to end, and kills it after the patience and a few seconds.
func (d *Driver) Stop(ctx context.Context, ref deploy.Ref, number int64, patience time.Duration) error {
	return d.change(ctx, ref, func(ctx context.Context, f deployment) error {
		r, found := f.runtime(number)
		switch {
		case !found:
			return nil
		case r.alive():
			return d.terminate(ctx, r, patience)
		case r.Step == stepNone:
			_, err := d.enter(ctx, r, stepStop)
			return err
		}

		return nil
	})
}

// Discard stops the runtime of a revision, and then removes its container.
func (d *Driver) Discard(ctx context.Context, ref deploy.Ref, number int64) error {
	return d.change(ctx, ref, func(ctx context.Context, f deployment) error {
		r, found := f.runtime(number)
		switch {
		case !found:
			return nil
		case r.alive():
			return d.terminate(ctx, r, 0)
		}

		return d.remove(ctx, r.name.String())
	})
}

// Delete stops all runtimes, and then removes their containers, the volumes of the deployment, and
// the network of the tenant if no other deployment has it.
func (d *Driver) Delete(ctx context.Context, ref deploy.Ref) error {
	return d.change(ctx, ref, func(ctx context.Context, f deployment) error {
		running := false
		for _, r := range f.runtimes {
			if r.alive() {
				running = true
				if err := d.terminate(ctx, r, 0); err != nil {
					return err
				}
			}
		}

		if running {
			return nil
		}

		for _, r := range f.runtimes {
			if err := d.remove(ctx, r.name.String()); err != nil {
				return err
			}
		}

		if err := d.removeVolumes(ctx, f); err != nil {
			return err
		}

		for _, r := range f.runtimes {
			d.leave(ctx, r.labels[labelNetwork])
		}

		return nil
	})
}

// terminate makes one step to the end of a runtime. The first signal begins to drain it, the second
// one cancels its runs when the patience is over, and then it is killed.
func (d *Driver) terminate(ctx context.Context, r runtimeContainer, patience time.Duration) error {
	over := func(within time.Duration) bool { // a time in the future was stored before the clock was set back
		passed := time.Since(r.At)
		return passed >= within || passed < 0
	}
	switch {
	case r.Step == stepNone:
		return d.signal(ctx, r, stepStop)
	case r.Step == stepStop && over(max(patience, d.cfg.Grace*3/4)):
		return d.signal(ctx, r, stepCut)
	case r.Step == stepCut && over(d.cfg.Grace/4):
		return d.kill(ctx, r.name, "SIGKILL")
	}

	return nil
}

// signal records a step, and then sends its signal.
func (d *Driver) signal(ctx context.Context, r runtimeContainer, next step) error {
	n, err := d.enter(ctx, r, next)
	if err != nil {
		return err
	}

	return d.kill(ctx, n, "SIGTERM")
}

// enter records a step, and returns the new name of the container.
func (d *Driver) enter(ctx context.Context, r runtimeContainer, next step) (name, error) {
	n := r.name
	n.Step, n.At = next, time.Now()
	return n, d.rename(ctx, r.name, n)
}

func (d *Driver) kill(ctx context.Context, n name, signal string) error {
	_, err := d.engine.ContainerKill(ctx, n.String(), client.ContainerKillOptions{Signal: signal})
	if cerrdefs.IsConflict(err) { // it has ended
		return nil
	}

	return fault(ctx, "signal container", moved(err))
}
