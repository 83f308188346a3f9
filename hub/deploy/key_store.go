package deploy

import (
	"context"
	"database/sql"
	"errors"

	"github.com/seed93082962/agenthost/hub/db"
)

// anyone is the reader of a key that was issued before its readers were recorded.
const anyone = "*"

// updateKey stores the next key of a deployment, as a change of a user.
func updateKey(ctx context.Context, tx *sql.Tx, d deployment) error {
	_, err := db.Affected(ctx, tx, "update key of deployment", `UPDATE deployments SET sealed = $1, key_digest = $2, rotation = $3, edition = edition + 1
		WHERE tenant_id = $4 AND agent_name = $5`, d.Sealed, d.KeyDigest, d.Rotation, d.TenantID, d.AgentName)
	return err
}

// saveKeyHeld stores a step of a rotation for the holder of the lease, unless a user changed the
// deployment since it was read. It reports whether it was stored.
func saveKeyHeld(ctx context.Context, tx *sql.Tx, d deployment) (bool, error) {
	n, err := db.Affected(ctx, tx, "save key of deployment", `UPDATE deployments SET sealed = $1, key_digest = $2, rotation = $3, revision = $4
		WHERE key = $5 AND lease_holder = $6 AND lease_fence = $7 AND edition = $8`,
		d.Sealed, d.KeyDigest, d.Rotation, d.Revision, d.Key, d.Holder, d.Fence, d.Edition)
	return n == 1, err
}

func hasRead(ctx context.Context, q db.Querier, d deployment, userID string) (bool, error) {
	var found int
	err := q.QueryRowContext(ctx, `SELECT 1 FROM deployment_readers WHERE tenant_id = $1 AND key_digest = $2 AND user_id = $3`,
		d.TenantID, d.KeyDigest, userID).Scan(&found)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, db.Wrap("read readers of key", err)
}

// insertReader records that a user has read the key of a deployment, if it still has the key.
func insertReader(ctx context.Context, tx *sql.Tx, d deployment, userID string) error {
	_, err := db.Affected(ctx, tx, "insert reader of key", `INSERT INTO deployment_readers (tenant_id, key_digest, user_id)
		SELECT tenant_id, key_digest, $1 FROM deployments WHERE tenant_id = $2 AND key_digest = $3 ON CONFLICT DO NOTHING`,
		userID, d.TenantID, d.KeyDigest)
	return err
}

// readKeysOf returns the agents with a key that a user has read.
func readKeysOf(ctx context.Context, tx *sql.Tx, tenantID, userID string) ([]string, error) {
	return db.Collect(ctx, tx, "read keys of user", func(row db.Scanner) (name string, err error) { return name, row.Scan(&name) },
		`SELECT agent_name FROM deployments WHERE tenant_id = $1 AND desired <> 'absent' AND (key_digest IS NULL OR key_digest IN (
			SELECT key_digest FROM deployment_readers WHERE tenant_id = $1 AND (user_id = $2 OR user_id = '*'))) ORDER BY agent_name`, tenantID, userID)
}

func deleteReaders(ctx context.Context, q db.Querier, tenantID string, keyDigest []byte) error {
	_, err := db.Affected(ctx, q, "delete readers of key", `DELETE FROM deployment_readers WHERE tenant_id = $1 AND key_digest = $2`, tenantID, keyDigest)
	return err
}

// readUnindexed returns the rows without a digest, which it locks.
func readUnindexed(ctx context.Context, tx *sql.Tx) ([]deployment, error) {
	return db.Collect(ctx, tx, "read deployments without digest", func(row db.Scanner) (d deployment, err error) {
		return d, row.Scan(&d.Key, &d.TenantID, &d.Sealed)
	}, `UPDATE deployments SET key_digest = NULL WHERE key_digest IS NULL RETURNING key, tenant_id, sealed`)
}

func indexKey(ctx context.Context, tx *sql.Tx, d deployment) error {
	_, err := db.Affected(ctx, tx, "index key of deployment", `UPDATE deployments SET key_digest = $1 WHERE tenant_id = $2 AND key = $3`,
		d.KeyDigest, d.TenantID, d.Key)
	return err
}
