package catalog

import (
	"context"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
)

// kind is what an agent can be bound to.
type kind string

const (
	kindTool      kind = "tool"
	kindSkill     kind = "skill"
	kindMCP       kind = "mcp"
	kindKnowledge kind = "knowledge"
)

// agentsBound returns the names of the agents that are bound to a component, sorted.
func agentsBound(ctx context.Context, q db.Querier, tenantID string, k kind, name string) ([]string, error) {
	return db.Collect(ctx, q, "read bound agents", scanText, `SELECT a.name FROM agent_bindings b
		JOIN agents a ON a.tenant_id = b.tenant_id AND a.id = b.agent_id
		WHERE b.tenant_id = $1 AND b.kind = $2 AND b.name = $3 ORDER BY a.name`, tenantID, string(k), name)
}

func scanText(row db.Scanner) (text string, err error) {
	err = row.Scan(&text)
	return text, err
}

// inUse returns the error of deleting what agents use, or nil for no agents.
func inUse(code api.Code, agents []string) error {
	if len(agents) == 0 {
		return nil
	}
	return &api.Error{Code: code, Data: map[string][]string{"agents": agents}}
}
