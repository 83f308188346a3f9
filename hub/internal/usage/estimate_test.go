package usage_test

import (
	"context"
	"database/sql"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

// A run without a report counts the largest reserve of its budgets in tokens, and in cost, or what
// is known of it if that is more.
func TestRunsWithoutAReportCountTheirReserves(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		s := open(t, url, map[string]usage.Price{"m": {Input: 1, Output: 1}})
		ada := s.As("acme", "ada", rbac.Admin)
		budget := func(path, unit string, reserve float64) {
			ada.Put(budgets+path, object{"period": "day", "unit": unit, "hard": 1e6, "reserve": reserve}).Want(http.StatusOK)
		}
		budget("/agent/tokens", "tokens", 500)
		budget("/user/few", "tokens", 100)
		budget("/user/many", "tokens", 900)
		budget("/user/cost", "cost", 2.5)
		budget("/agent/most", "tokens", 1e6)
		known := runtimewire.Usage{InputTokens: 100, OutputTokens: 300}
		for i, row := range []struct {
			agent, user string
			known       runtimewire.Usage
			in, out     int64
			cost        float64
		}{
			{"none", "nobody", runtimewire.Usage{}, 0, 0, 0},
			{"none", "nobody", known, 100, 300, 0.0004},
			{"tokens", "nobody", runtimewire.Usage{}, 500, 0, 0.0005},
			{"tokens", "few", known, 200, 300, 0.0005},
			{"tokens", "many", known, 600, 300, 0.0009},
			{"tokens", "cost", known, 200, 300, 2.5},
			{"most", "cost", runtimewire.Usage{OutputTokens: 1 << 62}, 0, 1e9, 1000},
		} {
			run := of(string(rune('a'+i)), row.agent, row.user, "m", row.known)
			run.Unreported = true
			var counted []usage.CountedRun
			require.NoError(t, s.store.DB.Tx(t.Context(), func(tx *sql.Tx) (err error) {
				counted, _, err = s.service.Record(t.Context(), tx, run)
				return err
			}))
			require.Equal(t, runtimewire.Usage{InputTokens: row.in, OutputTokens: row.out, Estimated: true}, counted[0].Tokens)
		}
		for _, row := range ada.Get(reports + "?by=agent,user&user=cost").Items() {
			require.EqualValues(t, 1, row["estimates"])
			require.Contains(t, []any{2.5, 1000.0}, row["cost"])
		}
		require.EqualValues(t, 7, ada.Get(reports).Want(http.StatusOK)["totals"].(object)["estimates"])
		require.Contains(t, ada.Get(reports+"/export?by=day").Text, `"cost","estimates"`)
		require.EqualValues(t, 500+500+900+500, ada.Get(budgets + "/agent/tokens").Want(http.StatusOK)["spent"])
		s.record(of("z", "exact", "ada", "m", known))
		require.NotContains(t, ada.Get(reports + "?by=agent&agent=exact").Items()[0], "estimates")
	}, series...)
}

// A report replaces the estimate of its run on the day of the estimate, with all its models, and
// nothing replaces a report.
func TestAReportReplacesAnEstimate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		s := open(t, url, nil)
		ada := s.As("acme", "ada", rbac.Admin)
		ada.Put(budgets+"/agent/helper", object{"period": "month", "unit": "tokens", "hard": 1000, "reserve": 100}).Want(http.StatusOK)
		lost := of("1", "helper", "ada", "", runtimewire.Usage{OutputTokens: 7})
		lost.Unreported = true
		lost.Others = map[string]runtimewire.Usage{"n": {OutputTokens: 7}}
		s.record(lost, lost)
		s.record(lost)
		require.EqualValues(t, 100, ada.Get(budgets + "/agent/helper").Want(http.StatusOK)["spent"])
		s.set("2026-03-20T12:00:00Z")
		found := of("1", "helper", "ada", "m", runtimewire.Usage{InputTokens: 3, OutputTokens: 9})
		found.Others = map[string]runtimewire.Usage{"n": {OutputTokens: 4}}
		s.record(found)
		s.record(found)
		s.record(lost)
		require.EqualValues(t, 12, ada.Get(budgets + "/agent/helper").Want(http.StatusOK)["spent"])
		for _, by := range []string{"day", "agent", "user", "model", "agent,user,model"} {
			sum := map[string]float64{}
			for _, row := range ada.Get(reports + "?from=2026-03-01&by=" + by).Items() {
				for name, value := range row {
					n, _ := value.(float64)
					sum[name] += n
				}
			}
			require.Equal(t, []float64{1, 3, 9, 0}, []float64{sum["runs"], sum["inputTokens"], sum["outputTokens"], sum["estimates"]}, by)
		}
		require.Len(t, ada.Get(reports+"?from=2026-03-01&by=day").Items(), 1)
	}, series...)
}

// Sums remain at their largest number, in days, in reports over many rows, and in budgets.
func TestSumsSaturate(t *testing.T) {
	t.Parallel()
	const most = 1_000_000_000_000_000_000
	dbtest.Each(t, func(t *testing.T, url string) {
		s := open(t, url, map[string]usage.Price{"m": {Input: 1, Output: 1}})
		ada := s.As("acme", "ada", rbac.Admin)
		tokens := runtimewire.Usage{InputTokens: 1e9, CacheReadInputTokens: 1e9, CacheCreationInputTokens: 1e9, OutputTokens: 1e9, ReasoningTokens: 1e9}
		for i, agent := range []string{"a", "b", "c", "d"} {
			s.record(of(string(rune('0'+i)), agent, "ada", "m", tokens))
		}
		for _, table := range []string{"usage_days", "usage_weeks"} {
			require.NoError(t, db.Exec(t.Context(), s.store.DB.Write(), "fill", `UPDATE `+table+` SET input_tokens = 9223372036854775807,
				cache_read_tokens = 999999999999999999, cache_write_tokens = 999999999999999999, output_tokens = 999999999999999999,
				reasoning_tokens = 999999999999999999, cost = 9223372036854775807, runs = 999999999999999999`))
		}
		for i, agent := range []string{"a", "b", "c", "d"} {
			s.record(of(string(rune('4'+i)), agent, "ada", "m", tokens))
		}
		for _, query := range []string{"?by=day", "?by=agent", "?by=user", "?from=2026-02-20&to=2026-03-20&by=model", "?from=2026-03-10&to=2026-03-10&by=agent,user"} {
			report := ada.Get(reports + query).Want(http.StatusOK)
			require.EqualValues(t, most, report["totals"].(object)["inputTokens"], query)
			require.EqualValues(t, 1e9, report["totals"].(object)["cost"], query)
		}
		for path, unit := range map[string]string{"/agent/a": "tokens", "/user/ada": "cost"} {
			got := ada.Put(budgets+path, object{"period": "month", "unit": unit, "hard": 1000}).Want(http.StatusOK)
			require.Greater(t, got["spent"], 1e8)
		}
		require.ErrorIs(t, s.service.NewDirect("acme", "a").Begin(t.Context()), wire.RateLimited)
	}, series...)
}

// A budget in cost that is used up does not limit an agent none of whose models has a price. One in
// tokens does.
func TestACostBudgetDoesNotLimitFreeModels(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		s := open(t, url, nil)
		models := map[string][]string{"free": {"own"}, "mixed": {"own", "m"}, "paid": {"m"}, "unknown": nil}
		service, err := usage.New(usage.Config{
			Store: s.store, Prices: map[string]usage.Price{"m": {Output: 1}, "own": {}},
			Models: func(_ context.Context, _ db.Querier, _, name string) ([]string, error) { return models[name], nil },
		})
		require.NoError(t, err)
		ada := s.As("acme", "ada", rbac.Admin)
		for name := range models {
			s.record(of(name, name, "ada", "m", runtimewire.Usage{OutputTokens: 10}))
			ada.Put(budgets+"/agent/"+name, object{"period": "month", "unit": "cost", "hard": 0.000001}).Want(http.StatusOK)
		}
		require.NoError(t, db.Exec(t.Context(), s.store.DB.Write(), "use", `UPDATE usage_days SET cost = 5000`))
		for name := range models {
			err := service.NewDirect("acme", name).Begin(t.Context())
			if name == "free" {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, wire.RateLimited, name)
			}
		}
		ada.Put(budgets+"/agent/free", object{"period": "month", "unit": "tokens", "hard": 5}).Want(http.StatusOK)
		require.ErrorIs(t, service.NewDirect("acme", "free").Begin(t.Context()), wire.RateLimited)
	}, series...)
}

// The number of users with a hard limit is that of all tenants.
func TestLimitedUsers(t *testing.T) {
	t.Parallel()
	s := open(t, dbtest.SQLite(t, series...), nil)
	ada := s.As("acme", "ada", rbac.Admin)
	ada.Put(budgets+"/agent/a", object{"period": "day", "unit": "tokens", "hard": 5}).Want(http.StatusOK)
	ada.Put(budgets+"/user/soft", object{"period": "day", "unit": "tokens", "soft": 5}).Want(http.StatusOK)
	ada.Put(budgets+"/user/hard", object{"period": "day", "unit": "tokens", "hard": 5}).Want(http.StatusOK)
	n, err := usage.LimitedUsers(t.Context(), s.store.Read())
	require.NoError(t, err)
	require.Equal(t, 1, n)
}
