package usage

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
)

// reservedFor is how long a caller should wait whose budget is reserved by runs in progress.
const reservedFor = 5 * time.Second

// Running returns the number of runs in progress of an agent and of a user, in all hubs.
type Running func(ctx context.Context) (ofAgent, ofUser int, err error)

// Admit checks the hard limits of the agent and the user of a run, in the transaction that stores
// its begin. Each run in progress counts with the reserve of the budget. It fails with
// api.RateLimited. Transactions that admit runs of one budget wait for each other. On PostgreSQL
// it also takes the advisory lock of the key, which the transaction would otherwise take in a
// statement of its own.
func (s *Service) Admit(ctx context.Context, tx *sql.Tx, r Run, key string, running Running) error {
	found, err := lockBudgets(ctx, tx, s.store.DB.Engine(), r, key)
	if err != nil || !found {
		return err
	}
	// A run that ends between these statements is counted twice, and not missed.
	ofAgent, ofUser, err := running(ctx)
	if err != nil {
		return err
	}
	now := s.store.Now()
	budgets, err := budgetsOf(ctx, tx, r, now)
	if err != nil {
		return err
	}
	for _, b := range budgets {
		others := ofAgent
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
	whose := "The agent has a budget for each " + b.Period
	if b.Kind == OfUser {
		whose = "You have a budget for each " + b.Period
	}
	switch runs := (b.Hard - b.Spent) / b.Reserve; { // that have a reserve
	case runs > others:
		return nil
	case runs > 0:
		message := whose + ", and the rest is reserved by answers in progress: send the message again when one of them has ended."
		return &api.Error{Code: api.RateLimited, RetryAfter: reservedFor, Limit: api.LimitBudget, Message: message}
	}
	resets := b.resets(now)
	message := fmt.Sprintf("%s, which is used up: it resets at %s.", whose, resets.Format(time.RFC3339))
	return &api.Error{Code: api.RateLimited, RetryAfter: resets.Sub(now), Limit: api.LimitBudget, Message: message}
}

// warnings returns the budgets of each run that are used up to their soft limits, by the id of the
// run.
func (s *Service) warnings(ctx context.Context, tx *sql.Tx, runs []Run, now time.Time) (map[string][]Budget, error) {
	exceeded, err := exceededBudgets(ctx, tx, runs, now)
	if err != nil || len(exceeded) == 0 {
		return nil, err
	}
	all := map[string][]Budget{}
	for _, r := range runs {
		for _, id := range []budgetID{{r.TenantID, OfAgent, r.AgentName}, {r.TenantID, OfUser, r.UserID}} {
			if b, ok := exceeded[id]; ok {
				all[r.ID] = append(all[r.ID], b.view(now))
			}
		}
	}
	return all, nil
}
