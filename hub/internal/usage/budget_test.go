package usage_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

const budgets = "/api/v1/admin/budgets"

func TestBudgets(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		s := open(t, url, prices)
		ada, eva, zeta := s.As("acme", "ada", rbac.Admin), s.As("acme", "eva", rbac.Maintainer), s.As("zeta", "zoe", rbac.Admin)
		s.record(of("0", "helper", "ada", "m", runtimewire.Usage{OutputTokens: 100}))
		s.set("2026-03-11T12:00:00Z")
		s.record(of("1", "helper", "ada", "m", runtimewire.Usage{InputTokens: 1, CacheReadInputTokens: 2, CacheCreationInputTokens: 3, OutputTokens: 4}))
		s.record(of("2", "helper", "bob", "n-1", runtimewire.Usage{OutputTokens: 10}), of("3", "writer", "ada", "m", runtimewire.Usage{OutputTokens: 1}))

		limits := object{"period": "month", "unit": "tokens", "soft": 500, "hard": 1000}
		want := object{
			"kind": "agent", "name": "helper", "period": "month", "unit": "tokens", "soft": 500.0, "hard": 1000.0, "reserve": 10.0, "spent": 120.0,
			"resetsAt": "2026-04-01T00:00:00.000000Z", "updatedAt": "2026-03-11T12:00:00.000000Z",
		}
		require.Equal(t, want, ada.Put(budgets+"/agent/helper", limits).Want(http.StatusOK))
		require.Equal(t, want, ada.Put(budgets+"/agent/helper", limits).Want(http.StatusOK), "nothing changed")
		require.Equal(t, want, eva.Get(budgets+"/agent/helper").Want(http.StatusOK))
		require.Empty(t, zeta.Get(budgets).Items())
		zeta.Get(budgets+"/agent/helper").Error(http.StatusNotFound, wire.NotFound)
		zeta.Delete(budgets+"/agent/helper").Error(http.StatusNotFound, wire.NotFound)

		own := ada.Put(budgets+"/user/ada", object{"period": "day", "unit": "cost", "hard": 0.5, "reserve": 0.25}).Want(http.StatusOK)
		require.Equal(t, object{
			"kind": "user", "name": "ada", "period": "day", "unit": "cost", "hard": 0.5, "reserve": 0.25, "spent": 0.0000572,
			"resetsAt": "2026-03-12T00:00:00.000000Z", "updatedAt": "2026-03-11T12:00:00.000000Z",
		}, own)
		require.Equal(t, []object{want, own}, eva.Get(budgets).Items())
		require.Equal(t, []object{own}, eva.Get(budgets+"?page=2&page_size=1").Items())

		changed := ada.Put(budgets+"/agent/helper", object{"period": "day", "unit": "tokens", "soft": 7}).Want(http.StatusOK)
		require.Equal(t, []any{20.0, "2026-03-12T00:00:00.000000Z", nil}, []any{changed["spent"], changed["resetsAt"], changed["hard"]})
		s.set("2026-03-12T00:00:00Z")
		require.EqualValues(t, 0, eva.Get(budgets + "/agent/helper").Want(http.StatusOK)["spent"])
		ada.Delete(budgets + "/agent/helper").Want(http.StatusNoContent)
		ada.Delete(budgets+"/agent/helper").Error(http.StatusNotFound, wire.NotFound)
		require.Equal(t, []string{
			`agent.update_budget helper {"period":{"from":"","to":"month"},"unit":{"from":"","to":"tokens"},"soft":{"from":0,"to":500},"hard":{"from":0,"to":1000},"reserve":{"from":0,"to":10}}`,
			`agent.update_budget ada {"period":{"from":"","to":"day"},"unit":{"from":"","to":"cost"},"hard":{"from":0,"to":0.5},"reserve":{"from":0,"to":0.25}}`,
			`agent.update_budget helper {"period":{"from":"month","to":"day"},"soft":{"from":500,"to":7},"hard":{"from":1000,"to":0},"reserve":{"from":10,"to":0}}`,
			`agent.delete_budget helper {}`,
		}, s.Audit("acme"))
	}, series...)
}

func TestBudgetFaults(t *testing.T) {
	t.Parallel()
	s := open(t, dbtest.SQLite(t, series...), nil)
	ada := s.As("acme", "ada", rbac.Admin)
	with := func(name string, value any) object {
		in := object{"period": "day", "unit": "tokens", "soft": 5, "hard": 10}
		in[name] = value
		return in
	}
	for name, row := range map[string]struct {
		in    object
		field string
	}{
		"no limit":              {object{"period": "day", "unit": "tokens"}, "hard"},
		"another period":        {with("period", "week"), "period"},
		"another unit":          {with("unit", "words"), "unit"},
		"nothing":               {with("hard", 0), "hard"},
		"less than a token":     {with("soft", 0.4), "soft"},
		"half a token":          {with("hard", 10.5), "hard"},
		"a negative one":        {with("reserve", -1), "reserve"},
		"too much":              {with("hard", 1e18), "hard"},
		"soft above hard":       {with("soft", 11), "soft"},
		"reserve above hard":    {with("reserve", 11), "reserve"},
		"reserve without hard":  {object{"period": "day", "unit": "cost", "soft": 1, "reserve": 1}, "reserve"},
		"more than is possible": {object{"period": "day", "unit": "cost", "hard": 1e9 + 1}, "hard"},
	} {
		t.Run(name, func(t *testing.T) {
			fault := ada.Put(budgets+"/agent/helper", row.in).Error(http.StatusBadRequest, wire.ValidationFailed)
			require.Contains(t, fault["data"].(object)["fields"], row.field)
		})
	}
	fault := ada.Put(budgets+"/agent/helper", object{"period": "day", "unit": "tokens", "hard": -1}).Error(http.StatusBadRequest, wire.ValidationFailed)
	require.Len(t, fault["data"].(object)["fields"], 1, "a limit that was not given has no fault")
	ada.Put(budgets+"/agent/"+strings.Repeat("a", 1001), with("soft", 1)).Error(http.StatusBadRequest, wire.ValidationFailed)
	ada.Put(budgets+"/team/a", with("soft", 1)).Error(http.StatusNotFound, wire.NotFound)
	ada.Put(budgets+"/agent/helper", with("soft", "1")).Error(http.StatusBadRequest, wire.InvalidRequest)
	require.Empty(t, ada.Get(budgets).Items())
	require.Empty(t, s.Audit("acme"))

	eva, mia := s.As("acme", "eva", rbac.Maintainer), s.As("acme", "mia", rbac.Member)
	eva.Put(budgets+"/agent/helper", with("soft", 1)).Error(http.StatusForbidden, wire.Forbidden)
	eva.Delete(budgets+"/agent/helper").Error(http.StatusForbidden, wire.Forbidden)
	mia.Get(budgets).Error(http.StatusForbidden, wire.Forbidden)
	mia.Get(budgets+"/user/mia").Error(http.StatusForbidden, wire.Forbidden)
}

// A budget of a user has the id that the runs of the user have.
func TestBudgetsAreOfUsersWhoExist(t *testing.T) {
	t.Parallel()
	s := open(t, dbtest.SQLite(t, series...), nil)
	service, err := usage.New(usage.Config{Store: s.store, User: func(_ context.Context, _ api.Caller, id string) (wire.User, error) {
		if strings.ToLower(id) != "id-ada" {
			return wire.User{}, wire.NotFound
		}
		return wire.User{ID: "id-ada", Username: "ada"}, nil
	}})
	require.NoError(t, err)
	caller := s.As("acme", "max", rbac.Admin).Caller
	limits := wire.BudgetRequest{Period: usage.PerDay, Unit: usage.InTokens, Hard: new(5.0)}
	_, err = service.SetBudget(t.Context(), caller, usage.OfUser, "ada", limits)
	require.ErrorIs(t, err, wire.NotFound)
	b, err := service.SetBudget(t.Context(), caller, usage.OfUser, "ID-ADA", limits)
	require.NoError(t, err)
	require.Equal(t, "id-ada", b.Name)
}
