package deployment

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
)

// deployment is a row of the table. A zero time is NULL.
type deployment struct {
	Key        string
	TenantID   string
	AgentName  string
	Desired    string
	Edition    int64
	Revision   int64 // that was deployed last
	SpecHash   string
	Sealed     []byte
	KeyDigest  []byte // nil in a row of an older version
	Rotation   string
	DeployedAt time.Time
	DeployedBy string
	Machine    string

	HubID string // of the hub that controls it, see [store.Free]
	UID   string // on the platform

	view
}

// view is what the hub that controls the deployment observed.
type view struct {
	attempt // of Serving, or of the revision if none serves

	Serving      int64    // the revision that serves; 0: none
	former       bool     // an older version created the row, whose revisions are not stored yet: serving is NULL
	Rollout      *attempt // of the revision next to Serving; nil: it is Serving, or was not tried yet
	Draining     []int64  // revisions that served, and whose runs continue
	Conditions   []wire.Condition
	RestartCount int
}

// attempt is the progress of a revision towards a ready agent.
type attempt struct {
	State      string    `json:"state"`
	Health     string    `json:"health"`
	RuntimeURL string    `json:"runtimeUrl,omitempty"`
	Error      string    `json:"error,omitempty"`
	Failures   int       `json:"failures,omitempty"` // in sequence
	RetryAt    time.Time `json:"retryAt,omitzero"`
	Counted    time.Time `json:"counted,omitzero"` // the start of the last runtime whose end is in Failures
	StartedAt  time.Time `json:"startedAt,omitzero"`
}

var errNoDeployment = errors.New("there is no deployment")

// columns are the columns that scanDeployment reads, in its order.
const columns = `key, tenant_id, agent_name, desired, edition, revision, spec_hash, sealed, key_digest, rotation, deployed_at, deployed_by, machine,
	state, health, runtime_url, error, failures, retry_at, counted, started_at,
	serving, rollout, draining, conditions, restart_count,
	hub_id, uid`

func scanDeployment(row db.Scanner) (deployment, error) {
	var (
		d                             deployment
		deployed                      int64
		retry, counted, started       sql.NullInt64
		serving                       sql.NullInt64
		rollout, draining, conditions string
	)
	err := row.Scan(&d.Key, &d.TenantID, &d.AgentName, &d.Desired, &d.Edition, &d.Revision, &d.SpecHash, &d.Sealed, &d.KeyDigest, &d.Rotation,
		&deployed, &d.DeployedBy, &d.Machine,
		&d.State, &d.Health, &d.RuntimeURL, &d.Error, &d.Failures, &retry, &counted, &started,
		&serving, &rollout, &draining, &conditions, &d.RestartCount,
		&d.HubID, &d.UID)
	if err != nil {
		return d, err
	}

	d.DeployedAt = db.Time(deployed)
	d.Serving, d.former = serving.Int64, !serving.Valid
	d.RetryAt, d.Counted, d.StartedAt = db.NullTime(retry), db.NullTime(counted), db.NullTime(started)
	if rollout != "" {
		err = json.Unmarshal([]byte(rollout), &d.Rollout)
	}

	return d, errors.Join(err, json.Unmarshal([]byte(draining), &d.Draining), json.Unmarshal([]byte(conditions), &d.Conditions))
}

// setRow assigns the columns that change, which are the arguments from $1 on.
const setRow = `state = $1, health = $2, runtime_url = $3, error = $4, failures = $5, retry_at = $6, counted = $7, started_at = $8,
	serving = $9, rollout = $10, draining = $11, conditions = $12, restart_count = $13, desired = $14, revision = $15, uid = $16,
	spec_hash = $17, sealed = $18, key_digest = $19, rotation = $20, deployed_at = $21, deployed_by = $22, machine = $23`

// values returns the arguments of setRow.
func (d deployment) values() []any {
	return []any{
		d.State, d.Health, d.RuntimeURL, d.Error, d.Failures, db.NullMicros(d.RetryAt), db.NullMicros(d.Counted), db.NullMicros(d.StartedAt),
		sql.NullInt64{Int64: d.Serving, Valid: !d.former}, d.rollout(), encoded(append([]int64{}, d.Draining...)), encoded(append([]wire.Condition{}, d.Conditions...)),
		d.RestartCount, d.Desired, d.Revision, d.UID, d.SpecHash, d.Sealed, orNull(d.KeyDigest), d.Rotation, db.Micros(d.DeployedAt), d.DeployedBy, d.Machine,
	}
}

func (v view) rollout() string {
	if v.Rollout == nil {
		return ""
	}

	return encoded(v.Rollout)
}

// encoded returns JSON of a value of this package, which always has one.
func encoded(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}

	return string(text)
}

func oneDeployment(row db.Scanner) (deployment, error) {
	d, err := scanDeployment(row)
	if errors.Is(err, sql.ErrNoRows) {
		return d, errNoDeployment
	}

	return d, db.Wrap("read deployment", err)
}

// readDeployment returns the deployment of an agent, or errNoDeployment.
func readDeployment(ctx context.Context, q db.Querier, tenantID, agentName string) (deployment, error) {
	return oneDeployment(q.QueryRowContext(ctx, `SELECT `+columns+` FROM deployments WHERE tenant_id = $1 AND agent_name = $2`, tenantID, agentName))
}

// findDeployment returns the deployment with the API key, or errNoDeployment.
func findDeployment(ctx context.Context, q db.Querier, keyDigest []byte) (deployment, error) {
	return oneDeployment(q.QueryRowContext(ctx, `SELECT `+columns+` FROM deployments WHERE key_digest = $1`, keyDigest))
}

// lockDeployment is readDeployment for a transaction that changes the row: others wait for it.
func lockDeployment(ctx context.Context, q db.Querier, tenantID, agentName string) (deployment, error) {
	return oneDeployment(q.QueryRowContext(ctx,
		`UPDATE deployments SET edition = edition WHERE tenant_id = $1 AND agent_name = $2 RETURNING `+columns, tenantID, agentName))
}

// insertDeployment fails with code.DeploymentKeyTaken if another agent has the key.
func insertDeployment(ctx context.Context, q db.Querier, d deployment) error {
	n, err := db.Affected(ctx, q, "insert deployment", `INSERT INTO deployments
			(key, tenant_id, agent_name, desired, edition, revision, uid, spec_hash, sealed, key_digest, linked_at, deployed_at, deployed_by, machine,
			state, health, serving, hub_id)
		VALUES ($1, $2, $3, $4, 1, $5, $6, $7, $8, $9, $10, $10, $11, $12, $13, $14, 0, $15) ON CONFLICT DO NOTHING`,
		d.Key, d.TenantID, d.AgentName, d.Desired, d.Revision, d.UID, d.SpecHash, d.Sealed, d.KeyDigest, db.Micros(d.DeployedAt), d.DeployedBy, d.Machine,
		d.State, d.Health, d.HubID)
	if err == nil && n == 0 {
		return code.DeploymentKeyTaken
	}

	return err
}

// updateDesired stores a change of a user, which has the next edition, and returns the row.
func updateDesired(ctx context.Context, q db.Querier, d deployment) (deployment, error) {
	return oneDeployment(q.QueryRowContext(ctx, `UPDATE deployments SET `+setRow+`, edition = edition + 1
		WHERE tenant_id = $24 AND agent_name = $25 RETURNING `+columns, append(d.values(), d.TenantID, d.AgentName)...))
}

// lockDeploymentsOf returns the deployments of a tenant for a transaction that changes them.
func lockDeploymentsOf(ctx context.Context, q db.Querier, tenantID string) ([]deployment, error) {
	return db.Collect(ctx, q, "lock deployments", scanDeployment,
		`UPDATE deployments SET edition = edition WHERE tenant_id = $1 RETURNING `+columns, tenantID)
}

// HasDeployments reports whether the tenant has deployments.
func (s *Service) HasDeployments(ctx context.Context, tx *sql.Tx, tenantID string) (bool, error) {
	return db.Value[bool](ctx, tx, "read deployments", `SELECT EXISTS (SELECT 1 FROM deployments WHERE tenant_id = $1)`, tenantID)
}

// orNull returns NULL for no digest.
func orNull(keyDigest []byte) any {
	if keyDigest == nil {
		return nil
	}

	return keyDigest
}

// anyone is the reader of a key that was issued before its readers were recorded.
const anyone = "*"

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
func insertReader(ctx context.Context, q db.Querier, d deployment, userID string) error {
	_, err := db.Affected(ctx, q, "insert reader of key", `INSERT INTO deployment_readers (tenant_id, key_digest, user_id)
		SELECT tenant_id, key_digest, $1 FROM deployments WHERE tenant_id = $2 AND key_digest = $3 ON CONFLICT DO NOTHING`,
		userID, d.TenantID, d.KeyDigest)
	return err
}

// readKeysOf returns the agents with a key that a user has read.
func readKeysOf(ctx context.Context, q db.Querier, tenantID, userID string) ([]string, error) {
	return db.Values[string](ctx, q, "read keys of user",
		`SELECT agent_name FROM deployments WHERE tenant_id = $1 AND desired <> 'absent' AND (key_digest IS NULL OR key_digest IN (
			SELECT key_digest FROM deployment_readers WHERE tenant_id = $1 AND (user_id = $2 OR user_id = '*'))) ORDER BY agent_name`, tenantID, userID)
}

func deleteReaders(ctx context.Context, q db.Querier, tenantID string, keyDigest []byte) error {
	_, err := db.Affected(ctx, q, "delete readers of key", `DELETE FROM deployment_readers WHERE tenant_id = $1 AND key_digest = $2`, tenantID, keyDigest)
	return err
}

// lockFormer returns the rows of older versions, which it locks.
func lockFormer(ctx context.Context, q db.Querier) ([]deployment, error) {
	return db.Collect(ctx, q, "read deployments of older versions", scanDeployment,
		`UPDATE deployments SET edition = edition WHERE key_digest IS NULL OR serving IS NULL RETURNING `+columns)
}

// The statements below serve the reconciler, which handles the deployments of all tenants.

// readKeys returns the keys of all deployments.
func readKeys(ctx context.Context, q db.Querier) ([]string, error) {
	return db.Values[string](ctx, q, "read keys of deployments", `SELECT key FROM deployments`)
}

// hasKey reports whether a deployment has the key.
func hasKey(ctx context.Context, q db.Querier, key string) (bool, error) {
	return db.Value[bool](ctx, q, "read deployment", `SELECT EXISTS (SELECT 1 FROM deployments WHERE key = $1)`, key)
}

// servingURL returns the address of the runtime to which a deployment sends runs, or "".
func servingURL(ctx context.Context, q db.Querier, key string) (string, error) {
	return textOf(ctx, q, `SELECT runtime_url FROM deployments WHERE key = $1 AND desired = 'running'`, key)
}

// textOf returns a value of the deployment with a key, or "".
func textOf(ctx context.Context, q db.Querier, statement, key string) (string, error) {
	text, err := db.Value[string](ctx, q, "read deployment", statement, key)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}

	return text, err
}
