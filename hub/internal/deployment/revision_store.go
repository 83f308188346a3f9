package deployment

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/internal/db"
)

// revision is a row of deployment_revisions.
type revision struct {
	Key        string
	TenantID   string
	Number     int64
	SpecHash   string
	Sealed     []byte // the request
	Changes    []string
	Ready      bool
	DeployedAt time.Time
	DeployedBy string
}

// sealedRequest is the column of the requests.
var sealedRequest = store.Sealed{
	Table: "deployment_revisions", Column: "sealed", ID: "id", Bound: []string{"tenant_id"}, Advice: deployAgain,
}

func revisionID(key string, number int64) string { return key + "/" + strconv.Itoa(int(number)) }

const revisionColumns = `key, tenant_id, revision, spec_hash, sealed, changes, ready, deployed_at, deployed_by`

func scanRevision(row db.Scanner) (r revision, err error) {
	var (
		changes  string
		deployed int64
	)
	if err = row.Scan(&r.Key, &r.TenantID, &r.Number, &r.SpecHash, &r.Sealed, &changes, &r.Ready, &deployed, &r.DeployedBy); err != nil {
		return r, err
	}

	r.DeployedAt = db.Time(deployed)
	return r, json.Unmarshal([]byte(changes), &r.Changes)
}

var errNoRevision = errors.New("the revision is not stored")

// readRevision returns a revision of a deployment, or errNoRevision.
func readRevision(ctx context.Context, q db.Querier, d deployment, number int64) (revision, error) {
	r, err := scanRevision(q.QueryRowContext(ctx, `SELECT `+revisionColumns+` FROM deployment_revisions WHERE tenant_id = $1 AND id = $2`,
		d.TenantID, revisionID(d.Key, number)))
	if errors.Is(err, sql.ErrNoRows) {
		return r, errNoRevision
	}

	return r, db.Wrap("read revision", err)
}

// readRevisions returns the stored revisions of a deployment, the last one first.
func readRevisions(ctx context.Context, q db.Querier, d deployment) ([]revision, error) {
	return db.Collect(ctx, q, "read revisions", scanRevision,
		`SELECT `+revisionColumns+` FROM deployment_revisions WHERE tenant_id = $1 AND key = $2 ORDER BY revision DESC`, d.TenantID, d.Key)
}

// insertRevision stores a revision with the artifacts that it names.
func insertRevision(ctx context.Context, q db.Querier, r revision, artifacts []string) error {
	id := revisionID(r.Key, r.Number)
	_, err := db.Affected(ctx, q, "insert revision", `INSERT INTO deployment_revisions
			(id, tenant_id, key, revision, spec_hash, sealed, size, changes, ready, deployed_at, deployed_by)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		id, r.TenantID, r.Key, r.Number, r.SpecHash, r.Sealed, len(r.Sealed), encoded(append([]string{}, r.Changes...)), r.Ready,
		db.Micros(r.DeployedAt), r.DeployedBy)
	for _, artifact := range artifacts {
		if err == nil {
			_, err = db.Affected(ctx, q, "insert file of revision", `INSERT INTO deployment_files (artifact, revision_id) VALUES ($1, $2) ON CONFLICT DO NOTHING`,
				artifact, id)
		}
	}

	return err
}

// setReady records that the agent of a revision was ready.
func setReady(ctx context.Context, q db.Querier, d deployment, number int64) error {
	_, err := db.Affected(ctx, q, "record ready revision", `UPDATE deployment_revisions SET ready = TRUE WHERE tenant_id = $1 AND id = $2`,
		d.TenantID, revisionID(d.Key, number))
	return err
}

// pruneRevisions deletes the oldest revisions, so that at most maxRevisions with maxRevisionBytes
// are left next to those that may be started again, and to those that drain until their run limit.
func pruneRevisions(ctx context.Context, q db.Querier, d deployment) error {
	args, kept := []any{d.Key, maxRevisions, maxRevisionBytes, d.TenantID, d.Revision, d.Serving}, "$5, $6"
	for _, number := range d.Draining {
		args = append(args, number)
		kept += ", $" + strconv.Itoa(len(args))
	}

	_, err := db.Affected(ctx, q, "prune revisions", `DELETE FROM deployment_revisions WHERE tenant_id = $4 AND key = $1 AND revision NOT IN (`+kept+`) AND (
			revision NOT IN (SELECT n.revision FROM deployment_revisions n WHERE n.key = $1 ORDER BY n.revision DESC LIMIT $2)
			OR (SELECT SUM(n.size) FROM deployment_revisions n WHERE n.key = $1 AND n.revision >= deployment_revisions.revision) > $3)`, args...)
	return err
}

func deleteRevisions(ctx context.Context, q db.Querier, d deployment) error {
	_, err := db.Affected(ctx, q, "delete revisions", `DELETE FROM deployment_revisions WHERE tenant_id = $1 AND key = $2`, d.TenantID, d.Key)
	return err
}

// Referenced reports which keys of artifacts a stored revision of any tenant names, for
// [artifact.Store.Sweep].
func (s *Service) Referenced(ctx context.Context, keys []string) (map[string]bool, error) {
	named := map[string]bool{}
	if len(keys) == 0 {
		return named, nil
	}

	args, marks := make([]any, len(keys)), make([]string, len(keys))
	for i, key := range keys {
		args[i], marks[i] = key, "$"+strconv.Itoa(i+1)
	}

	used, err := db.Values[string](ctx, s.store.Read(), "find artifacts of revisions",
		`SELECT DISTINCT artifact FROM deployment_files WHERE artifact IN (`+strings.Join(marks, ", ")+`)`, args...)
	for _, key := range used {
		named[key] = true
	}

	return named, err
}

// ArtifactKeys returns the keys of all artifacts that a stored revision of any tenant names.
func ArtifactKeys(ctx context.Context, q db.Querier) ([]string, error) {
	return db.Values[string](ctx, q, "list artifacts of revisions", `SELECT DISTINCT artifact FROM deployment_files`)
}
