package catalog

import (
	"context"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/artifact"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/store"
)

const skillColumns = `id, name, type, title, description, description_en, hash, size, version, created_at, updated_at`

func scanSkill(row db.Scanner) (v Skill, err error) {
	var created, updated int64
	ref := artifact.Ref{Kind: artifact.Skills}
	err = row.Scan(&v.ID, &v.Name, &v.Type, &v.Title, &v.Description, &v.DescriptionEN, &ref.Hash, &ref.Size, &v.Version, &created, &updated)
	v.CreatedAt, v.UpdatedAt = api.Time(db.Time(created)), api.Time(db.Time(updated))
	ref.Name = v.Name + ".zip"
	v.setFile(ref)
	return v, err
}

// skillsOf returns a page of the skills of a type, or of all types, and the number of all of them.
func skillsOf(ctx context.Context, q db.Querier, tenantID, kind string, page api.Page) (skills []Skill, total int, err error) {
	err = q.QueryRowContext(ctx, `SELECT COUNT(*) FROM skills
		WHERE tenant_id = $1 AND ($2 = '' OR type = $2) AND search LIKE $3 ESCAPE '\'`,
		tenantID, kind, searchPattern(page.Query)).Scan(&total)
	if err != nil || total <= page.Offset() {
		return nil, total, db.Wrap("count skills", err)
	}
	skills, err = db.Collect(ctx, q, "list skills", scanSkill, `SELECT `+skillColumns+` FROM skills
		WHERE tenant_id = $1 AND ($2 = '' OR type = $2) AND search LIKE $3 ESCAPE '\' ORDER BY name LIMIT $4 OFFSET $5`,
		tenantID, kind, searchPattern(page.Query), page.Size, page.Offset())
	return skills, total, err
}

func skillByName(ctx context.Context, q db.Querier, tenantID, name string) (Skill, error) {
	v, err := scanSkill(q.QueryRowContext(ctx, `SELECT `+skillColumns+` FROM skills WHERE tenant_id = $1 AND name = $2`, tenantID, name))
	return v, missing(err, "read skill", errNoSkill)
}

// skillExists reports whether the tenant has a skill.
func skillExists(ctx context.Context, q db.Querier, tenantID, name string) (bool, error) {
	return found(ctx, q, "find skill", `SELECT COUNT(*) FROM skills WHERE tenant_id = $1 AND name = $2`, tenantID, name)
}

func insertSkill(ctx context.Context, tx *store.Tx, tenantID string, v Skill) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO skills (tenant_id, `+skillColumns+`, search)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
		tenantID, v.ID, v.Name, v.Type, v.Title, v.Description, v.DescriptionEN, v.ref.Hash, v.ref.Size, v.Version,
		db.Micros(time.Time(v.CreatedAt)), db.Micros(time.Time(v.UpdatedAt)), searchText(v.Name, v.Title))
	return taken(err, "insert skill")
}

func updateSkill(ctx context.Context, tx *store.Tx, tenantID string, v Skill) error {
	_, err := tx.ExecContext(ctx, `UPDATE skills SET type = $3, title = $4, description = $5, description_en = $6, hash = $7, size = $8,
			version = $9, updated_at = $10, search = $11
		WHERE tenant_id = $1 AND id = $2`,
		tenantID, v.ID, v.Type, v.Title, v.Description, v.DescriptionEN, v.ref.Hash, v.ref.Size, v.Version,
		db.Micros(time.Time(v.UpdatedAt)), searchText(v.Name, v.Title))
	return db.Wrap("update skill", err)
}

func deleteSkill(ctx context.Context, tx *store.Tx, tenantID, id string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM skills WHERE tenant_id = $1 AND id = $2`, tenantID, id)
	return db.Wrap("delete skill", err)
}

// skillsOfAgent returns the skills that an agent is bound to, sorted by name.
func skillsOfAgent(ctx context.Context, q db.Querier, tenantID, agentName string) ([]Skill, error) {
	return db.Collect(ctx, q, "read skills of agent", scanSkill, `SELECT `+skillColumns+` FROM skills WHERE tenant_id = $1 AND name IN (
			SELECT b.name FROM agent_bindings b JOIN agents a ON a.tenant_id = b.tenant_id AND a.id = b.agent_id
			WHERE b.tenant_id = $1 AND b.kind = $2 AND a.name = $3)
		ORDER BY name`, tenantID, string(kindSkill), agentName)
}
