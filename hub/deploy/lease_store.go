package deploy

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/seed93082962/agenthost/hub/db"
)

// The statements of this file serve the reconciler, which handles the deployments of all tenants.
// Those that change a row name the lease, and have no effect without it.

// held is the part of a row that a reconciler polls.
type held struct {
	Key     string
	Edition int64
	indexed bool // it has the digest of its key
	lease
}

// readLeases returns the leases of all deployments.
func readLeases(ctx context.Context, q db.Querier) ([]held, error) {
	return db.Collect(ctx, q, "read leases", func(row db.Scanner) (h held, err error) {
		return h, row.Scan(&h.Key, &h.Edition, &h.indexed, &h.Holder, &h.Fence, &h.Beat)
	}, `SELECT key, edition, key_digest IS NOT NULL, lease_holder, lease_fence, lease_beat FROM deployments`)
}

// nextFence returns a fence that is higher than all others.
func nextFence(ctx context.Context, tx *sql.Tx) (fence int64, err error) {
	err = tx.QueryRowContext(ctx, `UPDATE deployment_fence SET value = value + 1 RETURNING value`).Scan(&fence)
	return fence, db.Wrap("increment fence", err)
}

// readOwner returns the identifier of the database on a platform.
func readOwner(ctx context.Context, q db.Querier) (owner string, err error) {
	return owner, db.Wrap("read owner of deployments", q.QueryRowContext(ctx, `SELECT owner FROM deployment_fence`).Scan(&owner))
}

// raiseFence makes the next fence higher than one that a platform knows, and returns it.
func raiseFence(ctx context.Context, tx *sql.Tx, known int64) (fence int64, err error) {
	err = tx.QueryRowContext(ctx, `UPDATE deployment_fence SET value = CASE WHEN value < $1 THEN $1 ELSE value END + 1 RETURNING value`, known).Scan(&fence)
	return fence, db.Wrap("raise fence", err)
}

// restoreLease gives the holder of a lease a new fence, and the deployment a revision that no
// runtime has. It fails with errLost if the lease was taken.
func restoreLease(ctx context.Context, tx *sql.Tx, d deployment, fence, revision int64) error {
	conditions, err := json.Marshal(d.Conditions)
	if err != nil {
		return db.Wrap("encode conditions", err)
	}
	n, err := db.Affected(ctx, tx, "restore lease", `UPDATE deployments SET lease_fence = $1, revision = $2, conditions = $3, edition = edition + 1
		WHERE key = $4 AND lease_holder = $5 AND lease_fence = $6`, fence, revision, string(conditions), d.Key, d.Holder, d.Fence)
	if err == nil && n == 0 {
		return errLost
	}
	return err
}

// hasKey reports whether a deployment has the key.
func hasKey(ctx context.Context, tx *sql.Tx, key string) (has bool, err error) {
	err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM deployments WHERE key = $1)`, key).Scan(&has)
	return has, db.Wrap("read deployment", err)
}

// takeLease makes holder the holder of a lease that has not changed since h was read. It reports
// whether it was unchanged.
func takeLease(ctx context.Context, tx *sql.Tx, h held, holder string, fence int64) (bool, error) {
	n, err := db.Affected(ctx, tx, "take lease", `UPDATE deployments SET lease_holder = $1, lease_fence = $2, lease_beat = lease_beat + 1
		WHERE key = $3 AND lease_holder = $4 AND lease_fence = $5 AND lease_beat = $6`, holder, fence, h.Key, h.Holder, h.Fence, h.Beat)
	return n == 1, err
}

// renewLeases renews all leases of a holder, and returns them.
func renewLeases(ctx context.Context, q db.Querier, holder string) ([]held, error) {
	return db.Collect(ctx, q, "renew leases", func(row db.Scanner) (h held, err error) {
		return h, row.Scan(&h.Key, &h.Edition, &h.Holder, &h.Fence, &h.Beat)
	}, `UPDATE deployments SET lease_beat = lease_beat + 1 WHERE lease_holder = $1 RETURNING key, edition, lease_holder, lease_fence, lease_beat`, holder)
}

// returnLeases ends all leases of a holder, so that another hub takes them without delay.
func returnLeases(ctx context.Context, q db.Querier, holder string) error {
	_, err := db.Affected(ctx, q, "return leases", `UPDATE deployments SET lease_holder = '' WHERE lease_holder = $1`, holder)
	return err
}

// readHeld returns a deployment if the lease is that of l, and errLost if not.
func readHeld(ctx context.Context, q db.Querier, key string, l lease) (deployment, error) {
	d, err := scanDeployment(q.QueryRowContext(ctx, `SELECT `+columns+` FROM deployments
		WHERE key = $1 AND lease_holder = $2 AND lease_fence = $3`, key, l.Holder, l.Fence))
	if errors.Is(err, sql.ErrNoRows) {
		return d, errLost
	}
	return d, db.Wrap("read deployment", err)
}

// saveView stores what the holder of the lease observed, unless a user changed the deployment since
// it was read. It reports whether it was stored.
func saveView(ctx context.Context, q db.Querier, d deployment, v view) (bool, error) {
	conditions, err := json.Marshal(append([]condition{}, v.Conditions...))
	if err != nil {
		return false, db.Wrap("encode conditions", err)
	}
	n, err := db.Affected(ctx, q, "save deployment", `UPDATE deployments SET state = $1, health = $2, runtime_url = $3, conditions = $4, error = $5,
			restart_count = $6, failures = $7, retry_at = $8, counted = $9, started_at = $10
		WHERE key = $11 AND lease_holder = $12 AND lease_fence = $13 AND edition = $14`,
		v.State, v.Health, v.RuntimeURL, string(conditions), v.Error,
		v.RestartCount, v.Failures, db.NullMicros(v.RetryAt), db.NullMicros(v.Counted), db.NullMicros(v.StartedAt),
		d.Key, d.Holder, d.Fence, d.Edition)
	return n == 1, err
}

// deleteHeld deletes a row whose deployment is gone, unless a user changed it since it was read.
func deleteHeld(ctx context.Context, q db.Querier, d deployment) error {
	_, err := db.Affected(ctx, q, "delete deployment", `DELETE FROM deployments
		WHERE key = $1 AND lease_holder = $2 AND lease_fence = $3 AND edition = $4`, d.Key, d.Holder, d.Fence, d.Edition)
	return err
}

// endPurge records that the former deployment of the key is gone.
func endPurge(ctx context.Context, q db.Querier, d deployment) error {
	_, err := db.Affected(ctx, q, "end purge", `UPDATE deployments SET purge = FALSE, restart_count = 0, started_at = NULL, counted = NULL, runtime_url = ''
		WHERE key = $1 AND lease_holder = $2 AND lease_fence = $3 AND edition = $4`, d.Key, d.Holder, d.Fence, d.Edition)
	return err
}
