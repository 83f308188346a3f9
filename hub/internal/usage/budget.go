package usage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

// Values of Budget.Kind, Budget.Period and Budget.Unit.
const (
	OfAgent = "agent"
	OfUser  = "user"

	PerDay   = "day"   // in UTC
	PerMonth = "month" // of the calendar, in UTC

	InTokens = "tokens" // of input, with those of the cache, and of output
	InCost   = "cost"   // in the currency of the prices
)

// budget is a row of usage_budgets, in tokens or billionths; 0 is no limit.
type budget struct {
	TenantID, Kind, Name, Period, Unit string

	Soft, Hard, Reserve int64
	Spent               int64 // in the current period
	UpdatedAt           time.Time
}

// scale is the number of units of the table in one unit of the API.
func (b budget) scale() float64 {
	if b.Unit == InCost {
		return 1e9
	}

	return 1
}

// resets returns the end of the current period.
func (b budget) resets(now time.Time) time.Time {
	year, month, day := now.UTC().Date()
	if b.Period == PerDay {
		return time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
	}

	return time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
}

func (b budget) view(now time.Time) wire.Budget {
	optional := func(n int64) *float64 {
		if n == 0 {
			return nil
		}

		return new(float64(n) / b.scale())
	}
	return wire.Budget{
		Kind: b.Kind, Name: b.Name, Spent: float64(b.Spent) / b.scale(), ResetsAt: wire.Time{Time: b.resets(now)}, UpdatedAt: wire.Time{Time: b.UpdatedAt},
		BudgetRequest: wire.BudgetRequest{Period: b.Period, Unit: b.Unit, Soft: optional(b.Soft), Hard: optional(b.Hard), Reserve: optional(b.Reserve)},
	}
}

const (
	maxLimit    = 1_000_000_000_000_000 // tokens
	maxCost     = 1_000_000_000         // of the currency
	maxName     = 1000                  // characters
	reservePart = 100                   // of the hard limit that is reserved by default
)

// rowOf returns the row of a budget with these limits.
func rowOf(in wire.BudgetRequest, tenantID, kind, name string) (budget, error) {
	fields := api.Fields{}
	b := budget{TenantID: tenantID, Kind: kind, Name: fields.Line("name", name, 1, maxName), Period: in.Period, Unit: in.Unit}
	if in.Period != PerDay && in.Period != PerMonth {
		fields.Add("period", "must be day or month")
	}

	if in.Unit != InTokens && in.Unit != InCost {
		fields.Add("unit", "must be tokens or cost")
	}

	most := float64(maxLimit)
	if in.Unit == InCost {
		most = maxCost
	}

	amount := func(name string, value *float64) int64 {
		if value == nil {
			return 0
		}

		n := math.Round(*value * b.scale())
		switch {
		case n < 1 || *value > most:
			fields.Add(name, fmt.Sprintf("must be a positive number up to %.0f", most))
		case in.Unit == InTokens && n != *value:
			fields.Add(name, "must be a whole number of tokens")
		}

		return int64(n)
	}
	b.Soft, b.Hard, b.Reserve = amount("soft", in.Soft), amount("hard", in.Hard), amount("reserve", in.Reserve)
	switch {
	case in.Soft == nil && in.Hard == nil:
		fields.Add("hard", "must be given, or soft")
	case in.Hard == nil && in.Reserve != nil:
		fields.Add("reserve", "is only for a hard limit")
	case in.Hard != nil && in.Soft != nil && b.Soft > b.Hard:
		fields.Add("soft", "must not be above hard")
	case in.Hard != nil && in.Reserve != nil && b.Reserve > b.Hard:
		fields.Add("reserve", "must not be above hard")
	case in.Hard != nil && in.Reserve == nil:
		b.Reserve = max(1, b.Hard/reservePart)
	}

	return b, fields.Err()
}

// The audit actions of this package.
var (
	actionUpdateBudget = auditlog.Define[updateBudgetDetail]("agent.update_budget")
	actionDeleteBudget = auditlog.Define[deleteBudgetDetail]("agent.delete_budget")
)

type updateBudgetDetail struct {
	Period  *auditlog.Change[string]  `json:"period,omitempty"`
	Unit    *auditlog.Change[string]  `json:"unit,omitempty"`
	Soft    *auditlog.Change[float64] `json:"soft,omitempty"` // 0 is none
	Hard    *auditlog.Change[float64] `json:"hard,omitempty"`
	Reserve *auditlog.Change[float64] `json:"reserve,omitempty"`
}

type deleteBudgetDetail struct{}

// event returns the event of a change of a budget. owner is the name of its agent or user.
func (b budget) event(caller api.Caller, owner string) auditlog.Event {
	return caller.Event().WithTarget(b.Kind+"_budget", b.Name, owner)
}

// Budgets returns a page of the budgets of the tenant, those of agents first.
func (s *Service) Budgets(ctx context.Context, caller api.Caller, page api.Page) (api.List[wire.Budget], error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return api.List[wire.Budget]{}, err
	}

	now := s.store.Now()
	rows, total, err := listBudgets(ctx, s.store.Read(), caller.TenantID, page, now)
	list := api.List[wire.Budget]{Total: total}
	for _, b := range rows {
		list.Items = append(list.Items, b.view(now))
	}

	return list, err
}

// Budget returns the budget of an agent or a user. It fails with wire.NotFound if there is none.
func (s *Service) Budget(ctx context.Context, caller api.Caller, kind, name string) (wire.Budget, error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return wire.Budget{}, err
	}

	now := s.store.Now()
	b, err := readBudget(ctx, s.store.Read(), caller.TenantID, kind, name, now)
	return b.view(now), err
}

func noBudget() error { return wire.NotFound.New("There is no such budget.") }

// SetBudget creates or replaces the budget of an agent or a user. It applies to what was used
// before in the period. It fails with wire.NotFound if there is no such agent or user.
func (s *Service) SetBudget(ctx context.Context, caller api.Caller, kind, name string, in wire.BudgetRequest) (wire.Budget, error) {
	if kind != OfAgent && kind != OfUser {
		return wire.Budget{}, noBudget()
	}

	b, err := rowOf(in, caller.TenantID, kind, name)
	if err != nil {
		return wire.Budget{}, err
	}

	if kind == OfAgent && s.agent != nil {
		if _, err := s.agent(ctx, caller, name); err != nil {
			return wire.Budget{}, err
		}
	}

	owner := name
	if kind == OfUser && s.user != nil {
		u, err := s.user(ctx, caller, name)
		if err != nil {
			return wire.Budget{}, err
		}

		name, owner, b.Name = u.ID, u.Username, u.ID
	}

	var stored budget
	now := s.store.Now()
	err = s.store.Change(ctx, store.Change{Caller: caller, Group: rbac.AdminOnly}, func(tx *store.Tx) error {
		before, err := lockBudget(ctx, tx, b)
		if err != nil {
			return err
		}

		if before == b {
			if stored, err = readBudget(ctx, tx, caller.TenantID, kind, name, now); err != nil {
				return err
			}

			return tx.Unchanged()
		}

		if err := writeBudget(ctx, tx, b, now); err != nil {
			return err
		}

		from, to := before.view(now), b.view(now)
		if before.Soft+before.Hard == 0 { // there was none
			from = wire.Budget{}
		}

		tx.Record(actionUpdateBudget.Record(b.event(caller, owner), updateBudgetDetail{
			Period: auditlog.Diff(from.Period, to.Period), Unit: auditlog.Diff(from.Unit, to.Unit), Soft: diff(from.Soft, to.Soft),
			Hard: diff(from.Hard, to.Hard), Reserve: diff(from.Reserve, to.Reserve),
		}))
		stored, err = readBudget(ctx, tx, caller.TenantID, kind, name, now)
		return err
	})
	return stored.view(now), err
}

func diff(from, to *float64) *auditlog.Change[float64] {
	value := func(n *float64) float64 {
		if n == nil {
			return 0
		}

		return *n
	}
	return auditlog.Diff(value(from), value(to))
}

// DeleteBudget deletes the budget of an agent or a user. It fails with wire.NotFound if there is
// none.
func (s *Service) DeleteBudget(ctx context.Context, caller api.Caller, kind, name string) error {
	owner := name
	if kind == OfUser && s.user != nil {
		if u, err := s.user(ctx, caller, name); err == nil { // else there is no budget, or no permission
			name, owner = u.ID, u.Username
		}
	}

	return s.store.Change(ctx, store.Change{Caller: caller, Group: rbac.AdminOnly}, func(tx *store.Tx) error {
		return dropBudget(ctx, tx, kind, name, owner)
	})
}

// DropBudget deletes the budget of an agent or a user, if there is one, in the transaction that
// deletes the agent or the user: a later agent of the name has none. What was used remains in
// reports, and runs in progress count at their ends. name is that of the agent or the id of the
// user, and owner the name of either.
func (s *Service) DropBudget(ctx context.Context, tx *store.Tx, kind, name, owner string) error {
	if err := dropBudget(ctx, tx, kind, name, owner); !errors.Is(err, wire.NotFound) {
		return err
	}

	return nil
}

// dropBudget deletes a budget of the tenant of the caller. It fails with wire.NotFound if there is
// none.
func dropBudget(ctx context.Context, tx *store.Tx, kind, name, owner string) error {
	if err := deleteBudget(ctx, tx, tx.Caller.TenantID, kind, name); err != nil {
		return err
	}

	tx.Record(actionDeleteBudget.Record(budget{Kind: kind, Name: name}.event(tx.Caller, owner), deleteBudgetDetail{}))
	return nil
}
