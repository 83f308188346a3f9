package deployment

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/internal/db"
)

// free is the condition of rows that a hub may take. A deployment of an older version that should
// run, and that upgrade could not open, remains: its runtime continues, and a hub with the key
// continues the deployment.
const free = store.Free + ` AND (desired <> 'running' OR key_digest IS NOT NULL AND serving IS NOT NULL)`

// held is the part of a row that a reconciler polls.
type held struct {
	Key     string
	UID     string
	Edition int64
	HubID   string
	current bool // it is not a row of an older version
	free    bool // a hub may take it
}

// readRows returns the rows of all deployments that a machine can have. A hub without one can have
// all.
func readRows(ctx context.Context, q db.Querier, machine string) ([]held, error) {
	return db.Collect(ctx, q, "read owners of deployments", func(row db.Scanner) (held, error) {
		var h held
		return h, row.Scan(&h.Key, &h.Edition, &h.HubID, &h.UID, &h.current, &h.free)
	}, `SELECT key, edition, hub_id, uid, key_digest IS NOT NULL AND serving IS NOT NULL, `+free+` FROM deployments
		WHERE machine IN ('', $1) OR $1 = ''`, machine)
}

// onAnotherMachine reports whether there are deployments that only another machine has.
func onAnotherMachine(ctx context.Context, q db.Querier, machine string) (bool, error) {
	return db.Value[bool](ctx, q, "read machines of deployments",
		`SELECT EXISTS (SELECT 1 FROM deployments WHERE machine NOT IN ('', $1) AND $1 <> '')`, machine)
}

// readOwner returns the identifier of the database on a platform.
func readOwner(ctx context.Context, q db.Querier) (string, error) {
	return db.Value[string](ctx, q, "read owner of deployments", `SELECT owner FROM deployment_owner`)
}

// takeFree makes a hub, on a machine, the one of all deployments that are free, and returns their
// keys.
func takeFree(ctx context.Context, q db.Querier, hubID, machine string) ([]string, error) {
	return db.Values[string](ctx, q, "take deployments", `UPDATE deployments SET hub_id = $1, machine = $2
		WHERE `+free+` AND (machine IN ('', $2) OR $2 = '') RETURNING key`, hubID, machine)
}

// leaveMachines makes the deployments of all machines those of the next hub that starts, and
// returns their keys.
func leaveMachines(ctx context.Context, q db.Querier) ([]string, error) {
	return db.Values[string](ctx, q, "adopt deployments", `UPDATE deployments SET machine = '' WHERE machine <> '' RETURNING key`)
}

// readHeld returns a deployment of a hub that is in the table of hubs, and otherwise errLost.
func readHeld(ctx context.Context, q db.Querier, key, hubID string) (deployment, error) {
	d, err := oneDeployment(q.QueryRowContext(ctx, `SELECT `+columns+` FROM deployments
		WHERE key = $1 AND hub_id = $2 AND NOT `+store.Free, key, hubID))
	if errors.Is(err, errNoDeployment) {
		return d, errLost
	}

	return d, err
}

// errChanged reports that a row is no longer the one that was read: a user has changed it, or
// another hub has taken it.
var errChanged = errors.New("the deployment was changed")

// own makes a change of rows that this hub has. It fails with store.ErrRemoved if this hub was
// removed.
func (w *worker) own(ctx context.Context, change func(*sql.Tx) error) error {
	return w.s.store.DB.Tx(ctx, func(tx *sql.Tx) error {
		if err := w.s.store.Own(ctx, tx); err != nil {
			return err
		}

		return change(tx)
	})
}

// changeHeld changes or deletes the row that was read. It fails with errChanged.
func changeHeld(ctx context.Context, q db.Querier, what, statement string, args ...any) error {
	n, err := db.Affected(ctx, q, what, statement, args...)
	if err == nil && n == 0 {
		return errChanged
	}

	return err
}

// saveHeld stores the next state of a row. It fails with errChanged.
func saveHeld(ctx context.Context, q db.Querier, next deployment) error {
	return changeHeld(ctx, q, "save deployment", `UPDATE deployments SET `+setRow+` WHERE key = $24 AND hub_id = $25 AND edition = $26`,
		append(next.values(), next.Key, next.HubID, next.Edition)...)
}

// repeatKeys lets the hub that controls a deployment set its keys again, as a change of a user:
// what that hub has read before is not stored.
func repeatKeys(ctx context.Context, q db.Querier, key string) error {
	return db.Exec(ctx, q, "repeat keys of deployment", `UPDATE deployments SET rotation = CASE WHEN rotation = '' THEN 'replaced' ELSE rotation END,
		edition = edition + 1 WHERE key = $1`, key)
}

// deleteHeld deletes a row whose deployment is gone. It fails with errChanged.
func deleteHeld(ctx context.Context, q db.Querier, d deployment) error {
	return changeHeld(ctx, q, "delete deployment", `DELETE FROM deployments WHERE key = $1 AND hub_id = $2 AND edition = $3`,
		d.Key, d.HubID, d.Edition)
}

// tombstone is a deployment that was deleted.
type tombstone struct {
	Key, UID  string
	DeletedAt time.Time
}

func insertTombstone(ctx context.Context, q db.Querier, d deployment, now time.Time) error {
	return db.Exec(ctx, q, "insert tombstone", `INSERT INTO deployment_tombstones (key, uid, deleted_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
		d.Key, d.UID, db.Micros(now))
}

func readTombstones(ctx context.Context, q db.Querier) ([]tombstone, error) {
	return db.Collect(ctx, q, "read tombstones", func(row db.Scanner) (tombstone, error) {
		var t tombstone
		var deleted int64
		err := row.Scan(&t.Key, &t.UID, &deleted)
		t.DeletedAt = db.Time(deleted)
		return t, err
	}, `SELECT key, uid, deleted_at FROM deployment_tombstones`)
}

func deleteTombstone(ctx context.Context, q db.Querier, t tombstone) error {
	return db.Exec(ctx, q, "delete tombstone", `DELETE FROM deployment_tombstones WHERE key = $1 AND uid = $2`, t.Key, t.UID)
}

// readUID returns the UID of the deployment with a key, or "".
func readUID(ctx context.Context, q db.Querier, key string) (string, error) {
	return textOf(ctx, q, `SELECT uid FROM deployments WHERE key = $1`, key)
}
