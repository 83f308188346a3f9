package catalog

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/artifact"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/store"
)

const toolColumns = `id, name, title, description, description_en, file_name, hash, size, version, created_at, updated_at`

func scanTool(row db.Scanner) (v Tool, err error) {
	var created, updated int64
	ref := artifact.Ref{Kind: artifact.Tools}
	err = row.Scan(&v.ID, &v.Name, &v.Title, &v.Description, &v.DescriptionEN, &ref.Name, &ref.Hash, &ref.Size, &v.Version, &created, &updated)
	v.CreatedAt, v.UpdatedAt = api.Time(db.Time(created)), api.Time(db.Time(updated))
	v.Source = sourceCustom
	v.setFile(ref)
	return v, err
}

// toolsOf returns a part of the custom tools, and the number of all of them.
func toolsOf(ctx context.Context, q db.Querier, tenantID string, limit, offset int) (tools []Tool, total int, err error) {
	total, err = count(ctx, q, "count tools", `SELECT COUNT(*) FROM tools WHERE tenant_id = $1`, tenantID)
	if err != nil || total <= offset || limit == 0 {
		return nil, total, err
	}
	tools, err = db.Collect(ctx, q, "list tools", scanTool, `SELECT `+toolColumns+` FROM tools
		WHERE tenant_id = $1 ORDER BY name LIMIT $2 OFFSET $3`, tenantID, limit, offset)
	return tools, total, err
}

// toolTexts returns the name of each custom tool and the text that a search finds, sorted by name.
func toolTexts(ctx context.Context, q db.Querier, tenantID string) ([][2]string, error) {
	return db.Collect(ctx, q, "read tools", scanPair, `SELECT name, search FROM tools WHERE tenant_id = $1 ORDER BY name`, tenantID)
}

// toolsNamed returns the custom tools that have one of the names, sorted by name.
func toolsNamed(ctx context.Context, q db.Querier, tenantID string, names []string) ([]Tool, error) {
	args := []any{tenantID}
	var marks []string
	for i, name := range names {
		args, marks = append(args, name), append(marks, "$"+strconv.Itoa(i+2))
	}
	return db.Collect(ctx, q, "list tools", scanTool, `SELECT `+toolColumns+` FROM tools
		WHERE tenant_id = $1 AND name IN (`+strings.Join(marks, ", ")+`) ORDER BY name`, args...)
}

func toolByName(ctx context.Context, q db.Querier, tenantID, name string) (Tool, error) {
	v, err := scanTool(q.QueryRowContext(ctx, `SELECT `+toolColumns+` FROM tools WHERE tenant_id = $1 AND name = $2`, tenantID, name))
	return v, missing(err, "read tool", errNoTool)
}

// toolExists reports whether the tenant has a custom tool.
func toolExists(ctx context.Context, q db.Querier, tenantID, name string) (bool, error) {
	return found(ctx, q, "find tool", `SELECT COUNT(*) FROM tools WHERE tenant_id = $1 AND name = $2`, tenantID, name)
}

func insertTool(ctx context.Context, tx *store.Tx, tenantID string, v Tool) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO tools (tenant_id, `+toolColumns+`, search)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
		tenantID, v.ID, v.Name, v.Title, v.Description, v.DescriptionEN, v.ref.Name, v.ref.Hash, v.ref.Size, v.Version,
		db.Micros(time.Time(v.CreatedAt)), db.Micros(time.Time(v.UpdatedAt)), searchText(v.Name, v.Title))
	return taken(err, "insert tool")
}

func updateTool(ctx context.Context, tx *store.Tx, tenantID string, v Tool) error {
	_, err := tx.ExecContext(ctx, `UPDATE tools SET title = $3, description = $4, description_en = $5, file_name = $6, hash = $7, size = $8,
			version = $9, updated_at = $10, search = $11
		WHERE tenant_id = $1 AND id = $2`,
		tenantID, v.ID, v.Title, v.Description, v.DescriptionEN, v.ref.Name, v.ref.Hash, v.ref.Size, v.Version,
		db.Micros(time.Time(v.UpdatedAt)), searchText(v.Name, v.Title))
	return db.Wrap("update tool", err)
}

func deleteTool(ctx context.Context, tx *store.Tx, tenantID, id string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM tools WHERE tenant_id = $1 AND id = $2`, tenantID, id)
	return db.Wrap("delete tool", err)
}

// toolsOfAgent returns the custom tools that an agent is bound to, sorted by name.
func toolsOfAgent(ctx context.Context, q db.Querier, tenantID, agentName string) ([]Tool, error) {
	return db.Collect(ctx, q, "read tools of agent", scanTool, `SELECT `+toolColumns+` FROM tools WHERE tenant_id = $1 AND name IN (
			SELECT b.name FROM agent_bindings b JOIN agents a ON a.tenant_id = b.tenant_id AND a.id = b.agent_id
			WHERE b.tenant_id = $1 AND b.kind = $2 AND a.name = $3)
		ORDER BY name`, tenantID, string(kindTool), agentName)
}

// usedKeys returns those of the keys of blobs that rows of any tenant name.
func usedKeys(ctx context.Context, q db.Querier, keys []string) ([]string, error) {
	args := make([]any, len(keys))
	marks := make([]string, len(keys))
	for i, key := range keys {
		_, rest, _ := strings.Cut(key, "/")
		hash, _, _ := strings.Cut(rest, "/")
		args[i], marks[i] = hash, "$"+strconv.Itoa(i+1)
	}
	in := strings.Join(marks, ", ")
	return db.Collect(ctx, q, "find used artifacts", scanText, `SELECT 'tools/' || hash || '/' || file_name FROM tools WHERE hash IN (`+in+`)
		UNION SELECT 'skills/' || hash || '/' || name || '.zip' FROM skills WHERE hash IN (`+in+`)`, args...)
}
