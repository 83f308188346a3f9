package catalog

import (
	"context"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/store"
)

const (
	sceneColumns = `id, name, title, title_en, description, description_en, icon, agent_name, prompt, position, enabled, version,
		created_at, updated_at`

	// listedColumns are sceneColumns of a list, with the beginning of a long prompt.
	listedColumns = `id, name, title, title_en, description, description_en, icon, agent_name, SUBSTR(prompt, 1, 16385), position, enabled, version,
		created_at, updated_at`
)

func scanScene(row db.Scanner) (v Scene, err error) {
	var created, updated int64
	err = row.Scan(&v.ID, &v.Name, &v.Title, &v.TitleEN, &v.Description, &v.DescriptionEN, &v.Icon, &v.AgentName, &v.Prompt, &v.Order, &v.Enabled,
		&v.Version, &created, &updated)
	v.CreatedAt, v.UpdatedAt = api.Time(db.Time(created)), api.Time(db.Time(updated))
	return v, err
}

// scanListed reads a scene of a list, without a long prompt.
func scanListed(row db.Scanner) (Scene, error) {
	v, err := scanScene(row)
	if len(v.Prompt) > maxListedPrompt {
		v.Prompt, v.PromptOmitted = "", true
	}
	return v, err
}

func scenesOf(ctx context.Context, q db.Querier, tenantID string, page api.Page) (list api.List[Scene], err error) {
	list.Total, err = count(ctx, q, "count scenes", `SELECT COUNT(*) FROM scenes WHERE tenant_id = $1 AND search LIKE $2 ESCAPE '\'`,
		tenantID, searchPattern(page.Query))
	if err != nil {
		return list, err
	}
	list.Items, err = db.Collect(ctx, q, "list scenes", scanListed, `SELECT `+listedColumns+` FROM scenes
		WHERE tenant_id = $1 AND search LIKE $2 ESCAPE '\' ORDER BY position, name, id LIMIT $3 OFFSET $4`,
		tenantID, searchPattern(page.Query), page.Size, page.Offset())
	return list, err
}

// enabledScenes returns the enabled scenes of enabled agents. With a name, it returns only that one.
func enabledScenes(ctx context.Context, q db.Querier, tenantID, name string, page api.Page) (list api.List[Scene], err error) {
	list.Total, err = count(ctx, q, "count scenes", `SELECT COUNT(*) FROM scenes s
		WHERE s.tenant_id = $1 AND s.search LIKE $2 ESCAPE '\' AND s.enabled AND ($3 = '' OR s.name = $3)
			AND EXISTS (SELECT 1 FROM agents a WHERE a.tenant_id = $1 AND a.name = s.agent_name AND a.enabled)`,
		tenantID, searchPattern(page.Query), name)
	if err != nil || list.Total == 0 {
		return list, err
	}
	if name != "" {
		v, err := sceneByName(ctx, q, tenantID, name)
		list.Items = []Scene{v}
		return list, err
	}
	list.Items, err = db.Collect(ctx, q, "list scenes", scanListed, `SELECT `+listedColumns+` FROM scenes s
		WHERE s.tenant_id = $1 AND s.search LIKE $2 ESCAPE '\' AND s.enabled AND ($3 = '' OR s.name = $3)
			AND EXISTS (SELECT 1 FROM agents a WHERE a.tenant_id = $1 AND a.name = s.agent_name AND a.enabled)
		ORDER BY position, name, id LIMIT $4 OFFSET $5`, tenantID, searchPattern(page.Query), name, page.Size, page.Offset())
	return list, err
}

func sceneByName(ctx context.Context, q db.Querier, tenantID, name string) (Scene, error) {
	v, err := scanScene(q.QueryRowContext(ctx, `SELECT `+sceneColumns+` FROM scenes WHERE tenant_id = $1 AND name = $2`, tenantID, name))
	return v, missing(err, "read scene", errNoScene)
}

func insertScene(ctx context.Context, tx *store.Tx, tenantID string, v Scene) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO scenes (tenant_id, `+sceneColumns+`, search)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`,
		tenantID, v.ID, v.Name, v.Title, v.TitleEN, v.Description, v.DescriptionEN, v.Icon, v.AgentName, v.Prompt, v.Order, v.Enabled, v.Version,
		db.Micros(time.Time(v.CreatedAt)), db.Micros(time.Time(v.UpdatedAt)), searchText(v.Name, v.Title))
	return taken(err, "insert scene")
}

func updateScene(ctx context.Context, tx *store.Tx, tenantID string, v Scene) error {
	_, err := tx.ExecContext(ctx, `UPDATE scenes SET title = $3, title_en = $4, description = $5, description_en = $6, icon = $7, agent_name = $8,
			prompt = $9, position = $10, enabled = $11, version = $12, updated_at = $13, search = $14
		WHERE tenant_id = $1 AND id = $2`,
		tenantID, v.ID, v.Title, v.TitleEN, v.Description, v.DescriptionEN, v.Icon, v.AgentName, v.Prompt, v.Order, v.Enabled, v.Version,
		db.Micros(time.Time(v.UpdatedAt)), searchText(v.Name, v.Title))
	return db.Wrap("update scene", err)
}

func deleteScene(ctx context.Context, tx *store.Tx, tenantID, id string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM scenes WHERE tenant_id = $1 AND id = $2`, tenantID, id)
	return db.Wrap("delete scene", err)
}

// scenesOfAgent returns the names of the scenes of an agent.
func scenesOfAgent(ctx context.Context, q db.Querier, tenantID, agentName string) ([]string, error) {
	return db.Collect(ctx, q, "read scenes of agent", scanText,
		`SELECT name FROM scenes WHERE tenant_id = $1 AND agent_name = $2 ORDER BY name`, tenantID, agentName)
}
