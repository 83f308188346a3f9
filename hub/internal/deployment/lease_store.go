package deployment

import (
	"context"
	"errors"

	"github.com/seed93082962/agenthost/internal/db"
)

type lease struct {
	Holder string
	Fence  int64
	Beat   int64
}

// held is the part of a row that a reconciler polls.
type held struct {
	Key     string
	Edition int64
	current bool // it is not a row of an older version
	wanted  bool // the deployment should run
	lease
}

// readLeases returns the leases of all deployments that a machine can have. A hub without one can
// have all.
func readLeases(ctx context.Context, q db.Querier, machine string) ([]held, error) {
	return db.Collect(ctx, q, "read leases", func(row db.Scanner) (h held, err error) {
		return h, row.Scan(&h.Key, &h.Edition, &h.current, &h.wanted, &h.Holder, &h.Fence, &h.Beat)
	}, `SELECT key, edition, key_digest IS NOT NULL AND serving IS NOT NULL, desired = 'running', lease_holder, lease_fence, lease_beat FROM deployments
		WHERE machine IN ('', $1) OR $1 = ''`, machine)
}

// onAnotherMachine reports whether there are deployments that only another machine has.
func onAnotherMachine(ctx context.Context, q db.Querier, machine string) (found bool, err error) {
	err = q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM deployments WHERE machine NOT IN ('', $1) AND $1 <> '')`, machine).Scan(&found)
	return found, db.Wrap("read machines of deployments", err)
}

// nextFence returns a fence that is higher than all others.
func nextFence(ctx context.Context, q db.Querier) (fence int64, err error) {
	err = q.QueryRowContext(ctx, `UPDATE deployment_fence SET value = value + 1 RETURNING value`).Scan(&fence)
	return fence, db.Wrap("increment fence", err)
}

// readOwner returns the identifier of the database on a platform.
func readOwner(ctx context.Context, q db.Querier) (owner string, err error) {
	return owner, db.Wrap("read owner of deployments", q.QueryRowContext(ctx, `SELECT owner FROM deployment_fence`).Scan(&owner))
}

// raiseFence makes the next fence higher than one that a platform knows, and returns it.
func raiseFence(ctx context.Context, q db.Querier, known int64) (fence int64, err error) {
	err = q.QueryRowContext(ctx, `UPDATE deployment_fence SET value = CASE WHEN value < $1 THEN $1 ELSE value END + 1 RETURNING value`, known).Scan(&fence)
	return fence, db.Wrap("raise fence", err)
}

// restoreLease gives the holder of a lease a new fence, and the deployment the revision and the
// view of d. It fails with errLost if the lease was taken.
func restoreLease(ctx context.Context, q db.Querier, d deployment, fence int64) error {
	n, err := db.Affected(ctx, q, "restore lease", `UPDATE deployments SET `+setView+`, lease_fence = $14, revision = $15, edition = edition + 1
		WHERE key = $16 AND lease_holder = $17 AND lease_fence = $18`, append(d.values(), fence, d.Revision, d.Key, d.Holder, d.Fence)...)
	if err == nil && n == 0 {
		return errLost
	}

	return err
}

// takeLease makes holder, on a machine, the holder of a lease that has not changed since h was
// read. It reports whether it was unchanged.
func takeLease(ctx context.Context, q db.Querier, h held, holder, machine string, fence int64) (bool, error) {
	n, err := db.Affected(ctx, q, "take lease", `UPDATE deployments SET lease_holder = $1, lease_fence = $2, machine = $3, lease_beat = lease_beat + 1
		WHERE key = $4 AND lease_holder = $5 AND lease_fence = $6 AND lease_beat = $7`, holder, fence, machine, h.Key, h.Holder, h.Fence, h.Beat)
	return n == 1, err
}

// leaveMachines makes the deployments of all machines those of the next hub that starts, and
// returns their keys.
func leaveMachines(ctx context.Context, q db.Querier) ([]string, error) {
	return db.Collect(ctx, q, "adopt deployments", func(row db.Scanner) (key string, err error) { return key, row.Scan(&key) },
		`UPDATE deployments SET machine = '' WHERE machine <> '' RETURNING key`)
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
	d, err := oneDeployment(q.QueryRowContext(ctx, `SELECT `+columns+` FROM deployments
		WHERE key = $1 AND lease_holder = $2 AND lease_fence = $3`, key, l.Holder, l.Fence))
	if errors.Is(err, errNoDeployment) {
		return d, errLost
	}

	return d, err
}

// saveView stores what the holder of the lease observed, unless a user changed the deployment since
// it was read. It reports whether it was stored.
func saveView(ctx context.Context, q db.Querier, d deployment, v view) (bool, error) {
	n, err := db.Affected(ctx, q, "save deployment", `UPDATE deployments SET `+setView+`
		WHERE key = $14 AND lease_holder = $15 AND lease_fence = $16 AND edition = $17`, append(v.values(), d.Key, d.Holder, d.Fence, d.Edition)...)
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

// beat renews one lease, and reports whether this hub has it.
func beat(ctx context.Context, q db.Querier, h held) (bool, error) {
	n, err := db.Affected(ctx, q, "renew lease", `UPDATE deployments SET lease_beat = lease_beat + 1
		WHERE key = $1 AND lease_holder = $2 AND lease_fence = $3`, h.Key, h.Holder, h.Fence)
	return n == 1, err
}
