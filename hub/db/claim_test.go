package db_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/db/dbtest"
)

func TestOneHubClaimsASQLiteFile(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		open := func() *db.DB {
			d, err := db.Open(t.Context(), db.Config{URL: url})
			require.NoError(t, err)
			return d
		}
		claimed := func(d *db.DB) bool {
			ok, err := d.Claim()
			require.NoError(t, err)
			return ok
		}
		first, second := open(), open()
		sqlite := first.Engine() == db.SQLite
		for range 2 {
			require.Equal(t, sqlite, claimed(first))
			require.False(t, claimed(second))
		}
		require.NoError(t, first.Close())
		require.Equal(t, sqlite, claimed(second))
		require.NoError(t, second.Close())
	})
}
