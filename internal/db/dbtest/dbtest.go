// Package dbtest runs tests on both of the hub's engines. A package that uses it has
//
//	func TestMain(m *testing.M) { dbtest.Main(m) }
//
// and its tests look like
//
//	dbtest.Each(t, func(t *testing.T, url string) {
//		d := dbtest.Open(t, url, migrations)
//		...
//	}, migrations)
//
// The databases of the series are copies of one that is migrated once.
package dbtest

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/pgtest"
)

// Main runs the tests, stops the PostgreSQL server that they started, fails if goroutines remain,
// and exits, unless options has a cleanup that exits.
func Main(m *testing.M, options ...goleak.Option) { pgtest.Main(m, options...) }

// Parallel makes n tests for each processor run at the same time, for tests that mostly wait. It
// has no effect with the flag -parallel. TestMain calls it before [Main].
func Parallel(n int) error {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if chosen {
		return nil
	}

	return flag.Set("test.parallel", strconv.Itoa(n*runtime.GOMAXPROCS(0)))
}

// Each runs test twice, as the subtests "postgres" and "sqlite", each with the URL of a database
// that has the migrations of all series. It fails if PostgreSQL is not installed.
func Each(t *testing.T, test func(t *testing.T, url string), series ...db.Series) {
	t.Helper()
	t.Run(string(db.PostgreSQL), func(t *testing.T) { test(t, PostgreSQL(t, series...)) })
	t.Run(string(db.SQLite), func(t *testing.T) { test(t, SQLite(t, series...)) })
}

// PostgreSQL returns the URL of a database that has the migrations of all series.
func PostgreSQL(t testing.TB, series ...db.Series) string {
	t.Helper()
	if len(series) == 0 {
		return pgtest.URL(t)
	}

	return pgtest.Copy(t, key(series), func(url string) error { return migrate(url, series) })
}

// SQLite returns the URL of a database that has the migrations of all series, in a directory that
// is removed when the test ends. Without a series the database does not exist yet.
func SQLite(t testing.TB, series ...db.Series) string {
	t.Helper()
	path := filepath.Join(directory(t), "hub.db")
	if len(series) > 0 {
		if err := os.WriteFile(path, template(t, series), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	return "sqlite://" + path
}

// directory returns a directory in memory, if there is one: the tests of all packages together
// would wait for the disk most of the time.
func directory(t testing.TB) string {
	t.Helper()
	memory := pgtest.MemoryDir()
	if memory == "" {
		return t.TempDir()
	}

	dir, err := os.MkdirTemp(memory, "dbtest-")
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// templates has the SQLite files with migrations, which are copied: to apply them takes longer.
var templates struct {
	mu    sync.Mutex // guards files
	files map[string][]byte
}

func template(t testing.TB, series []db.Series) []byte {
	t.Helper()
	templates.mu.Lock()
	defer templates.mu.Unlock()
	if file, ok := templates.files[key(series)]; ok {
		return file
	}

	path := filepath.Join(t.TempDir(), "template.db")
	if err := migrate("sqlite://"+path, series); err != nil {
		t.Fatal(err)
	}

	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	if templates.files == nil {
		templates.files = map[string][]byte{}
	}

	templates.files[key(series)] = file
	return file
}

// key identifies the series of a package and its tests by their names.
func key(series []db.Series) string {
	var names []string
	for _, s := range series {
		names = append(names, s.Name)
	}

	return strings.Join(names, " ")
}

func migrate(url string, series []db.Series) error {
	ctx := context.Background()
	d, err := db.Open(ctx, db.Config{URL: url})
	if err != nil {
		return err
	}

	return errors.Join(d.Migrate(ctx, series...), d.Close())
}

// Programs returns the client programs of PostgreSQL.
func Programs(t testing.TB) db.Programs {
	t.Helper()
	bin := pgtest.Bin(t)
	return db.Programs{Dump: filepath.Join(bin, "pg_dump"), Restore: filepath.Join(bin, "pg_restore")}
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
