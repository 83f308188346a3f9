package deployment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// servedByFormer reports whether the runtime of a deployment is on the platform from which the
// deployments move. It serves until the one on this platform is ready.
func (w *worker) servedByFormer(ctx context.Context, d deployment, obs deploy.Observed) bool {
	if w.s.cfg.Former == nil || d.Serving == 0 || d.RuntimeURL == "" || obs.Runtime(d.Serving).URL == d.RuntimeURL {
		return false
	}

	former, err := w.s.cfg.Former.Observe(ctx, w.ref)
	return err == nil && slices.ContainsFunc(former.Runtimes, func(r deploy.Runtime) bool {
		return r.Phase == deploy.Running && r.URL == d.RuntimeURL
	})
}

// stopFormer stops the runtimes on the platform from which the deployments have moved. One that
// serves continues. The runs of others may end, because clients wait for them.
func (r *reconciler) stopFormer(ctx context.Context, former deploy.Driver) error {
	refs, err := former.List(ctx, r.s.owner)
	if err != nil {
		return err
	}

	moved := map[string]time.Time{}
	var errs []error
	for _, ref := range refs {
		obs, err := former.Observe(ctx, ref)
		if err != nil {
			errs = append(errs, err)
			continue
		}

		url, err := servingURL(ctx, r.s.store.DB.Read(), ref.Key)
		if err != nil {
			return err
		}

		for _, one := range obs.Runtimes {
			if !mayRun(one) || one.URL == url && url != "" {
				continue
			}

			name := fmt.Sprint(ref, " ", one.Revision)
			since, known := r.moved[name]
			if !known {
				since = time.Now()
			}

			moved[name] = since
			if time.Since(since) >= formerKeyFor { // other hubs no longer send runs to it
				errs = append(errs, former.Stop(ctx, ref, one.Revision, agent.Limits{}.WithDefaults().RunTimeout))
			}
		}
	}

	r.moved = moved
	return errors.Join(errs...)
}
