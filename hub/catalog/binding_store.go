package catalog

import (
	"context"
	"slices"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/store"
)

type bindingRow struct {
	agentID string
	kind    kind
	ref     KnowledgeRef
}

// readBindings sets the bindings of agents of a tenant. With the id of an agent, it reads only its
// bindings.
func readBindings(ctx context.Context, q db.Querier, tenantID, agentID string, agents []Agent) error {
	rows, err := db.Collect(ctx, q, "read bindings", func(row db.Scanner) (b bindingRow, err error) {
		err = row.Scan(&b.agentID, &b.kind, &b.ref.Name, &b.ref.Description)
		return b, err
	}, `SELECT agent_id, kind, name, description FROM agent_bindings
		WHERE tenant_id = $1 AND ($2 = '' OR agent_id = $2) ORDER BY agent_id, kind, position`, tenantID, agentID)
	byID := make(map[string]*Agent, len(agents))
	for i := range agents {
		byID[agents[i].ID] = &agents[i]
	}
	for _, b := range rows {
		a := byID[b.agentID]
		if a == nil {
			continue
		}
		switch b.kind {
		case kindTool:
			a.Tools = append(a.Tools, b.ref.Name)
		case kindSkill:
			a.Skills = append(a.Skills, b.ref.Name)
		case kindMCP:
			a.MCPs = append(a.MCPs, b.ref.Name)
		case kindKnowledge:
			a.Knowledge = append(a.Knowledge, b.ref)
		}
	}
	return err
}

// replaceBindings stores the bindings of an agent whose kinds differ from those before.
func replaceBindings(ctx context.Context, tx *store.Tx, tenantID string, before, after Agent) error {
	for i, b := range after.bindings() {
		if slices.Equal(before.bindings()[i].refs, b.refs) {
			continue
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM agent_bindings WHERE tenant_id = $1 AND agent_id = $2 AND kind = $3`,
			tenantID, after.ID, string(b.kind))
		if err != nil {
			return db.Wrap("delete bindings", err)
		}
		for position, ref := range b.refs {
			_, err := tx.ExecContext(ctx, `INSERT INTO agent_bindings (tenant_id, agent_id, kind, name, position, description)
				VALUES ($1, $2, $3, $4, $5, $6)`, tenantID, after.ID, string(b.kind), ref.Name, position, ref.Description)
			if err != nil {
				return db.Wrap("insert binding", err)
			}
		}
	}
	return nil
}

// agentsBound returns the names of the agents that are bound to a component, sorted.
func agentsBound(ctx context.Context, q db.Querier, tenantID string, k kind, name string) ([]string, error) {
	return db.Collect(ctx, q, "read bound agents", scanText, `SELECT a.name FROM agent_bindings b
		JOIN agents a ON a.tenant_id = b.tenant_id AND a.id = b.agent_id
		WHERE b.tenant_id = $1 AND b.kind = $2 AND b.name = $3 ORDER BY a.name`, tenantID, string(k), name)
}

// inUse returns the error of deleting what agents use, or nil for no agents.
func inUse(code api.Code, agents []string) error {
	if len(agents) == 0 {
		return nil
	}
	return &api.Error{Code: code, Data: map[string][]string{"agents": agents}}
}
