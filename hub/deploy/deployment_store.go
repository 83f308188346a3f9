package deploy

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
)

// deployment is a row of the table. A zero time is NULL.
type deployment struct {
	Key        string
	TenantID   string
	AgentName  string
	Desired    string
	Edition    int64
	Revision   int64
	Purge      bool
	SpecHash   string
	Sealed     []byte
	KeyDigest  []byte // nil in a row of an older version
	Rotation   string
	LinkedAt   time.Time
	DeployedAt time.Time
	DeployedBy string

	view
	lease
}

// view is what the holder of the lease observed.
type view struct {
	State        string
	Health       string
	RuntimeURL   string
	Conditions   []condition
	Error        string
	RestartCount int
	Failures     int
	RetryAt      time.Time
	Counted      time.Time
	StartedAt    time.Time
}

// condition is the stored form of a Condition.
type condition struct {
	Type      string    `json:"type"`
	Status    bool      `json:"status"`
	Message   string    `json:"message,omitempty"`
	ChangedAt time.Time `json:"changedAt"`
}

type lease struct {
	Holder string
	Fence  int64
	Beat   int64
}

var errNoDeployment = errors.New("there is no deployment")

// columns are the columns that scanDeployment reads, in its order.
const columns = `key, tenant_id, agent_name, desired, edition, revision, purge, spec_hash, sealed, key_digest, rotation, linked_at, deployed_at, deployed_by,
	state, health, runtime_url, conditions, error, restart_count, failures, retry_at, counted, started_at,
	lease_holder, lease_fence, lease_beat`

func scanDeployment(row db.Scanner) (deployment, error) {
	var (
		d                       deployment
		linked, deployed        int64
		retry, counted, started sql.NullInt64
		conditions              string
	)
	err := row.Scan(&d.Key, &d.TenantID, &d.AgentName, &d.Desired, &d.Edition, &d.Revision, &d.Purge, &d.SpecHash, &d.Sealed, &d.KeyDigest, &d.Rotation, &linked, &deployed, &d.DeployedBy,
		&d.State, &d.Health, &d.RuntimeURL, &conditions, &d.Error, &d.RestartCount, &d.Failures, &retry, &counted, &started,
		&d.Holder, &d.Fence, &d.Beat)
	if err != nil {
		return d, err
	}
	d.LinkedAt, d.DeployedAt = db.Time(linked), db.Time(deployed)
	d.RetryAt, d.Counted, d.StartedAt = db.NullTime(retry), db.NullTime(counted), db.NullTime(started)
	return d, json.Unmarshal([]byte(conditions), &d.Conditions)
}

// readDeployment returns the deployment of an agent, or errNoDeployment.
func readDeployment(ctx context.Context, q db.Querier, tenantID, agentName string) (deployment, error) {
	d, err := scanDeployment(q.QueryRowContext(ctx,
		`SELECT `+columns+` FROM deployments WHERE tenant_id = $1 AND agent_name = $2`, tenantID, agentName))
	if errors.Is(err, sql.ErrNoRows) {
		return d, errNoDeployment
	}
	return d, db.Wrap("read deployment", err)
}

// findDeployment returns the deployment with the API key, or errNoDeployment.
func findDeployment(ctx context.Context, q db.Querier, keyDigest []byte) (deployment, error) {
	d, err := scanDeployment(q.QueryRowContext(ctx, `SELECT `+columns+` FROM deployments WHERE key_digest = $1`, keyDigest))
	if errors.Is(err, sql.ErrNoRows) {
		return d, errNoDeployment
	}
	return d, db.Wrap("read deployment", err)
}

// lockDeployment is readDeployment for a transaction that changes the row: others wait for it.
func lockDeployment(ctx context.Context, tx *sql.Tx, tenantID, agentName string) (deployment, error) {
	d, err := scanDeployment(tx.QueryRowContext(ctx,
		`UPDATE deployments SET edition = edition WHERE tenant_id = $1 AND agent_name = $2 RETURNING `+columns, tenantID, agentName))
	if errors.Is(err, sql.ErrNoRows) {
		return d, errNoDeployment
	}
	return d, db.Wrap("lock deployment", err)
}

// insertDeployment fails with api.DeploymentKeyTaken if another agent has the key, and with
// errRepeat if a concurrent call created the deployment.
func insertDeployment(ctx context.Context, tx *sql.Tx, d deployment) error {
	n, err := db.Affected(ctx, tx, "insert deployment", `INSERT INTO deployments
			(key, tenant_id, agent_name, desired, edition, revision, purge, spec_hash, sealed, linked_at, deployed_at, deployed_by, state, lease_holder, lease_fence, key_digest)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) ON CONFLICT DO NOTHING`,
		d.Key, d.TenantID, d.AgentName, d.Desired, d.Edition, d.Revision, d.Purge, d.SpecHash, d.Sealed, db.Micros(d.LinkedAt), db.Micros(d.DeployedAt), d.DeployedBy,
		d.State, d.Holder, d.Fence, orNull(d.KeyDigest))
	if err != nil || n == 1 {
		return err
	}
	_, err = lockDeployment(ctx, tx, d.TenantID, d.AgentName)
	if errors.Is(err, errNoDeployment) {
		return api.DeploymentKeyTaken
	}
	return errors.Join(err, errRepeat)
}

// errRepeat reports that a transaction has to be repeated because a concurrent one changed its
// basis.
var errRepeat = errors.New("the deployment was created by a concurrent request")

// updateDesired stores a change of a user, which has the next edition.
func updateDesired(ctx context.Context, tx *sql.Tx, d deployment) error {
	_, err := tx.ExecContext(ctx, `UPDATE deployments SET desired = $1, edition = edition + 1, revision = $2, purge = $3, spec_hash = $4, sealed = $5,
			linked_at = $6, deployed_at = $7, deployed_by = $8, state = $9, error = '', failures = 0, retry_at = NULL, health = 'unknown', runtime_url = CASE WHEN $1 = 'running' THEN runtime_url ELSE '' END,
			key_digest = $12, rotation = $13
		WHERE tenant_id = $10 AND agent_name = $11`,
		d.Desired, d.Revision, d.Purge, d.SpecHash, d.Sealed, db.Micros(d.LinkedAt), db.Micros(d.DeployedAt), d.DeployedBy, d.State,
		d.TenantID, d.AgentName, orNull(d.KeyDigest), d.Rotation)
	return db.Wrap("update deployment", err)
}

// lockDeploymentsOf returns the deployments of a tenant for a transaction that changes them.
func lockDeploymentsOf(ctx context.Context, tx *sql.Tx, tenantID string) ([]deployment, error) {
	return db.Collect(ctx, tx, "lock deployments", scanDeployment,
		`UPDATE deployments SET edition = edition WHERE tenant_id = $1 RETURNING `+columns, tenantID)
}

func hasDeployments(ctx context.Context, q db.Querier, tenantID string) (has bool, err error) {
	err = q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM deployments WHERE tenant_id = $1)`, tenantID).Scan(&has)
	return has, db.Wrap("read deployments", err)
}

// orNull returns NULL for no digest.
func orNull(keyDigest []byte) any {
	if keyDigest == nil {
		return nil
	}
	return keyDigest
}
