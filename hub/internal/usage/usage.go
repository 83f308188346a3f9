// Package usage counts the tokens of runs and their cost, by agent, model, user and day, and limits
// them.
//
//	service, err := usage.New(usage.Config{Store: store})
//	if err != nil { ... }
//	handler, err := api.New(config, service.Routes()...)
//	...
//	counted, warnings, err := service.Record(ctx, tx, runs...) // in the transaction that stores their ends
//
// A run is counted once, by its id, on the day of its end in UTC. The cost is that of the prices at
// this time: a later change of a price does not change it. Reports read sums of days and
// weeks, which are written in the same transaction as the runs.
//
// A budget limits what the runs of an agent or of a user use in a day or a month:
// [Service.SetBudget]. The hard limits are checked by the statement that stores the begin of a run:
// [Service.Lock], [Service.Admitted]. Record returns the budgets that are used up to their soft
// limits. A run outside of chats is one of [Service.NewDirect].
package usage

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

//go:embed migrations
var files embed.FS

// Migrations create the tables that a Service requires.
var Migrations = db.Embedded("usage", files)

// Config configures [New].
type Config struct {
	// Store has a database with Migrations applied, and has joined. Required.
	Store *store.Store

	// Prices are those of models by name, in addition to [DefaultPrices]: one of the same name
	// replaces the default. A name that ends in * is a prefix; the longest matching name applies.
	// A model without a price costs nothing. Defaults to none.
	Prices map[string]Price

	// Retention is the age at which Prune deletes the rows of runs. Reports and budgets read sums
	// of days, which remain. Defaults to no pruning.
	Retention time.Duration

	// Agent reports whether an agent is enabled, and fails with wire.NotFound if the caller has no
	// access to such an agent. Defaults to every agent.
	Agent func(ctx context.Context, caller api.Caller, name string) (enabled bool, err error)

	// Answers returns an expression of SQL for the number of chat answers in progress of an agent,
	// in all hubs, and the arguments of its placeholders, which begin with the number next.
	// Defaults to 0.
	Answers func(tenantID, agentName string, next int) (count string, args []any)

	// Models returns the names of all models of an agent, those of its subagents among them.
	// Defaults to none, so that budgets in cost limit every agent.
	Models func(ctx context.Context, q db.Querier, tenantID, agentName string) ([]string, error)

	// User returns a user, whose id is as runs have it, and fails with wire.NotFound if the tenant
	// has no such user. Defaults to every id.
	User func(ctx context.Context, caller api.Caller, id string) (wire.User, error)
}

// Service counts tokens. It is safe for concurrent use.
type Service struct {
	store     *store.Store
	prices    map[string]Price
	retention time.Duration
	agent     func(ctx context.Context, caller api.Caller, name string) (enabled bool, err error)
	user      func(ctx context.Context, caller api.Caller, id string) (wire.User, error)
	answers   func(tenantID, agentName string, next int) (count string, args []any)
	models    func(ctx context.Context, q db.Querier, tenantID, agentName string) ([]string, error)
	direct    direct
	metrics   *metrics
}

// New returns a Service. It fails if a price is not valid.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil {
		return nil, errors.New("create usage service: Store is required")
	}

	s := &Service{store: cfg.Store, prices: DefaultPrices(), retention: cfg.Retention, agent: cfg.Agent, user: cfg.User, answers: cfg.Answers, models: cfg.Models}
	if s.models == nil {
		s.models = func(context.Context, db.Querier, string, string) ([]string, error) { return nil, nil }
	}

	if s.answers == nil {
		s.answers = func(string, string, int) (string, []any) { return "0", nil }
	}

	var err error
	if s.metrics, err = newMetrics(cfg.Store.MeterProvider); err != nil {
		return nil, fmt.Errorf("create usage service: %w", err)
	}

	for name, price := range cfg.Prices {
		if err := price.Check(name); err != nil {
			return nil, err
		}

		s.prices[name] = price
	}

	return s, nil
}

// CountedRun is a run as its usage counts.
type CountedRun struct {
	ID        string
	TenantID  string
	AgentName string
	UserID    string
	UserName  string

	Model  string            // of the agent
	Tokens runtimewire.Usage // of the whole run, or those that are known of one that is Unreported

	// Others are the tokens of subagents with other models, which are a part of Tokens.
	Others map[string]runtimewire.Usage

	// Unreported reports that a runtime has perhaps accepted the run, and that its tokens are not
	// known: the runtime or the hub was killed, or the connection was lost.
	Unreported bool

	// Free reports that no budget in cost limits the begin of the run: see [Service.Free].
	Free bool

	cost wire.Amount // the least cost of one that is Unreported
}

// part is the use of one model by a run: a row of usage_runs.
type part struct {
	run    CountedRun
	model  string
	counts wire.UsageCounts
	day    int64 // of one that was counted before
}

// partID identifies a row of usage_runs.
type partID struct{ tenantID, runID, model string }

func (p part) id() partID { return partID{p.run.TenantID, p.run.ID, p.model} }

// parts returns the use of each model, first that of the agent, which counts the run.
func (s *Service) parts(r CountedRun) []part {
	most := int64(maxTokens)
	if r.Unreported {
		most = maxLimit // of a reserve
	}

	rest := bounded(r.Tokens, most)
	var others []part
	for _, model := range slices.Sorted(maps.Keys(r.Others)) {
		u := bounded(r.Others[model], maxTokens)
		if model == r.Model {
			continue
		}

		rest.InputTokens -= u.InputTokens
		rest.OutputTokens -= u.OutputTokens
		rest.CacheCreationInputTokens -= u.CacheCreationInputTokens
		rest.CacheReadInputTokens -= u.CacheReadInputTokens
		rest.ReasoningTokens -= u.ReasoningTokens
		others = append(others, part{run: r, model: model, counts: countsOf(u)})
	}

	own := part{run: r, model: r.Model, counts: countsOf(bounded(rest, most))}
	own.counts.Runs = 1
	all := append([]part{own}, others...)
	lacking := r.cost
	for i := range all {
		price, _ := priceOf(s.prices, all[i].model) // without one, it costs nothing
		all[i].counts.Cost = price.of(all[i].counts)
		lacking -= all[i].counts.Cost
	}

	all[0].counts.Cost += max(0, lacking)
	return all
}

// settle returns what runs count. One that is Unreported counts at least the reserve of each of its
// budgets, which it held until its end: the tokens that are not known are those of input.
func settle(ctx context.Context, q db.Querier, runs []CountedRun, now time.Time) ([]CountedRun, error) {
	settled := slices.Clone(runs)
	for i := range settled {
		r := &settled[i]
		if !r.Unreported {
			continue
		}

		budgets, err := budgetsOf(ctx, q, *r, now)
		if err != nil {
			return nil, err
		}

		r.Tokens = bounded(r.Tokens, maxTokens)
		r.Tokens.Estimated = true
		for _, b := range budgets {
			if b.Unit == InCost {
				r.cost = max(r.cost, wire.Amount(b.Reserve))
				continue
			}

			known := r.Tokens.InputTokens + r.Tokens.CacheReadInputTokens + r.Tokens.CacheCreationInputTokens + r.Tokens.OutputTokens
			r.Tokens.InputTokens += max(0, b.Reserve-known)
		}
	}

	return settled, nil
}

// key identifies a row of usage_days.
type key struct {
	tenantID, slice string
	day             int64
	agentName       string
	userID, model   string
}

func (k key) compare(other key) int {
	return slices.Compare(
		[]string{k.tenantID, k.slice, k.agentName, k.userID, k.model},
		[]string{other.tenantID, other.slice, other.agentName, other.userID, other.model})
}

// Slices of usage_days.
const (
	sliceAgent = "agent"
	sliceUser  = "user"
	sliceAll   = "all"
)

// sum is what is added to a row of usage_days.
type sum struct {
	userName string
	counts   wire.UsageCounts
}

// Record counts runs that have ended, in the transaction that stores their ends. A run that was
// counted before is ignored, unless it was Unreported and now is not. Its rows are locked in the
// same order by all transactions. It returns the runs as they count: only here it is decided what
// one without a report does. It also returns the budgets of each run that are used up to their soft
// limits, by the id of the run.
func (s *Service) Record(ctx context.Context, tx *sql.Tx, runs ...CountedRun) ([]CountedRun, map[string][]wire.Budget, error) {
	now := s.store.Now()
	settled, err := settle(ctx, tx, runs, now)
	if err != nil {
		return nil, nil, err
	}

	sums := map[key]sum{}
	uncounted, err := s.replace(ctx, tx, settled, sums)
	if err != nil {
		return nil, nil, err
	}

	var all []part
	for _, r := range uncounted {
		all = append(all, s.parts(r)...)
	}

	counted, err := insertRuns(ctx, tx, all, now)
	if err != nil {
		return nil, nil, err
	}

	for _, p := range all {
		if counted[p.id()] {
			p.addTo(sums, dayOf(now))
		}
	}

	if err := addSums(ctx, tx, "usage_days", sums); err != nil {
		return nil, nil, err
	}

	if err := addSums(ctx, tx, "usage_weeks", ofWeeks(sums)); err != nil {
		return nil, nil, err
	}

	warnings, err := s.warnings(ctx, tx, runs, now)
	return settled, warnings, err
}

// replace returns the runs that are not counted. Those that were counted without a report, and now
// have one, are among them: their former counts are deleted, and subtracted from the sums.
func (s *Service) replace(ctx context.Context, tx *sql.Tx, runs []CountedRun, sums map[key]sum) ([]CountedRun, error) {
	counted, err := findRuns(ctx, tx, runs)
	if err != nil {
		return nil, err
	}

	var uncounted []CountedRun
	for _, r := range runs {
		id := partID{tenantID: r.TenantID, runID: r.ID}
		unreported, found := counted[id]
		if found && (!unreported || r.Unreported) {
			continue
		}

		counted[id] = r.Unreported
		uncounted = append(uncounted, r)
		if !found {
			continue
		}

		former, err := deleteRun(ctx, tx, r)
		if err != nil {
			return nil, err
		}

		for _, p := range former {
			p.counts = negative(p.counts)
			p.addTo(sums, p.day)
		}
	}

	return uncounted, nil
}

// addTo adds to the sums of all slices.
func (p part) addTo(sums map[key]sum, day int64) {
	full := key{tenantID: p.run.TenantID, slice: sliceAll, day: day, agentName: p.run.AgentName, userID: p.run.UserID, model: p.model}
	agent, user := full, full
	agent.slice, agent.userID = sliceAgent, ""
	user.slice, user.agentName, user.model = sliceUser, "", ""
	for _, k := range []key{full, agent, user} {
		one := sums[k]
		one.counts = plus(one.counts, p.counts)
		if k.userID != "" {
			one.userName = p.run.UserName
		}

		sums[k] = one
	}
}

// daySeconds is the length of a day in UTC, which has no other days.
const daySeconds = 24 * 60 * 60

// weekDays is the number of days of a row of usage_weeks, the first of which it divides.
const weekDays = 7

func dayOf(t time.Time) int64 { return t.Unix() / daySeconds }

func dateOf(day int64) string { return time.Unix(day*daySeconds, 0).UTC().Format(time.DateOnly) }
