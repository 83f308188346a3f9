package usage

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

// Routes returns the routes of reports and budgets.
func (s *Service) Routes() []api.Route {
	read := func(path string, handle api.Handler) api.Route {
		return api.Route{
			Method: http.MethodGet, Path: "/api/v1/admin/usage" + path, Group: rbac.AdminWrite, Category: "agent", Large: true, Handle: handle,
		}
	}
	budgets := func(method, path string, group rbac.Group, handle api.Handler) api.Route {
		return api.Route{
			Method: method, Path: "/api/v1/admin/budgets" + path, Group: group, Category: "agent", Large: method == http.MethodGet, Handle: handle,
		}
	}
	return []api.Route{
		read("", api.Result(http.StatusOK, func(r *http.Request) (Report, error) {
			page, err := api.Paging(r)
			if err != nil {
				return Report{}, err
			}

			in, err := s.query(r)
			if err != nil {
				return Report{}, err
			}

			return s.Report(r.Context(), api.CallerOf(r), in, page)
		})),
		read("/export", s.export),
		budgets(http.MethodGet, "", rbac.AdminWrite, api.ListOf(s.Budgets)),
		budgets(http.MethodGet, "/:kind/:name", rbac.AdminWrite, api.Result(http.StatusOK, func(r *http.Request) (wire.Budget, error) {
			return s.Budget(r.Context(), api.CallerOf(r), r.PathValue("kind"), r.PathValue("name"))
		})),
		budgets(http.MethodPut, "/:kind/:name", rbac.AdminOnly, api.ResultOf(http.StatusOK, func(r *http.Request, in wire.BudgetRequest) (wire.Budget, error) {
			return s.SetBudget(r.Context(), api.CallerOf(r), r.PathValue("kind"), r.PathValue("name"), in)
		})),
		budgets(http.MethodDelete, "/:kind/:name", rbac.AdminOnly, api.Done(func(r *http.Request) error {
			return s.DeleteBudget(r.Context(), api.CallerOf(r), r.PathValue("kind"), r.PathValue("name"))
		})),
	}
}

// export responds with all rows of a report as CSV.
func (s *Service) export(w http.ResponseWriter, r *http.Request) error {
	in, err := s.query(r)
	if err != nil {
		return err
	}

	report, err := s.Report(r.Context(), api.CallerOf(r), in, api.Page{Number: 1, Size: maxRows})
	if err != nil {
		return err
	}

	w.Header().Set("Content-Type", "text/csv; charset=utf-8; header=present")
	w.Header().Set("Content-Disposition", `attachment; filename="usage-`+report.From+"-"+report.To+`.csv"`)
	text := report.csv(in.By)
	if r.URL.Query().Get("bom") == "true" {
		text = append([]byte("\uFEFF"), text...) // by which spreadsheets recognize UTF-8
	}

	_, err = w.Write(text)
	return err
}

// defaultDays is the range of a report without from.
const defaultDays = 30

// query parses from, to, by, agent, user and model of the query. Empty values count as omitted.
func (s *Service) query(r *http.Request) (Query, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return Query{}, wire.InvalidRequest.New("The query string is malformed: escape it as in a URL.")
	}

	in := Query{By: []string{ByDay}, Agent: values.Get("agent"), User: values.Get("user"), Model: values.Get("model")}
	if by := values.Get("by"); by != "" {
		in.By = strings.Split(by, ",")
	}

	fields := map[string]string{}
	day := func(name string, otherwise time.Time) time.Time {
		value := values.Get(name)
		if value == "" {
			return otherwise
		}

		at, err := time.Parse(time.DateOnly, value)
		if err != nil || at.Year() < 1970 {
			fields[name] = "must be a day in the form of 2006-01-02"
		}

		return at
	}
	in.To = day("to", s.store.Now())
	in.From = day("from", in.To.AddDate(0, 0, 1-defaultDays))
	if values.Get("to") == "" && in.From.After(in.To) {
		in.To = in.From // it can be the present day of the client
	}

	return in, invalid(fields)
}
