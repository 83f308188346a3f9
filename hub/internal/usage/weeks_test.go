package usage_test

import (
	"fmt"
	"io/fs"
	"net/http"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// Weeks are read from other rows than the days that are added to them or subtracted from them.
func TestEveryRangeOfDays(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		s := open(t, url, prices)
		const days, agents = 24, 10
		start := time.Date(2026, 3, 10, 23, 0, 0, 0, time.UTC)
		for day := range days {
			s.now.Store(start.AddDate(0, 0, day).UnixMicro())
			s.record(of(fmt.Sprint(day), fmt.Sprint("agent", day%agents), "ada", "m", wire.Usage{OutputTokens: 1 << day}))
		}
		ada := s.As("acme", "ada", rbac.Admin)
		for from := range days {
			for to := from; to < days; to++ {
				query := "&from=" + start.AddDate(0, 0, from).Format(time.DateOnly) + "&to=" + start.AddDate(0, 0, to).Format(time.DateOnly)
				for _, by := range []string{"agent", "user", "user,agent"} {
					got := ada.Get(reports + "?by=" + by + query).Want(http.StatusOK)
					require.EqualValues(t, 1<<(to+1)-1<<from, got["totals"].(object)["outputTokens"], "%s %s", by, query)
					if by != "user" { // an agent that was used only in the rest of a week has no row
						require.EqualValues(t, min(agents, to-from+1), got["total"], "%s %s", by, query)
					}
				}
			}
		}
	}, series...)
}

// Weeks of days that were counted before there were weeks have their sums.
func TestFormerDaysHaveWeeks(t *testing.T) {
	t.Parallel()
	former := fstest.MapFS{}
	require.NoError(t, fs.WalkDir(usage.Migrations.Files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path >= "all/0003" {
			return err
		}
		text, err := fs.ReadFile(usage.Migrations.Files, path)
		former[path] = &fstest.MapFile{Data: text}
		return err
	}))
	dbtest.Each(t, func(t *testing.T, url string) {
		d := dbtest.Open(t, url, apitest.Audit(), db.Series{Name: usage.Migrations.Name, Files: former})
		for day := range 20 {
			for _, slice := range []string{"agent", "user", "all"} {
				require.NoError(t, db.Exec(t.Context(), d.Write(), "fill", `INSERT INTO usage_days VALUES ('acme', $1, $2, 'helper', 'ada', 'm', 'Ada', 1, 0, 0, 0, 3, 0, 0)`, slice, 20520+day))
			}
		}
		require.NoError(t, d.Migrate(t.Context(), series...))
		s := open(t, url, prices)
		got := s.As("acme", "eva", rbac.Admin).Get(reports + "?by=agent,user,model&to=2026-04-30&from=2026-03-01").Want(http.StatusOK)
		require.EqualValues(t, 60, got["totals"].(object)["outputTokens"])
		require.EqualValues(t, 1, got["total"])
	})
}
