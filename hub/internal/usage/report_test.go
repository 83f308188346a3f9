package usage_test

import (
	"database/sql"
	"encoding/csv"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

const reports = "/api/v1/admin/usage"

var prices = map[string]usage.Price{"m": {Input: 1, CacheRead: 0.1, CacheWrite: 2, Output: 10}, "n*": {Output: 1}}

func TestReports(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		s := open(t, url, prices)
		first := of("1", "helper", "ada", "m", runtimewire.Usage{InputTokens: 1000, CacheReadInputTokens: 500, CacheCreationInputTokens: 100, OutputTokens: 20, ReasoningTokens: 5})
		s.record(first, of("2", "helper", "bob", "n-1", runtimewire.Usage{OutputTokens: 7}))
		s.record(first) // a commit whose outcome was unknown is repeated
		s.set("2026-03-11T00:00:00Z")
		s.record(of("3", "writer", "ada", "m", runtimewire.Usage{OutputTokens: 1}))
		other := first
		other.TenantID = "zeta"
		s.record(other)

		eva := s.As("acme", "eva", rbac.Maintainer)
		whole := object{
			"runs": 3.0, "inputTokens": 1000.0, "cacheReadTokens": 500.0, "cacheWriteTokens": 100.0, "outputTokens": 28.0, "reasoningTokens": 5.0,
			"cost": 0.001467,
		}
		report := eva.Get(reports).Want(http.StatusOK)
		require.Equal(t, "2026-02-10", report["from"])
		require.Equal(t, "2026-03-11", report["to"])
		require.Equal(t, whole, report["totals"])
		require.EqualValues(t, 2, report["total"])
		require.Equal(t, []any{
			object{
				"day": "2026-03-10", "runs": 2.0, "inputTokens": 1000.0, "cacheReadTokens": 500.0, "cacheWriteTokens": 100.0, "outputTokens": 27.0,
				"reasoningTokens": 5.0, "cost": 0.001457,
			},
			object{
				"day": "2026-03-11", "runs": 1.0, "inputTokens": 0.0, "cacheReadTokens": 0.0, "cacheWriteTokens": 0.0, "outputTokens": 1.0,
				"reasoningTokens": 0.0, "cost": 0.00001,
			},
		}, report["items"])

		// Every combination of groups has the same totals: the slices of usage_days agree.
		for by, rows := range map[string]string{
			"day": "2026-03-10 2 2026-03-11 1", "agent": "helper 2 writer 1", "user": "ada ada! 2 bob bob! 1", "model": "m 2 n-1 1",
			"agent,model":          "helper m 1 helper n-1 1 writer m 1",
			"model,user":           "ada ada! m 2 bob bob! n-1 1",
			"agent,user":           "helper ada ada! 1 helper bob bob! 1 writer ada ada! 1",
			"day,user":             "2026-03-10 ada ada! 1 2026-03-10 bob bob! 1 2026-03-11 ada ada! 1",
			"user,model,agent,day": "2026-03-10 helper ada ada! m 1 2026-03-10 helper bob bob! n-1 1 2026-03-11 writer ada ada! m 1",
		} {
			report := eva.Get(reports + "?by=" + by).Want(http.StatusOK)
			require.Equal(t, whole, report["totals"], by)
			var got []string
			for _, item := range report["items"].([]any) {
				row := item.(object)
				for _, name := range []string{"day", "agentName", "userId", "userName", "model", "runs"} {
					if value, ok := row[name]; ok {
						got = append(got, fmt.Sprint(value))
					}
				}
			}
			words := strings.Fields(rows)
			require.ElementsMatch(t, words, got, by)
		}
		for query, runs := range map[string]int{
			"agent=helper": 2, "user=ada": 2, "model=m": 2, "agent=helper&user=ada": 1, "by=user&agent=writer": 1, "by=agent&user=bob": 1,
			"user=ada!": 0, "agent=h%25": 0, "from=2026-03-11": 1, "to=2026-03-10": 2, "from=2026-03-10&to=2026-03-10&by=model": 2, "from=2025-12-01&to=2026-01-31": 0,
			"from=2026-03-12": 0,
		} {
			require.EqualValues(t, runs, eva.Get(reports + "?" + query).Want(http.StatusOK)["totals"].(object)["runs"], query)
		}
		page := eva.Get(reports + "?by=user&page=2&page_size=1").Want(http.StatusOK)
		require.EqualValues(t, 2, page["total"])
		require.Len(t, page["items"], 1)
		require.Equal(t, "bob", page["items"].([]any)[0].(object)["userId"])
		require.Equal(t, whole, page["totals"])
		require.Equal(t, []any{}, eva.Get(reports + "?page=9").Want(http.StatusOK)["items"])
	}, series...)
}

func TestReportsAreForAdminsAndMaintainers(t *testing.T) {
	t.Parallel()
	s := open(t, dbtest.SQLite(t, series...), nil)
	for _, path := range []string{reports, reports + "/export"} {
		s.As("acme", "mia", rbac.Member).Get(path).Error(http.StatusForbidden, wire.Forbidden)
		s.As("acme", "ada", rbac.Admin).Get(path)
	}
	ada := s.As("acme", "ada", rbac.Admin)
	for _, query := range []string{
		"from=yesterday", "to=2026-3-1", "from=2026-03-02&to=2026-03-01", "from=2024-01-01&to=2026-01-01", "by=week", "by=day,", "by=,", "from=0001-01-01",
		"agent=" + strings.Repeat("a", 1001), "user=%ff", "user=%00", "page=0", "agent=%zz",
	} {
		ada.Get(reports+"?"+query).Error(http.StatusBadRequest, wire.InvalidRequest)
	}
}

func TestExport(t *testing.T) {
	t.Parallel()
	s := open(t, dbtest.SQLite(t, series...), prices)
	s.record(of("1", "helper", "=1+1", "@m,\"x\"\r\ny", runtimewire.Usage{InputTokens: 2}), of("2", "helper", "üwe", "m", runtimewire.Usage{OutputTokens: 3}))
	res := s.As("acme", "ada", rbac.Admin).Get(reports + "/export?by=user,model,day")
	require.Equal(t, http.StatusOK, res.Status)
	require.Equal(t, "text/csv; charset=utf-8; header=present", res.Header.Get("Content-Type"))
	require.Equal(t, `attachment; filename="usage-2026-02-09-2026-03-10.csv"`, res.Header.Get("Content-Disposition"))
	rows, err := csv.NewReader(strings.NewReader(res.Text)).ReadAll()
	require.NoError(t, err)
	require.Equal(t, [][]string{
		{"day", "userId", "userName", "model", "runs", "inputTokens", "cacheReadTokens", "cacheWriteTokens", "outputTokens", "reasoningTokens", "cost", "estimates"},
		{"2026-03-10", "üwe", "üwe!", "m", "1", "0", "0", "0", "3", "0", "0.00003", "0"},
		{"2026-03-10", "'=1+1", "'=1+1!", "'@m,\"x\"\ny", "1", "2", "0", "0", "0", "0", "0", "0"},
	}, rows)
}

// A spreadsheet recognizes UTF-8 by a byte order mark, which a program need not expect.
func TestExportForSpreadsheets(t *testing.T) {
	t.Parallel()
	s := open(t, dbtest.SQLite(t, series...), prices)
	s.record(of("1", "helper", "üwe", "m", runtimewire.Usage{OutputTokens: 1}))
	ada := s.As("acme", "ada", rbac.Admin)
	plain := ada.Get(reports + "/export?by=user").Text
	require.Contains(t, plain, "üwe")
	require.Equal(t, "\uFEFF"+plain, ada.Get(reports+"/export?by=user&bom=true").Text)
	require.Equal(t, plain, ada.Get(reports+"/export?by=user&bom=").Text)
}

// No field begins a formula in a spreadsheet, also in one whose separator is not a comma.
func TestExportHasNoFormulas(t *testing.T) {
	t.Parallel()
	s := open(t, dbtest.SQLite(t, series...), prices)
	want := map[string]string{
		"m": "m", "claude-4": "claude-4", "a b+c": "a b+c", "=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@x": "'@x", "\t=1": "'\t'=1", " =1": "' =1",
		"x;=1+1": "x;'=1+1", "x\t@y": "x\t'@y", "x|-1": "x|'-1", "x,  =1": "x,  '=1", `x"+1`: `x"'+1`, "x\n=1": "x\n'=1", "\uff1d1": "'\uff1d1",
	}
	for model := range want {
		s.record(of(model, "helper", "ada", model, runtimewire.Usage{OutputTokens: 1}))
	}
	res := s.As("acme", "ada", rbac.Admin).Get(reports + "/export?by=model")
	rows, err := csv.NewReader(strings.NewReader(res.Text)).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, len(want)+1)
	var got []string
	for _, row := range rows[1:] {
		got = append(got, row[0])
		quoted := strings.ReplaceAll(row[0], `"`, `""`)
		require.Contains(t, res.Text, `"`+quoted+`","1","0","0","0","1","0","`, "all fields are quoted")
	}
	require.ElementsMatch(t, slices.Collect(maps.Values(want)), got)
}

// A subagent with another model has its own row, and the run counts once.
func TestModelsOfSubagents(t *testing.T) {
	t.Parallel()
	s := open(t, dbtest.SQLite(t, series...), prices)
	run := of("1", "helper", "ada", "m", runtimewire.Usage{InputTokens: 10, OutputTokens: 30})
	run.Others = map[string]runtimewire.Usage{"n-2": {InputTokens: 4, OutputTokens: 20}, "m": {OutputTokens: 1}, "": {InputTokens: -5, OutputTokens: 1 << 62}}
	s.record(run)
	items := s.As("acme", "ada", rbac.Admin).Get(reports + "?by=model").Items()
	require.Len(t, items, 3)
	byModel := map[any]object{}
	for _, item := range items {
		byModel[item["model"]] = item
	}
	require.EqualValues(t, 1, byModel["m"]["runs"])
	require.EqualValues(t, 0, byModel["n-2"]["runs"])
	require.EqualValues(t, 4, byModel["n-2"]["inputTokens"])
	require.EqualValues(t, 0.00002, byModel["n-2"]["cost"])
	require.EqualValues(t, 1_000_000_000, byModel[nil]["outputTokens"], "a runtime is not trusted")
	require.EqualValues(t, 0, byModel[nil]["inputTokens"])
	require.EqualValues(t, 6, byModel["m"]["inputTokens"])
	require.EqualValues(t, 0, byModel["m"]["outputTokens"])
}

// A runtime that reports huge counts does not prevent the recording of other runs.
func TestSumsDoNotOverflow(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		s := open(t, url, map[string]usage.Price{"m": {Input: 10_000, CacheRead: 10_000, CacheWrite: 10_000, Output: 10_000}})
		huge := runtimewire.Usage{InputTokens: 1 << 62, CacheReadInputTokens: 1 << 62, CacheCreationInputTokens: 1 << 62, OutputTokens: 1 << 62}
		const batches, size = 3, 200
		for b := range batches {
			var runs []usage.CountedRun
			for i := range size {
				runs = append(runs, of(fmt.Sprint(b, "-", i), "helper", "ada", "m", huge))
			}
			s.record(runs...)
		}
		totals := s.As("acme", "ada", rbac.Admin).Get(reports).Want(http.StatusOK)["totals"].(object)
		require.EqualValues(t, batches*size, totals["runs"])
		require.EqualValues(t, batches*size*10_000, totals["cost"])
		require.EqualValues(t, batches*size*1_000_000_000, totals["outputTokens"])
	}, series...)
}

// Sums are exact with concurrent transactions of several hubs, some of which count the same runs.
func TestConcurrentRunsAreCountedOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		hubs := []*server{open(t, url, prices), open(t, url, prices)}
		const writers, batches, size = 4, 10, 7
		var all sync.WaitGroup
		for w := range writers {
			s := hubs[w%len(hubs)]
			all.Go(func() {
				for b := range batches {
					var runs []usage.CountedRun
					for i := range size { // each run is counted by two writers, in another order
						n := b*size + i
						if w%2 == 1 {
							n = (b+1)*size - 1 - i
						}
						runs = append(runs, of(fmt.Sprint(w/2, "-", n), fmt.Sprint("agent", n%3), fmt.Sprint("user", n%5), "m", runtimewire.Usage{OutputTokens: 1}))
					}
					if err := s.store.DB.Tx(t.Context(), func(tx *sql.Tx) (err error) { _, _, err = s.service.Record(t.Context(), tx, runs...); return err }); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		for _, by := range []string{"day", "agent", "user", "agent,user", "model"} {
			totals := hubs[0].As("acme", "ada", rbac.Admin).Get(reports + "?by=" + by).Want(http.StatusOK)["totals"].(object)
			require.EqualValues(t, writers/2*batches*size, totals["runs"], by)
			require.EqualValues(t, writers/2*batches*size, totals["outputTokens"], by)
		}
	}, series...)
}

func TestPrices(t *testing.T) {
	t.Parallel()
	url := dbtest.SQLite(t, series...)
	million := runtimewire.Usage{InputTokens: 1_000_000, OutputTokens: 1_000_000}
	s := open(t, url, map[string]usage.Price{"m*": {Input: 1}, "m-large*": {Input: 2}, "m-large": {Input: 3}, "gpt-4o*": {Output: 4}})
	for model, cost := range map[string]float64{
		"m": 1, "m-1": 1, "m-large-1": 2, "m-large": 3, "M": 0, "": 0, "gpt-4o": 4, "claude-sonnet-4-5-20250929": 18, "claude-opus-4-5": 30, "claude-opus-4-1": 90,
		"o3-2025-04-16": 10, "o4-mini-2025-04-16": 5.5, "o3-deep-research": 0, "gpt-5-pro": 135,
	} {
		s.record(of(model, "helper", "ada", model, million))
		got := s.As("acme", "ada", rbac.Admin).Get(reports + "?by=model&model=" + model).Want(http.StatusOK)
		if model != "" {
			require.EqualValues(t, cost, got["totals"].(object)["cost"], model)
		}
	}
	unpriced, err := usage.Unpriced(t.Context(), s.store.Read(), map[string]usage.Price{"m*": {Input: 1}, "o3-deep*": {}}, s.store.Now())
	require.NoError(t, err)
	require.Equal(t, []string{"M"}, unpriced, "a price of 0 is one")

	cost := func(s *server) any {
		return s.As("acme", "ada", rbac.Admin).Get(reports + "?model=m").Want(http.StatusOK)["totals"].(object)["cost"]
	}
	later := open(t, url, map[string]usage.Price{"m": {Input: 100}})
	require.EqualValues(t, 1, cost(later), "a price does not change the past")
	later.record(of("later", "helper", "ada", "m", million))
	require.EqualValues(t, 101, cost(later))

	_, err = usage.New(usage.Config{Store: s.store, Prices: map[string]usage.Price{"m": {Output: -1}}})
	require.ErrorContains(t, err, `price of model "m"`)
}
