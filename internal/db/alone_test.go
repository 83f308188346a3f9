package db_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

func TestAlone(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		open := func() *db.DB {
			d, err := db.Open(t.Context(), db.Config{URL: url})
			require.NoError(t, err)
			return d
		}
		alone := func(d *db.DB) (alone bool) {
			require.NoError(t, d.Tx(t.Context(), func(*sql.Tx) (err error) {
				alone, err = d.Alone()
				return err
			}))
			return alone
		}
		first := open()
		sqlite := first.Engine() == db.SQLite
		for range 2 {
			require.Equal(t, sqlite, alone(first))
		}
		second, third := open(), open()
		for range 2 {
			require.False(t, alone(second))
			require.False(t, alone(third))
			require.False(t, alone(first))
		}
		require.NoError(t, first.Close())
		require.False(t, alone(third), "the second one is open")
		require.NoError(t, second.Close())
		// A process that another test starts has a copy of the lock until it executes its program.
		require.Eventually(t, func() bool { return alone(third) == sqlite }, time.Minute, time.Millisecond)

		fourth := open()
		for range 2 {
			require.NoError(t, fourth.Tx(t.Context(), func(*sql.Tx) error { return fourth.Join() }))
		}
		require.False(t, alone(third), "the fourth one has joined")
		require.NoError(t, third.Close())
		require.Eventually(t, func() bool { return alone(fourth) == sqlite }, time.Minute, time.Millisecond)
		require.NoError(t, fourth.Close())
	})
}
