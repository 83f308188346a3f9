package deploy

import (
	"context"
	"database/sql"
	"errors"
	"slices"
)

// A database that was restored from a backup is older than the platform. Its fences are too low, and
// runtimes run that it does not know.

// conditionRestored reports that the deployment was changed after the backup was made.
const conditionRestored = "restored"

const restoredMessage = "The platform knows a later state of this deployment than the database, which was restored from a backup or has lost " +
	"changes. The hub controls the deployment again, with the configuration in the database."

// restore takes a higher fence than the one the platform knows, if this hub has the lease in the
// database. The next worker applies the request of the database.
func (w *worker) restore(ctx context.Context, d deployment, known int64) error {
	obs, err := w.s.cfg.Driver.Observe(ctx, d.Key)
	if err != nil {
		return err
	}
	v := d.view
	v.Conditions = slices.Clone(v.Conditions)
	w.condition(&v, conditionRestored, true, restoredMessage)
	d.Conditions = v.Conditions
	err = w.s.db.Tx(ctx, func(tx *sql.Tx) error {
		fence, err := raiseFence(ctx, tx, known)
		if err != nil {
			return err
		}
		return restoreLease(ctx, tx, d, fence, max(d.Revision, obs.Revision)+1)
	})
	if err != nil {
		return err
	}
	w.s.cfg.Logger.Warn("the platform knows a later state of a deployment than the database: was it restored from a backup?",
		"deployment", d.Key, "fence", known)
	return errLost // the next worker has the new fence
}

// stopUnknown stops the runtimes that no row knows. Their data remains, because another backup may
// know them. keys were listed before the rows were read.
func (r *reconciler) stopUnknown(ctx context.Context, keys []string, rows map[string]bool) error {
	for _, key := range keys {
		if rows[key] {
			continue
		}
		obs, err := r.s.cfg.Driver.Observe(ctx, key)
		if err != nil || obs.Phase != Running && obs.Phase != Stopping {
			continue
		}
		if obs.Phase == Running {
			r.s.cfg.Logger.Warn("a runtime that the database does not know is stopped: was it restored from a backup?", "deployment", key)
		}
		if err := r.stopOne(ctx, key, 0); err != nil {
			return err
		}
	}
	return nil
}

// stopOne stops a runtime with a fence that is higher than known, unless there is a row by now,
// whose fence is higher than this one.
func (r *reconciler) stopOne(ctx context.Context, key string, known int64) error {
	claim, exists := Claim{Key: key, Owner: r.owner}, false
	err := r.s.db.Tx(ctx, func(tx *sql.Tx) (err error) {
		if claim.Fence, err = raiseFence(ctx, tx, known); err != nil {
			return err
		}
		exists, err = hasKey(ctx, tx, key)
		return err
	})
	if err != nil || exists {
		return err
	}
	err = r.s.cfg.Driver.Stop(ctx, claim)
	if fenced, ok := errors.AsType[*FencedError](err); ok && known == 0 {
		return r.stopOne(ctx, key, fenced.Fence)
	}
	if err != nil {
		r.s.cfg.Logger.Warn("stop unknown runtime", "deployment", key, "err", err)
	}
	return nil
}
