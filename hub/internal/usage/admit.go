package usage

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
)

// reservedFor is how long a caller should wait whose budget is reserved by runs in progress.
const reservedFor = 5 * time.Second

// Lock makes transactions that store the begins of runs of one budget with a hard limit wait for
// each other, until their ends. On PostgreSQL it takes the advisory lock of the key, which must be
// one of the user of the run: those that begin runs of one user wait for each other in any case. On
// SQLite all transactions wait for each other.
//
// A run that waits while its agent gets its first hard limit is checked, and does not wait for
// others of the agent.
func (s *Service) Lock(ctx context.Context, tx *sql.Tx, r CountedRun, key string) error {
	if s.store.DB.Engine() != db.PostgreSQL {
		return nil
	}

	return lockBudgets(ctx, tx, r, key)
}

// Unlocked is a condition of SQL that takes the lock of the hard limit of an agent, if it has one,
// as Lock does, and holds unless another transaction has it. The arguments are expressions.
func Unlocked(tenantID, agentName string) string {
	return `(NOT EXISTS (SELECT 1 FROM usage_budgets AS b WHERE b.tenant_id = ` + tenantID + ` AND b.kind = 'agent' AND b.name = ` + agentName + ` AND b.hard > 0)
		OR pg_try_advisory_xact_lock(hashtext('` + lockPrefix + `' || ` + tenantID + ` || ' ' || ` + agentName + `)))`
}

// Columns are expressions of SQL for the tenant, the agent and the user of a run.
type Columns struct{ Tenant, Agent, User string }

// Admitted returns a condition of SQL, and the arguments of its placeholders, which begin with the
// number next, for the statement that stores the begin of a run after Lock. It holds if each of the
// budgets of the run has a reserve for one more run. The statement reads the limits, so that a
// limit that was changed while Lock waited applies. Each run in progress counts with the reserve of
// the budget. ofAgent and ofUser are expressions of SQL for the numbers of those that the caller
// has stored, in all hubs; runs of [Direct.Begin] count in addition. free is [CountedRun].Free.
func (s *Service) Admitted(of Columns, free bool, ofAgent, ofUser string, next int) (string, []any) {
	today, month := periods(s.store.Now())
	first, second := fmt.Sprintf("$%d", next), fmt.Sprintf("$%d", next+1)
	limiting := ""
	if free {
		limiting = "AND b.unit <> 'cost'"
	}

	// An engine may compute the quotient of a budget without a hard limit, which has no reserve.
	affords := func(kind, name, others string) string {
		return `NOT EXISTS (SELECT 1 FROM usage_budgets AS b WHERE b.tenant_id = ` + of.Tenant + ` AND b.kind = '` + kind + `' AND b.name = ` + name + `
			AND b.hard > 0 ` + limiting + ` AND (b.hard - ` + spentOf(first, second) + `) / NULLIF(b.reserve, 0) <= ` + others + `)`
	}
	ofAgent += ` + (SELECT COUNT(*) FROM usage_reserves AS u WHERE u.tenant_id = ` + of.Tenant + ` AND u.agent_name = ` + of.Agent + `)`
	return affords(OfAgent, of.Agent, ofAgent) + ` AND ` + affords(OfUser, of.User, ofUser), []any{today, month}
}

// Free reports whether a run costs nothing, because no model of its agent has a price. A caller
// whose condition of Admitted does not hold tries again with [CountedRun].Free then.
func (s *Service) Free(ctx context.Context, q db.Querier, r CountedRun) (bool, error) {
	models, err := s.models(ctx, q, r.TenantID, r.AgentName)
	for _, model := range models {
		if price, _ := priceOf(s.prices, model); price != (Price{}) {
			return false, err
		}
	}

	return len(models) > 0, err
}

// Refusal returns the error of a run for which the condition of Admitted does not hold, with
// wire.RateLimited. ofAgent and ofUser are the numbers of the expressions. It returns nil if the
// condition holds.
func (s *Service) Refusal(ctx context.Context, tx *sql.Tx, r CountedRun, ofAgent, ofUser int) error {
	now := s.store.Now()
	budgets, err := budgetsOf(ctx, tx, r, now)
	if err != nil {
		return err
	}

	reserves, err := countReserves(ctx, tx, r)
	if err != nil {
		return err
	}

	for _, b := range budgets {
		if b.Unit == InCost && r.Free {
			continue
		}

		others := ofAgent + reserves
		if b.Kind == OfUser {
			others = ofUser
		}

		if err := b.admit(int64(others), now); err != nil {
			return err
		}
	}

	return nil
}

// admit fails if the budget has no reserve for one more run.
func (b budget) admit(others int64, now time.Time) error {
	if b.Hard == 0 {
		return nil
	}

	who, what := "The agent has", "budget"
	if b.Kind == OfUser {
		who = "You have"
	}

	if b.Unit == InTokens {
		what = "tokens"
	}

	resets := b.resets(now)
	period, until := "today's", "midnight UTC"
	if b.Period == PerMonth {
		period, until = "this month's", resets.Format("2 January")+", midnight UTC"
	}

	switch runs := (b.Hard - b.Spent) / b.Reserve; { // that have a reserve: see admits
	case runs > others:
		return nil
	case runs > 0:
		message := fmt.Sprintf("The rest of %s %s is reserved by answers in progress: send the message again when one of them has ended.", period, what)
		return &api.Refusal{Err: &wire.Error{Code: wire.RateLimited, RetryAfter: reservedFor, Message: message}, Limit: api.LimitBudget}
	}

	message := fmt.Sprintf("%s used all of %s %s: no message is accepted until %s.", who, period, what, until)
	return &api.Refusal{Err: &wire.Error{Code: wire.RateLimited, RetryAfter: resets.Sub(now), Message: message}, Limit: api.LimitBudget}
}

// warnings returns the budgets of each run that are used up to their soft limits, by the id of the
// run.
func (s *Service) warnings(ctx context.Context, tx *sql.Tx, runs []CountedRun, now time.Time) (map[string][]wire.Budget, error) {
	exceeded, err := exceededBudgets(ctx, tx, runs, now)
	if err != nil || len(exceeded) == 0 {
		return nil, err
	}

	all := map[string][]wire.Budget{}
	for _, r := range runs {
		for _, id := range []budgetID{{r.TenantID, OfAgent, r.AgentName}, {r.TenantID, OfUser, r.UserID}} {
			if b, ok := exceeded[id]; ok {
				all[r.ID] = append(all[r.ID], b.view(now))
			}
		}
	}

	return all, nil
}
