package catalog

import (
	"context"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/store"
)

const knowledgeColumns = `id, name, title, description, dataset_id, enabled, version, created_at, updated_at`

func scanKnowledge(row db.Scanner) (v Knowledge, err error) {
	var created, updated int64
	err = row.Scan(&v.ID, &v.Name, &v.Title, &v.Description, &v.DatasetID, &v.Enabled, &v.Version, &created, &updated)
	v.CreatedAt, v.UpdatedAt = api.Time(db.Time(created)), api.Time(db.Time(updated))
	return v, err
}

func knowledgeOf(ctx context.Context, q db.Querier, tenantID string, page api.Page) (list api.List[Knowledge], err error) {
	list.Total, err = count(ctx, q, "count knowledge", `SELECT COUNT(*) FROM knowledge WHERE tenant_id = $1 AND search LIKE $2 ESCAPE '\'`,
		tenantID, searchPattern(page.Query))
	if err != nil {
		return list, err
	}
	list.Items, err = db.Collect(ctx, q, "list knowledge", scanKnowledge, `SELECT `+knowledgeColumns+` FROM knowledge
		WHERE tenant_id = $1 AND search LIKE $2 ESCAPE '\' ORDER BY name LIMIT $3 OFFSET $4`,
		tenantID, searchPattern(page.Query), page.Size, page.Offset())
	return list, err
}

func knowledgeByName(ctx context.Context, q db.Querier, tenantID, name string) (Knowledge, error) {
	v, err := scanKnowledge(q.QueryRowContext(ctx, `SELECT `+knowledgeColumns+` FROM knowledge WHERE tenant_id = $1 AND name = $2`, tenantID, name))
	return v, missing(err, "read knowledge", errNoKnowledge)
}

// knowledgeByDataset returns the first knowledge set of a dataset, by name.
func knowledgeByDataset(ctx context.Context, q db.Querier, tenantID, datasetID string) (Knowledge, error) {
	v, err := scanKnowledge(q.QueryRowContext(ctx, `SELECT `+knowledgeColumns+` FROM knowledge
		WHERE tenant_id = $1 AND dataset_id = $2 ORDER BY name LIMIT 1`, tenantID, datasetID))
	return v, missing(err, "read knowledge", errNoKnowledge)
}

func knowledgeExists(ctx context.Context, q db.Querier, tenantID, name string) (bool, error) {
	return found(ctx, q, "read knowledge", `SELECT COUNT(*) FROM knowledge WHERE tenant_id = $1 AND name = $2`, tenantID, name)
}

// digest returns the text of the content.
func (v Knowledge) digest() (string, error) {
	return versioned(v.Version, []any{v.DatasetID, v.Description, v.Enabled})
}

func insertKnowledge(ctx context.Context, tx *store.Tx, tenantID string, v Knowledge) error {
	digest, err := v.digest()
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO knowledge (tenant_id, `+knowledgeColumns+`, search, digest)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		tenantID, v.ID, v.Name, v.Title, v.Description, v.DatasetID, v.Enabled, v.Version, db.Micros(time.Time(v.CreatedAt)),
		db.Micros(time.Time(v.UpdatedAt)), searchText(v.Name, v.Title), digest)
	return taken(err, "insert knowledge")
}

func updateKnowledge(ctx context.Context, tx *store.Tx, tenantID string, v Knowledge) error {
	digest, err := v.digest()
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE knowledge SET title = $3, description = $4, dataset_id = $5, enabled = $6, version = $7, updated_at = $8,
		search = $9, digest = $10 WHERE tenant_id = $1 AND id = $2`,
		tenantID, v.ID, v.Title, v.Description, v.DatasetID, v.Enabled, v.Version, db.Micros(time.Time(v.UpdatedAt)), searchText(v.Name, v.Title), digest)
	return db.Wrap("update knowledge", err)
}

func deleteKnowledge(ctx context.Context, tx *store.Tx, tenantID, id string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM knowledge WHERE tenant_id = $1 AND id = $2`, tenantID, id)
	return db.Wrap("delete knowledge", err)
}
