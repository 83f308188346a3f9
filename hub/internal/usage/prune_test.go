package usage_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// Rows of old runs are deleted in several transactions. The sums of their days remain.
func TestPrune(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		s := open(t, url, prices)
		const old = 2_345
		var runs []usage.CountedRun
		for i := range old {
			runs = append(runs, of(fmt.Sprint("old", i), "helper", "ada", "m", wire.Usage{OutputTokens: 1}))
		}
		s.record(runs...)
		s.set("2026-03-20T12:00:00Z")
		s.record(of("new", "helper", "ada", "m", wire.Usage{OutputTokens: 1}))
		s.set("2026-03-25T11:59:00Z")
		stored := func() int {
			n, err := db.Value[int](t.Context(), s.store.DB.Read(), "count runs", `SELECT COUNT(*) FROM usage_runs`)
			require.NoError(t, err)
			return n
		}
		prune := func(retention time.Duration) {
			service, err := usage.New(usage.Config{Store: s.store, Retention: retention})
			require.NoError(t, err)
			service.Prune(t.Context())
		}
		prune(0)
		prune(16 * 24 * time.Hour)
		require.Equal(t, old+1, stored())
		prune(5 * 24 * time.Hour)
		require.Equal(t, 1, stored())
		s.record(of("new", "helper", "ada", "m", wire.Usage{OutputTokens: 1}))
		totals := s.As("acme", "eva", rbac.Admin).Get(reports).Want(http.StatusOK)["totals"].(object)
		require.EqualValues(t, old+1, totals["runs"])
		prune(time.Hour)
		require.Zero(t, stored())
		require.NoError(t, s.store.DB.Tx(t.Context(), func(tx *sql.Tx) error {
			found, err := s.service.HasData(t.Context(), tx, "acme")
			require.True(t, found)
			return err
		}))
	}, series...)
}
