package usage

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/internal/db"
)

// spentOf is what was used of the budget b in its period. The arguments are today and the first day
// of the month, as placeholders. The rows of usage_days are those of the slice of the same name.
func spentOf(today, month string) string {
	return `(SELECT ` + sumOf(`CASE WHEN b.unit = 'cost' THEN d.cost ELSE `+tokensOf+` END`) + ` FROM usage_days AS d WHERE d.tenant_id = b.tenant_id AND d.slice = b.kind
		AND d.agent_name = CASE WHEN b.kind = 'agent' THEN b.name ELSE '' END AND d.user_id = CASE WHEN b.kind = 'user' THEN b.name ELSE '' END
		AND d.day >= CASE WHEN b.period = 'day' THEN CAST(` + today + ` AS BIGINT) ELSE CAST(` + month + ` AS BIGINT) END)`
}

// selectBudgets selects budgets as scanBudget reads them. $1 is today, $2 the first day of the
// month.
var selectBudgets = `SELECT b.tenant_id, b.kind, b.name, b.period, b.unit, b.soft, b.hard, b.reserve, b.updated_at, ` +
	spentOf("$1", "$2") + ` AS spent FROM usage_budgets AS b `

func scanBudget(row db.Scanner) (budget, error) {
	var updated int64
	var b budget
	err := row.Scan(&b.TenantID, &b.Kind, &b.Name, &b.Period, &b.Unit, &b.Soft, &b.Hard, &b.Reserve, &updated, &b.Spent)
	b.UpdatedAt = db.Time(updated)
	return b, err
}

// periods returns the first arguments of selectBudgets: today and the first day of the month.
func periods(now time.Time) (int64, int64) {
	return dayOf(now), dayOf(time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC))
}

func listBudgets(ctx context.Context, q db.Querier, tenantID string, page api.Page, now time.Time) ([]budget, int, error) {
	today, month := periods(now)
	part := db.Page{Order: `kind, name`, Limit: page.Size, Offset: page.Offset()}
	return db.List(ctx, q, "list budgets", scanBudget, part, selectBudgets+`WHERE b.tenant_id = $3`, today, month, tenantID)
}

func readBudget(ctx context.Context, q db.Querier, tenantID, kind, name string, now time.Time) (budget, error) {
	today, month := periods(now)
	b, err := scanBudget(q.QueryRowContext(ctx, selectBudgets+`WHERE b.tenant_id = $3 AND b.kind = $4 AND b.name = $5`, today, month, tenantID, kind, name))
	return b, db.WrapOne("read budget", err, noBudget())
}

// lockBudget locks a budget until the transaction ends and returns it, with zero limits if there is
// none.
func lockBudget(ctx context.Context, tx db.Querier, b budget) (budget, error) {
	before := b
	err := tx.QueryRowContext(ctx, `INSERT INTO usage_budgets (tenant_id, kind, name, period, unit, soft, hard, reserve, updated_at)
		VALUES ($1, $2, $3, $4, $5, 0, 0, 0, 0) ON CONFLICT (tenant_id, kind, name) DO UPDATE SET name = excluded.name
		RETURNING period, unit, soft, hard, reserve`, b.TenantID, b.Kind, b.Name, b.Period, b.Unit).
		Scan(&before.Period, &before.Unit, &before.Soft, &before.Hard, &before.Reserve)
	return before, db.Wrap("lock budget", err)
}

// writeBudget replaces a locked budget.
func writeBudget(ctx context.Context, tx db.Querier, b budget, now time.Time) error {
	return db.Exec(ctx, tx, "write budget", `UPDATE usage_budgets SET period = $1, unit = $2, soft = $3, hard = $4, reserve = $5, updated_at = $6
		WHERE tenant_id = $7 AND kind = $8 AND name = $9`, b.Period, b.Unit, b.Soft, b.Hard, b.Reserve, db.Micros(now), b.TenantID, b.Kind, b.Name)
}

func deleteBudget(ctx context.Context, tx db.Querier, tenantID, kind, name string) error {
	n, err := db.Affected(ctx, tx, "delete budget", `DELETE FROM usage_budgets WHERE tenant_id = $1 AND kind = $2 AND name = $3`, tenantID, kind, name)
	if err == nil && n == 0 {
		err = noBudget()
	}

	return err
}

// lockKey is the advisory lock of the hard limit of an agent. A lock of the row would write it.
func lockKey(r CountedRun) string { return lockPrefix + r.TenantID + " " + r.AgentName }

const lockPrefix = "usage_budgets "

// lockBudgets takes the advisory lock of a key on PostgreSQL, and then that of the agent if the
// agent has a hard limit. The statement reads that before it waits for the first lock.
func lockBudgets(ctx context.Context, tx *sql.Tx, r CountedRun, key string) error {
	return db.Exec(ctx, tx, "lock budgets", `SELECT CASE WHEN EXISTS (SELECT 1 FROM usage_budgets
			WHERE tenant_id = $1 AND kind = 'agent' AND name = $2 AND hard > 0) THEN pg_advisory_xact_lock(hashtext($4)) IS NULL END
		FROM pg_advisory_xact_lock(hashtext($3)) AS key`, r.TenantID, r.AgentName, key, lockKey(r))
}

// tokensOf is what a row d of usage_days counts for a budget in tokens.
const tokensOf = `d.input_tokens + d.cache_read_tokens + d.cache_write_tokens + d.output_tokens`

// budgetsOf returns the budgets of a run, that of the agent first.
func budgetsOf(ctx context.Context, q db.Querier, r CountedRun, now time.Time) ([]budget, error) {
	today, month := periods(now)
	return db.Collect(ctx, q, "read budgets", scanBudget, selectBudgets+`WHERE b.tenant_id = $3
			AND (b.kind = 'agent' AND b.name = $4 OR b.kind = 'user' AND b.name = $5) ORDER BY b.kind`, today, month, r.TenantID, r.AgentName, r.UserID)
}

// LimitedUsers returns the number of users of all tenants with a hard limit, which applies to
// chats, and not to runs at /runtime.
func LimitedUsers(ctx context.Context, q db.Querier) (int, error) {
	return db.Value[int](ctx, q, "count budgets", `SELECT COUNT(*) FROM usage_budgets WHERE kind = 'user' AND hard > 0`)
}

// budgetID identifies a budget.
type budgetID struct{ tenantID, kind, name string }

// exceededBudgets returns the budgets of runs that are used up to their soft limits.
func exceededBudgets(ctx context.Context, q db.Querier, runs []CountedRun, now time.Time) (map[budgetID]budget, error) {
	ids := map[budgetID]bool{}
	for _, r := range runs {
		ids[budgetID{r.TenantID, OfAgent, r.AgentName}] = true
		ids[budgetID{r.TenantID, OfUser, r.UserID}] = true
	}

	today, month := periods(now)
	exceeded := map[budgetID]budget{}
	for some := range slices.Chunk(slices.Collect(maps.Keys(ids)), insertWidth) {
		args := []any{today, month}
		for _, id := range some {
			args = append(args, id.tenantID, id.kind, id.name)
		}

		budgets, err := db.Collect(ctx, q, "read exceeded budgets", scanBudget, selectBudgets+`WHERE b.soft > 0 AND (b.tenant_id, b.kind, b.name) IN (VALUES `+
			db.Rows(3, len(some), 3)+`)`, args...)
		if err != nil {
			return nil, err
		}

		for _, b := range budgets {
			if b.Spent >= b.Soft {
				exceeded[budgetID{b.TenantID, b.Kind, b.Name}] = b
			}
		}
	}

	return exceeded, nil
}
