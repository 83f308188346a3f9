package catalog

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/settings"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// columns returns the columns of an agent without its bindings.
func (a *Agent) columns() []column {
	return []column{
		{"id", &a.ID}, {"settings", settingsField{a}}, // which are read before those with a column
		{"name", &a.Name}, {"title", &a.Title}, {"title_en", &a.TitleEN}, {"description", &a.Description},
		{"description_en", &a.DescriptionEN}, {"icon", &a.Icon}, {"enabled", &a.Enabled}, {"is_default", &a.IsDefault},
		{"provider_id", &a.ProviderID}, {"model", &a.Model}, {"system_prompt", &a.SystemPrompt}, {"max_turns", &a.MaxTurns},
		{"permission_mode", &a.PermissionMode}, {"allowed_tools", db.JSON{V: &a.AllowedTools, Zero: nil}},
		{"disallowed_tools", db.JSON{V: &a.DisallowedTools, Zero: "[]"}}, {"subagents", db.JSON{V: &a.Subagents, Zero: "{}"}},
		{"setting_sources", db.JSON{V: &a.SettingSources, Zero: "[]"}}, {"sandbox", db.JSON{V: &a.Sandbox, Zero: ""}},
		{"access", db.JSON{V: &a.Access, Zero: ""}}, {"deployment", db.JSON{V: &a.Deployment, Zero: ""}}, {"approvers", &a.Approvers},
		{"version", &a.Version}, {"created_at", &a.CreatedAt}, {"updated_at", &a.UpdatedAt},
	}
}

// withoutColumns returns the settings that have no column of their own.
func (a *Agent) withoutColumns() agent.Agent {
	return agent.Agent{
		MaxOutputTokens: a.MaxOutputTokens, ContextWindow: a.ContextWindow, Temperature: a.Temperature, Thinking: a.Thinking,
		ExtraUserSkillDirs: a.ExtraUserSkillDirs, Limits: a.Limits, CommandEnv: settings.Hidden(a.CommandEnv),
		OutputSchema: a.OutputSchema,
	}
}

// settingsField is stored as the JSON of the settings of an agent that have no column.
type settingsField struct{ a *Agent }

func (f settingsField) Value() (driver.Value, error) {
	rest := f.a.withoutColumns()
	return db.JSON{V: &rest, Zero: ""}.Value()
}

func (f settingsField) Scan(src any) error {
	r := agent.Agent{}
	err := db.JSON{V: &r, Zero: ""}.Scan(src)
	a := f.a
	a.MaxOutputTokens = r.MaxOutputTokens
	a.ContextWindow = r.ContextWindow
	a.Temperature = r.Temperature
	a.Thinking = r.Thinking
	a.ExtraUserSkillDirs = r.ExtraUserSkillDirs
	a.Limits = r.Limits
	a.CommandEnv = settings.Plain(r.CommandEnv)
	a.OutputSchema = r.OutputSchema
	return err
}

// written returns the columns of an agent with those that are only written.
func (a *Agent) written() []column {
	search, bytes := searchText(a.Name, a.Title), agentSize(a)
	return append(a.columns(), column{"search", &search}, column{"bytes", &bytes})
}

// scanAgent reads an agent without bindings and hash.
func scanAgent(row db.Scanner) (Agent, error) {
	var a Agent
	err := scanRow(row, a.columns())
	if a.Access.IsZero() {
		a.Access = everyone() // of an earlier version
	}

	return a, err
}

// agentsOf returns the agents of a tenant by name, with their bindings. With a name, it returns
// only that agent.
func agentsOf(ctx context.Context, q db.Querier, tenantID, name string) ([]Agent, error) {
	all, err := db.Collect(ctx, q, "read agents", scanAgent, `SELECT `+namesOf(new(Agent).columns())+` FROM agents
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

// readAgent returns an agent with its bindings, or wire.NotFound.
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

// clearDefault makes every agent but one not the default, and returns those that were.
func clearDefault(ctx context.Context, tx *store.Tx, tenantID, exceptID string, now time.Time) ([]Agent, error) {
	return db.Collect(ctx, tx, "clear default agent", scanAgent, `UPDATE agents SET is_default = FALSE, version = version + 1, updated_at = $3
		WHERE tenant_id = $1 AND id <> $2 AND is_default RETURNING `+namesOf(new(Agent).columns()), tenantID, exceptID, db.Micros(now))
}

// AgentsOfProvider returns the names of the agents that use a provider, which must not be deleted
// then.
func (s *Service) AgentsOfProvider(ctx context.Context, tx *sql.Tx, tenantID, providerID string) ([]string, error) {
	return db.Values[string](ctx, tx, "read agents of provider",
		`SELECT name FROM agents WHERE tenant_id = $1 AND provider_id = $2 ORDER BY name`, tenantID, providerID)
}

// LockAgent prevents that an agent is deleted until the transaction ends. It fails with
// wire.NotFound if the tenant has no such agent. It does not authorize.
func (s *Service) LockAgent(ctx context.Context, tx *sql.Tx, tenantID, name string) error {
	n, err := db.Affected(ctx, tx, "lock agent", `UPDATE agents SET name = name WHERE tenant_id = $1 AND name = $2`, tenantID, name)
	if err == nil && n == 0 {
		err = errNoAgent
	}

	return err
}

// AgentEnabled reports whether an agent is enabled. It fails with wire.NotFound if the tenant of
// the caller has no such agent, or the caller has no access to it. A caller without a user is the
// hub.
func (s *Service) AgentEnabled(ctx context.Context, caller api.Caller, name string) (bool, error) {
	access := everyone()
	var enabled bool
	err := s.store.Read().QueryRowContext(ctx, `SELECT enabled, access FROM agents WHERE tenant_id = $1 AND name = $2`, caller.TenantID, name).
		Scan(&enabled, db.JSON{V: &access, Zero: ""})
	if err == nil && !permits(access, caller) {
		return false, errNoAgent
	}

	return enabled, db.WrapOne("read agent", err, errNoAgent)
}

// Approvers returns who approves the calls of an agent, which no change replaces until the
// transaction ends. It fails with wire.NotFound without such an agent. It does not authorize.
func (s *Service) Approvers(ctx context.Context, tx *sql.Tx, tenantID, name string) (string, error) {
	query := `SELECT approvers FROM agents WHERE tenant_id = $1 AND name = $2`
	if s.store.DB.Engine() == db.PostgreSQL {
		query += ` FOR SHARE`
	}

	approvers, err := db.Value[string](ctx, tx, "read approvers", query, tenantID, name)
	if errors.Is(err, sql.ErrNoRows) {
		err = errNoAgent
	}

	return approvers, err
}

// ModelOf returns the names of the provider and the model of an agent. It does not authorize.
func (s *Service) ModelOf(ctx context.Context, tenantID, name string) (string, string, error) {
	var id, model string
	err := s.store.Read().QueryRowContext(ctx, `SELECT provider_id, model FROM agents WHERE tenant_id = $1 AND name = $2`, tenantID, name).Scan(&id, &model)
	if err != nil {
		return "", "", db.WrapOne("read model", err, errNoAgent)
	}

	p, _, err := s.cfg.Providers.Get(ctx, s.store.Read(), tenantID, id)
	return p.Name, model, err
}

// readBindings sets the bindings of agents of a tenant. With the id of an agent, it reads only its
// bindings.
func readBindings(ctx context.Context, q db.Querier, tenantID, agentID string, agents []Agent) error {
	type bound struct {
		agentID string
		kind    componentKind
	}
	refs := map[bound][]wire.KnowledgeRef{}
	_, err := db.Collect(ctx, q, "read bindings", func(row db.Scanner) (key bound, err error) {
		var ref wire.KnowledgeRef
		err = row.Scan(&key.agentID, &key.kind, &ref.Name, &ref.Description)
		refs[key] = append(refs[key], ref)
		return key, err
	}, `SELECT agent_id, kind, name, description FROM agent_bindings
		WHERE tenant_id = $1 AND ($2 = '' OR agent_id = $2) ORDER BY agent_id, kind, position`, tenantID, agentID)
	for i := range agents {
		for _, b := range bindings {
			b.set(&agents[i], refs[bound{agents[i].ID, b.kind}])
		}
	}

	return err
}

// replaceBindings stores the bindings of an agent whose kinds differ from those before.
func replaceBindings(ctx context.Context, tx *store.Tx, before, after Agent) error {
	for _, b := range bindings {
		refs := b.refs(&after)
		if slices.Equal(b.refs(&before), refs) {
			continue
		}

		_, err := tx.ExecContext(ctx, `DELETE FROM agent_bindings WHERE tenant_id = $1 AND agent_id = $2 AND kind = $3`,
			tx.Caller.TenantID, after.ID, string(b.kind))
		if err != nil {
			return db.Wrap("delete bindings", err)
		}

		for position, ref := range refs {
			_, err := tx.ExecContext(ctx, `INSERT INTO agent_bindings (tenant_id, agent_id, kind, name, position, description)
				VALUES ($1, $2, $3, $4, $5, $6)`, tx.Caller.TenantID, after.ID, string(b.kind), ref.Name, position, ref.Description)
			if err != nil {
				return db.Wrap("insert binding", err)
			}
		}
	}

	return nil
}

// agentsBound returns the names of the agents that are bound to a component, sorted.
func agentsBound(ctx context.Context, q db.Querier, tenantID string, k componentKind, name string) ([]string, error) {
	return db.Values[string](ctx, q, "read bound agents", `SELECT a.name FROM agent_bindings b
		JOIN agents a ON a.tenant_id = b.tenant_id AND a.id = b.agent_id
		WHERE b.tenant_id = $1 AND b.kind = $2 AND b.name = $3 ORDER BY a.name`, tenantID, string(k), name)
}

// scenesOfAgent returns the names of the scenes of an agent.
func scenesOfAgent(ctx context.Context, q db.Querier, tenantID, agentName string) ([]string, error) {
	return db.Values[string](ctx, q, "read scenes of agent",
		`SELECT name FROM scenes WHERE tenant_id = $1 AND agent_name = $2 ORDER BY name`, tenantID, agentName)
}
