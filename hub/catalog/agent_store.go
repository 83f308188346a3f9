package catalog

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/store"
)

// agentColumns are the columns that scanAgent reads, in its order.
const agentColumns = `id, name, title, title_en, description, description_en, icon, enabled, is_default, provider_id, model,
	system_prompt, max_turns, permission_mode, allowed_tools, disallowed_tools, subagents, setting_sources, sandbox, version, created_at, updated_at`

// scanAgent reads an agent without bindings and hash.
func scanAgent(row db.Scanner) (Agent, error) {
	var (
		a                              Agent
		allowed                        sql.NullString
		disallowed, subagents, sources string
		sandbox                        string
		created, updated               int64
	)
	err := row.Scan(&a.ID, &a.Name, &a.Title, &a.TitleEN, &a.Description, &a.DescriptionEN, &a.Icon, &a.Enabled, &a.IsDefault, &a.ProviderID,
		&a.Model, &a.SystemPrompt, &a.MaxTurns, &a.PermissionMode, &allowed, &disallowed, &subagents, &sources, &sandbox, &a.Version, &created, &updated)
	if err != nil {
		return Agent{}, err
	}
	a.CreatedAt, a.UpdatedAt = api.Time(db.Time(created)), api.Time(db.Time(updated))
	a.Tools = []string{}
	a.Skills = []string{}
	a.MCPs = []string{}
	a.Knowledge = []KnowledgeRef{}
	if allowed.Valid {
		err = json.Unmarshal([]byte(allowed.String), &a.AllowedTools)
	}
	return a, errors.Join(err, json.Unmarshal([]byte(disallowed), &a.DisallowedTools),
		json.Unmarshal([]byte(subagents), &a.Subagents), json.Unmarshal([]byte(sources), &a.SettingSources), decodeSandbox(sandbox, &a.Sandbox))
}

// agentsOf returns the agents of a tenant by name, with their bindings. With a name, it returns
// only that agent.
func agentsOf(ctx context.Context, q db.Querier, tenantID, name string) ([]Agent, error) {
	all, err := db.Collect(ctx, q, "read agents", scanAgent, `SELECT `+agentColumns+` FROM agents
		WHERE tenant_id = $1 AND ($2 = '' OR name = $2) ORDER BY name`, tenantID, name)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	id := ""
	if name != "" {
		id = all[0].ID
	}
	return all, readBindings(ctx, q, tenantID, id, all)
}

// readAgent returns an agent with its bindings, or api.NotFound.
func readAgent(ctx context.Context, q db.Querier, tenantID, name string) (Agent, error) {
	if name == "" {
		return Agent{}, errNoAgent
	}
	all, err := agentsOf(ctx, q, tenantID, name)
	if err != nil {
		return Agent{}, err
	}
	if len(all) == 0 {
		return Agent{}, errNoAgent
	}
	return all[0], nil
}

// agentExists reports whether there is an agent of that name.
func agentExists(ctx context.Context, q db.Querier, tenantID, name string) (bool, error) {
	return found(ctx, q, "read agent", `SELECT COUNT(*) FROM agents WHERE tenant_id = $1 AND name = $2`, tenantID, name)
}

// agentValues are the values of agentColumns after the id and the name, the search text and the
// size.
func agentValues(a Agent) ([]any, error) {
	var allowed sql.NullString
	texts := make([]string, 4)
	for i, v := range []any{a.AllowedTools, a.DisallowedTools, a.Subagents, a.SettingSources} {
		text, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		texts[i] = string(text)
	}
	sandbox, err := encodeSandbox(a.Sandbox)
	if err != nil {
		return nil, err
	}
	if a.AllowedTools != nil {
		allowed = sql.NullString{String: texts[0], Valid: true}
	}
	return []any{
		a.Title, a.TitleEN, a.Description, a.DescriptionEN, a.Icon, a.Enabled, a.IsDefault, a.ProviderID, a.Model, a.SystemPrompt, a.MaxTurns,
		a.PermissionMode, allowed, texts[1], texts[2], texts[3], sandbox, a.Version, db.Micros(time.Time(a.CreatedAt)), db.Micros(time.Time(a.UpdatedAt)),
		searchText(a.Name, a.Title), agentSize(&a),
	}, nil
}

func insertAgent(ctx context.Context, tx *store.Tx, tenantID string, a Agent) error {
	values, err := agentValues(a)
	if err != nil {
		return db.Wrap("encode agent", err)
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO agents (tenant_id, `+agentColumns+`, search, bytes)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25)`,
		append([]any{tenantID, a.ID, a.Name}, values...)...)
	return db.Wrap("insert agent", err)
}

func updateAgent(ctx context.Context, tx *store.Tx, tenantID string, a Agent) error {
	values, err := agentValues(a)
	if err != nil {
		return db.Wrap("encode agent", err)
	}
	_, err = tx.ExecContext(ctx, `UPDATE agents SET title = $3, title_en = $4, description = $5, description_en = $6, icon = $7, enabled = $8,
			is_default = $9, provider_id = $10, model = $11, system_prompt = $12, max_turns = $13, permission_mode = $14, allowed_tools = $15,
			disallowed_tools = $16, subagents = $17, setting_sources = $18, sandbox = $19, version = $20, created_at = $21, updated_at = $22, search = $23, bytes = $24
		WHERE tenant_id = $1 AND id = $2`, append([]any{tenantID, a.ID}, values...)...)
	return db.Wrap("update agent", err)
}

// clearDefault makes every agent but one not the default, and returns those that were.
func clearDefault(ctx context.Context, tx *store.Tx, tenantID, exceptID string, now time.Time) ([]Agent, error) {
	return db.Collect(ctx, tx, "clear default agent", scanAgent, `UPDATE agents SET is_default = FALSE, version = version + 1, updated_at = $3
		WHERE tenant_id = $1 AND id <> $2 AND is_default RETURNING `+agentColumns, tenantID, exceptID, db.Micros(now))
}

func deleteAgent(ctx context.Context, tx *store.Tx, tenantID, id string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM agents WHERE tenant_id = $1 AND id = $2`, tenantID, id)
	return db.Wrap("delete agent", err)
}

func agentsOfProvider(ctx context.Context, q db.Querier, tenantID, providerID string) ([]string, error) {
	return db.Collect(ctx, q, "read agents of provider", scanText,
		`SELECT name FROM agents WHERE tenant_id = $1 AND provider_id = $2 ORDER BY name`, tenantID, providerID)
}
