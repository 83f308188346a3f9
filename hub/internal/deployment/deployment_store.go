package deployment

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

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
	Purge      bool
	SpecHash   string
	Sealed     []byte
	KeyDigest  []byte // nil in a row of an older version
	Rotation   string
	DeployedAt time.Time
	DeployedBy string
	Machine    string

	view
	lease
}

// view is what the holder of the lease observed.
type view struct {
	attempt // of Serving, or of the revision if none serves

	Serving      int64    // the revision that serves; 0: none
	former       bool     // an older version created the row, whose revisions are not stored yet: serving is NULL
	Rollout      *attempt // of the revision next to Serving; nil: it is Serving, or was not tried yet
	Draining     []int64  // revisions that served, and whose runs continue
	Conditions   []condition
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

// condition is the stored form of a Condition.
type condition struct {
	Type      string    `json:"type"`
	Status    bool      `json:"status"`
	Code      wire.Code `json:"code,omitempty"`
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
const columns = `key, tenant_id, agent_name, desired, edition, revision, purge, spec_hash, sealed, key_digest, rotation, deployed_at, deployed_by, machine,
	state, health, runtime_url, error, failures, retry_at, counted, started_at,
	serving, rollout, draining, conditions, restart_count,
	lease_holder, lease_fence, lease_beat`

func scanDeployment(row db.Scanner) (deployment, error) {
	var (
		d                             deployment
		deployed                      int64
		retry, counted, started       sql.NullInt64
		serving                       sql.NullInt64
		rollout, draining, conditions string
	)
	err := row.Scan(&d.Key, &d.TenantID, &d.AgentName, &d.Desired, &d.Edition, &d.Revision, &d.Purge, &d.SpecHash, &d.Sealed, &d.KeyDigest, &d.Rotation,
		&deployed, &d.DeployedBy, &d.Machine,
		&d.State, &d.Health, &d.RuntimeURL, &d.Error, &d.Failures, &retry, &counted, &started,
		&serving, &rollout, &draining, &conditions, &d.RestartCount,
		&d.Holder, &d.Fence, &d.Beat)
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

// setView assigns the columns of a view, which are the arguments from $1 on.
const setView = `state = $1, health = $2, runtime_url = $3, error = $4, failures = $5, retry_at = $6, counted = $7, started_at = $8,
	serving = $9, rollout = $10, draining = $11, conditions = $12, restart_count = $13`

// values returns the arguments of setView.
func (v view) values() []any {
	return []any{
		v.State, v.Health, v.RuntimeURL, v.Error, v.Failures, db.NullMicros(v.RetryAt), db.NullMicros(v.Counted), db.NullMicros(v.StartedAt),
		sql.NullInt64{Int64: v.Serving, Valid: !v.former}, v.rollout(), encoded(append([]int64{}, v.Draining...)), encoded(append([]condition{}, v.Conditions...)), v.RestartCount,
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

// insertDeployment fails with wire.DeploymentKeyTaken if another agent has the key.
func insertDeployment(ctx context.Context, q db.Querier, d deployment) error {
	n, err := db.Affected(ctx, q, "insert deployment", `INSERT INTO deployments
			(key, tenant_id, agent_name, desired, edition, revision, purge, spec_hash, sealed, key_digest, linked_at, deployed_at, deployed_by, machine,
			state, health, serving, lease_holder, lease_fence)
		VALUES ($1, $2, $3, $4, 1, $5, FALSE, $6, $7, $8, $9, $9, $10, $11, $12, $13, 0, $14, $15) ON CONFLICT DO NOTHING`,
		d.Key, d.TenantID, d.AgentName, d.Desired, d.Revision, d.SpecHash, d.Sealed, d.KeyDigest, db.Micros(d.DeployedAt), d.DeployedBy, d.Machine,
		d.State, d.Health, d.Holder, d.Fence)
	if err == nil && n == 0 {
		return wire.DeploymentKeyTaken
	}
	return err
}

// updateDesired stores a change of a user, which has the next edition, and returns the row.
func updateDesired(ctx context.Context, q db.Querier, d deployment) (deployment, error) {
	args := append(d.values(), d.Desired, d.Revision, d.Purge, d.SpecHash, d.Sealed, orNull(d.KeyDigest), d.Rotation, db.Micros(d.DeployedAt), d.DeployedBy, d.Machine,
		d.TenantID, d.AgentName)
	return oneDeployment(q.QueryRowContext(ctx, `UPDATE deployments SET `+setView+`, edition = edition + 1, desired = $14, revision = $15, purge = $16,
			spec_hash = $17, sealed = $18, key_digest = $19, rotation = $20, deployed_at = $21, deployed_by = $22, machine = $23
		WHERE tenant_id = $24 AND agent_name = $25 RETURNING `+columns, args...))
}

// lockDeploymentsOf returns the deployments of a tenant for a transaction that changes them.
func lockDeploymentsOf(ctx context.Context, q db.Querier, tenantID string) ([]deployment, error) {
	return db.Collect(ctx, q, "lock deployments", scanDeployment,
		`UPDATE deployments SET edition = edition WHERE tenant_id = $1 RETURNING `+columns, tenantID)
}

// HasDeployments reports whether the tenant has deployments.
func (s *Service) HasDeployments(ctx context.Context, tx *sql.Tx, tenantID string) (has bool, err error) {
	err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM deployments WHERE tenant_id = $1)`, tenantID).Scan(&has)
	return has, db.Wrap("read deployments", err)
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

// updateKey stores the next key of a deployment, as a change of a user.
func updateKey(ctx context.Context, q db.Querier, d deployment) error {
	_, err := db.Affected(ctx, q, "update key of deployment", `UPDATE deployments SET sealed = $1, key_digest = $2, rotation = $3, edition = edition + 1
		WHERE tenant_id = $4 AND agent_name = $5`, d.Sealed, d.KeyDigest, d.Rotation, d.TenantID, d.AgentName)
	return err
}

// saveKeyHeld stores a step of a rotation for the holder of the lease, unless a user changed the
// deployment since it was read. It reports whether it was stored.
func saveKeyHeld(ctx context.Context, q db.Querier, d deployment) (bool, error) {
	n, err := db.Affected(ctx, q, "save key of deployment", `UPDATE deployments SET sealed = $1, key_digest = $2, rotation = $3, revision = $4, spec_hash = $5, rollout = $6
		WHERE key = $7 AND lease_holder = $8 AND lease_fence = $9 AND edition = $10`,
		d.Sealed, d.KeyDigest, d.Rotation, d.Revision, d.SpecHash, d.rollout(), d.Key, d.Holder, d.Fence, d.Edition)
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
func insertReader(ctx context.Context, q db.Querier, d deployment, userID string) error {
	_, err := db.Affected(ctx, q, "insert reader of key", `INSERT INTO deployment_readers (tenant_id, key_digest, user_id)
		SELECT tenant_id, key_digest, $1 FROM deployments WHERE tenant_id = $2 AND key_digest = $3 ON CONFLICT DO NOTHING`,
		userID, d.TenantID, d.KeyDigest)
	return err
}

// readKeysOf returns the agents with a key that a user has read.
func readKeysOf(ctx context.Context, q db.Querier, tenantID, userID string) ([]string, error) {
	return db.Collect(ctx, q, "read keys of user", func(row db.Scanner) (name string, err error) { return name, row.Scan(&name) },
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
// A statement that changes a row names the lease, and has no effect without it.

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

// readKeys returns the keys of all deployments.
func readKeys(ctx context.Context, q db.Querier) ([]string, error) {
	return db.Collect(ctx, q, "read keys of deployments", func(row db.Scanner) (key string, err error) { return key, row.Scan(&key) },
		`SELECT key FROM deployments`)
}

// hasKey reports whether a deployment has the key.
func hasKey(ctx context.Context, q db.Querier, key string) (has bool, err error) {
	err = q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM deployments WHERE key = $1)`, key).Scan(&has)
	return has, db.Wrap("read deployment", err)
}

// servingURL returns the address of the runtime to which a deployment sends runs, or "".
func servingURL(ctx context.Context, q db.Querier, key string) (url string, err error) {
	err = q.QueryRowContext(ctx, `SELECT runtime_url FROM deployments WHERE key = $1 AND desired = 'running'`, key).Scan(&url)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return url, db.Wrap("read deployment", err)
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
