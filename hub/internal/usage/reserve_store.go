package usage

import (
	"context"
	"database/sql"

	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/internal/db"
)

// lockAgent is Lock for a run without a user: on PostgreSQL, the begins of runs of an agent with a
// hard limit wait for each other.
func (s *Service) lockAgent(ctx context.Context, tx *sql.Tx, r CountedRun) error {
	if s.store.DB.Engine() != db.PostgreSQL {
		return nil
	}

	return db.Exec(ctx, tx, "lock budget", `SELECT pg_advisory_xact_lock(hashtext($3)) IS NULL WHERE EXISTS (SELECT 1 FROM usage_budgets
		WHERE tenant_id = $1 AND kind = 'agent' AND name = $2 AND hard > 0)`, r.TenantID, r.AgentName, lockKey(r))
}

// insertReserve inserts the reserve of a run after Lock, and reports whether its budgets have it.
func (s *Service) insertReserve(ctx context.Context, tx *sql.Tx, r CountedRun) (bool, error) {
	args := []any{r.ID, r.TenantID, r.AgentName, s.store.HubID}
	answers, more := s.answers(r.TenantID, r.AgentName, len(args)+1)
	args = append(args, more...)
	condition, more := s.Admitted(Columns{Tenant: "$2", Agent: "$3", User: "''"}, r.Free, answers, "0", len(args)+1)
	n, err := db.Affected(ctx, tx, "insert reserve", `INSERT INTO usage_reserves (run_id, tenant_id, agent_name, hub_id)
		SELECT $1, $2, $3, $4 WHERE `+condition, append(args, more...)...)
	return n == 1, err
}

// countAnswers returns the number of chat answers in progress of the agent of a run.
func (s *Service) countAnswers(ctx context.Context, tx *sql.Tx, r CountedRun) (int, error) {
	count, args := s.answers(r.TenantID, r.AgentName, 1)
	return db.Value[int](ctx, tx, "count answers", `SELECT `+count+` AS answers`, args...)
}

// countReserves returns the number of reserves of the agent of a run.
func countReserves(ctx context.Context, tx *sql.Tx, r CountedRun) (int, error) {
	return db.Value[int](ctx, tx, "count reserves", `SELECT COUNT(*) FROM usage_reserves WHERE tenant_id = $1 AND agent_name = $2`, r.TenantID, r.AgentName)
}

func deleteReserve(ctx context.Context, tx *sql.Tx, r CountedRun) error {
	return db.Exec(ctx, tx, "delete reserve", `DELETE FROM usage_reserves WHERE tenant_id = $1 AND run_id = $2`, r.TenantID, r.ID)
}

// claimFreeReserves deletes some reserves of hubs that have ended, and returns their runs.
func claimFreeReserves(ctx context.Context, tx *sql.Tx) ([]CountedRun, error) {
	return db.Collect(ctx, tx, "delete free reserves", func(row db.Scanner) (CountedRun, error) {
		r := CountedRun{Unreported: true}
		return r, row.Scan(&r.ID, &r.TenantID, &r.AgentName)
	}, `DELETE FROM usage_reserves WHERE run_id IN (SELECT run_id FROM usage_reserves WHERE `+store.Free+` ORDER BY run_id LIMIT $1)
		RETURNING run_id, tenant_id, agent_name`, storeBatch)
}

// anyFreeReserve reports whether there are reserves of hubs that have ended.
func anyFreeReserve(ctx context.Context, q db.Querier) (bool, error) {
	return db.Value[bool](ctx, q, "read free reserves", `SELECT EXISTS (SELECT 1 FROM usage_reserves WHERE `+store.Free+`)`)
}
