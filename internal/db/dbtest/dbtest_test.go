package dbtest_test

import (
	"database/sql"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

func TestEachRunsOnBothEnginesWithFreshDatabases(t *testing.T) {
	t.Parallel()
	notes := db.Series{Name: "notes", Files: fstest.MapFS{
		"postgres/0001_notes.sql": {Data: []byte("CREATE TABLE notes (body TEXT)")},
		"sqlite/0001_notes.sql":   {Data: []byte("CREATE TABLE notes (body TEXT)")},
	}}
	for _, copied := range [][]db.Series{nil, {notes}, {notes}} {
		var engines []db.Engine
		dbtest.Each(t, func(t *testing.T, url string) {
			d := dbtest.Open(t, url, notes)
			engines = append(engines, d.Engine())
			var rows int
			require.NoError(t, d.Tx(t.Context(), func(tx *sql.Tx) error {
				return tx.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM notes").Scan(&rows)
			}))
			require.Zero(t, rows)
			_, err := d.Write().ExecContext(t.Context(), "INSERT INTO notes (body) VALUES ('left over')")
			require.NoError(t, err)
		}, copied...)
		require.Equal(t, []db.Engine{db.PostgreSQL, db.SQLite}, engines)
	}
}
