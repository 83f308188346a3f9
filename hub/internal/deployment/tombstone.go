package deployment

import (
	"context"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"
)

// buriedFor is how long a hub may be frozen whose last call of the driver creates a part of a
// deployment again that was deleted. Then that part is only stopped.
const buriedFor = 24 * time.Hour

// bury deletes what the platform has of deployments that were deleted: found was listed before the
// rows were read, of which known are those of all deployments. It stops the runtimes that the
// database does not know. Their data remains, because another backup may know them.
func (r *reconciler) bury(ctx context.Context, found []deploy.Ref, known map[deploy.Ref]bool) error {
	deleted, err := readTombstones(ctx, r.s.store.Read())
	if err != nil {
		return err
	}

	for _, t := range deleted {
		ref := r.s.ref(t.Key, t.UID)
		if i := slices.Index(found, ref); i >= 0 {
			found = slices.Delete(found, i, i+1)
			if err := r.s.driver.Delete(ctx, ref); err != nil {
				r.s.store.Logger.Warn("delete rest of a deployment", "deployment", t.Key, "err", err)
			}

			continue
		}

		if age := r.s.store.Now().Sub(t.DeletedAt); age >= buriedFor {
			if err := deleteTombstone(ctx, r.s.store.DB.Write(), t); err != nil {
				return err
			}
		}
	}

	for _, ref := range found {
		if !known[ref] {
			r.stopUnknown(ctx, ref)
		}
	}

	return nil
}

// stopUnknown stops the runtimes of a deployment that has no row.
func (r *reconciler) stopUnknown(ctx context.Context, ref deploy.Ref) {
	obs, err := r.s.driver.Observe(ctx, ref)
	if err != nil || !slices.ContainsFunc(obs.Runtimes, mayRun) {
		return
	}

	r.s.store.Logger.Warn("runtimes that the database does not know are stopped: was it restored from a backup?", "deployment", ref.Key)
	for _, one := range obs.Runtimes {
		if err := r.s.driver.Stop(ctx, ref, one.Revision, 0); err != nil {
			r.s.store.Logger.Warn("stop unknown runtime", "deployment", ref.Key, "err", err)
		}
	}
}
