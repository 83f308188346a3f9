package client

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Usage reports tokens and cost.
type Usage struct{ c *Client }

// UsageFilter selects runs and groups them. Empty fields match every run.
type UsageFilter struct {
	From  string   // first day in UTC, as 2006-01-02
	To    string   // last day
	By    []string // day, agent, user and model
	Agent string
	User  string
	Model string
}

func (f UsageFilter) query() url.Values {
	return url.Values{
		"from": {f.From}, "to": {f.To}, "by": {strings.Join(f.By, ",")}, "agent": {f.Agent}, "user": {f.User}, "model": {f.Model},
	}
}

// Report yields a row for each group.
func (u Usage) Report(ctx context.Context, f UsageFilter) iter.Seq2[UsageRow, error] {
	return list[UsageRow](ctx, u.c, "/api/v1/admin/usage", f.query())
}

// Totals returns the counts of all groups together.
func (u Usage) Totals(ctx context.Context, f UsageFilter) (UsageCounts, error) {
	query := f.query()
	query.Set("page_size", "1")
	body, err := get[struct {
		Totals UsageCounts `json:"totals"`
	}](ctx, u.c, "/api/v1/admin/usage", query)
	return body.Totals, err
}

// Export returns the report as CSV. The caller closes it.
func (u Usage) Export(ctx context.Context, f UsageFilter) (io.ReadCloser, error) {
	return u.c.export(ctx, withQuery("/api/v1/admin/usage/export", f.query()), "text/csv")
}

// export requests a body of any length.
func (c *Client) export(ctx context.Context, path, media string) (io.ReadCloser, error) {
	res, err := c.do(ctx, request{method: http.MethodGet, path: path, accept: media})
	if err != nil {
		return nil, err
	}

	if err := expect(res, media); err != nil {
		_ = res.Body.Close()
		return nil, err
	}

	return res.Body, nil
}

// Budgets reads and changes limits of tokens and cost. The kind of a budget is agent, with the name
// of the agent, or user, with the id of the user.
type Budgets struct{ c *Client }

func budgetPath(kind, name string) string {
	return "/api/v1/admin/budgets/" + segment(kind) + "/" + segment(name)
}

// List yields the budgets.
func (b Budgets) List(ctx context.Context) iter.Seq2[Budget, error] {
	return list[Budget](ctx, b.c, "/api/v1/admin/budgets", nil)
}

// Get returns a budget.
func (b Budgets) Get(ctx context.Context, kind, name string) (Budget, error) {
	return get[Budget](ctx, b.c, budgetPath(kind, name), nil)
}

// Set creates or replaces a budget.
func (b Budgets) Set(ctx context.Context, kind, name string, req BudgetRequest) (Budget, error) {
	return send[Budget](ctx, b.c, http.MethodPut, budgetPath(kind, name), req)
}

// Delete deletes a budget.
func (b Budgets) Delete(ctx context.Context, kind, name string) error {
	return done(ctx, b.c, http.MethodDelete, budgetPath(kind, name), nil)
}

// UsageRow has the usage of a group of runs.
type UsageRow struct {
	Day       string `json:"day,omitempty"`
	AgentName string `json:"agentName,omitempty"`
	UserID    string `json:"userId,omitempty"`
	// As of one of the runs.
	UserName string `json:"userName,omitempty"`
	// Absent if the run was cancelled before its first event.
	Model            string  `json:"model,omitempty"`
	Runs             int64   `json:"runs"`
	InputTokens      int64   `json:"inputTokens"`
	CacheReadTokens  int64   `json:"cacheReadTokens"`
	CacheWriteTokens int64   `json:"cacheWriteTokens"`
	OutputTokens     int64   `json:"outputTokens"`
	ReasoningTokens  int64   `json:"reasoningTokens"`
	Cost             float64 `json:"cost"`
	// Absent without estimates.
	Estimates int64 `json:"estimates,omitempty"`
}

// UsageCounts are tokens and their cost.
type UsageCounts struct {
	// A run counts for the model of its agent.
	Runs int64 `json:"runs"`
	// Without those of the cache.
	InputTokens      int64 `json:"inputTokens"`
	CacheReadTokens  int64 `json:"cacheReadTokens"`
	CacheWriteTokens int64 `json:"cacheWriteTokens"`
	OutputTokens     int64 `json:"outputTokens"`
	// A part of outputTokens. 0 if the model does not count them.
	ReasoningTokens int64 `json:"reasoningTokens"`
	// In the currency of the prices, by default US dollars. 0 for a model without a price.
	Cost float64 `json:"cost"`
	// Of each run, one for each model whose tokens are estimated. Absent without estimates.
	Estimates int64 `json:"estimates,omitempty"`
}

// Budget limits the usage of an agent or a user.
type Budget struct {
	Kind string `json:"kind"`
	// Of the agent, or the id of the user.
	Name   string `json:"name"`
	Period string `json:"period"`
	// tokens are those of input, with those of the cache, and of output.
	Unit string   `json:"unit"`
	Soft *float64 `json:"soft,omitempty"`
	Hard *float64 `json:"hard,omitempty"`
	// Absent without a hard limit.
	Reserve *float64 `json:"reserve,omitempty"`
	// Of runs that have ended in the current period.
	Spent     float64   `json:"spent"`
	ResetsAt  time.Time `json:"resetsAt"`
	UpdatedAt time.Time `json:"updatedAt"`
}

// BudgetRequest creates or replaces a budget. Soft or Hard is required.
type BudgetRequest struct {
	// Of the calendar in UTC.
	Period string `json:"period"`
	Unit   string `json:"unit"`
	// From which answers have a warning. At most hard.
	Soft *float64 `json:"soft,omitempty"`
	// Which runs that begin must not exceed.
	Hard *float64 `json:"hard,omitempty"`
	// What each run in progress counts. By default a hundredth of hard, which it must not
	// exceed.
	Reserve *float64 `json:"reserve,omitempty"`
}
