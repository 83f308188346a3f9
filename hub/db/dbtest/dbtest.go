// Package dbtest runs tests on both of the hub's engines. A package that uses it has
//
//	func TestMain(m *testing.M) { dbtest.Main(m) }
//
// and its tests look like
//
//	dbtest.Each(t, func(t *testing.T, url string) {
//		d := dbtest.Open(t, url, user.Migrations)
//		...
//	})
package dbtest

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/internal/pgtest"
)

// Main runs the tests, stops the PostgreSQL server that they started, fails if goroutines remain,
// and exits, unless options has a cleanup that exits.
func Main(m *testing.M, options ...goleak.Option) { pgtest.Main(m, options...) }

// Each runs test twice, as the subtests "postgres" and "sqlite", each with the URL of an empty
// database. It fails if PostgreSQL is not installed.
func Each(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	t.Run(string(db.PostgreSQL), func(t *testing.T) { test(t, pgtest.URL(t)) })
	t.Run(string(db.SQLite), func(t *testing.T) { test(t, SQLite(t)) })
}

// SQLite returns the URL of a database that does not exist yet, in a directory that is removed when
// the test ends.
func SQLite(t testing.TB) string {
	t.Helper()
	return "sqlite://" + filepath.Join(t.TempDir(), "hub.db")
}

// Open opens the database, applies the migrations of all series, and closes the database when the
// test ends.
func Open(t testing.TB, url string, series ...db.Series) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), db.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := d.Migrate(t.Context(), series...); err != nil {
		t.Fatal(err)
	}
	return d
}
