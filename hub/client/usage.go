package client

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/seed93082962/agenthost/hub/wire"
)

// Usage reports tokens and cost, and limits them.
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
func (u Usage) Report(ctx context.Context, f UsageFilter) iter.Seq2[wire.UsageRow, error] {
	return list[wire.UsageRow](ctx, u.c, "/api/v1/admin/usage", f.query())
}

// Totals returns the counts of all groups together.
func (u Usage) Totals(ctx context.Context, f UsageFilter) (wire.UsageCounts, error) {
	query := f.query()
	query.Set("page_size", "1")
	body, err := get[struct {
		Totals wire.UsageCounts `json:"totals"`
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

func budgetPath(kind, name string) string {
	return "/api/v1/admin/budgets/" + segment(kind) + "/" + segment(name)
}

// Budgets yields the limits of tokens and cost.
func (u Usage) Budgets(ctx context.Context) iter.Seq2[wire.Budget, error] {
	return list[wire.Budget](ctx, u.c, "/api/v1/admin/budgets", nil)
}

// Budget returns a budget. Its kind is agent, with the name of the agent, or user, with the id of
// the user.
func (u Usage) Budget(ctx context.Context, kind, name string) (wire.Budget, error) {
	return get[wire.Budget](ctx, u.c, budgetPath(kind, name), nil)
}

// SetBudget creates or replaces a budget.
func (u Usage) SetBudget(ctx context.Context, kind, name string, req wire.BudgetRequest) (wire.Budget, error) {
	return send[wire.Budget](ctx, u.c, http.MethodPut, budgetPath(kind, name), req)
}

// DeleteBudget deletes a budget.
func (u Usage) DeleteBudget(ctx context.Context, kind, name string) error {
	return done(ctx, u.c, http.MethodDelete, budgetPath(kind, name), nil)
}
