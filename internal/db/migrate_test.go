package db_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/db/pgtest"
)

// steps returns migrations that fail if one is applied twice or out of order.
func steps(name string) []db.Series {
	return []db.Series{
		series(name+"_first",
			"CREATE TABLE "+name+" (a BIGINT); INSERT INTO "+name+" (a) VALUES (1);",
			"ALTER TABLE "+name+" ADD COLUMN b BIGINT NOT NULL DEFAULT 2;",
			"UPDATE "+name+" SET a = a + 1;"),
		series(name+"_second", "CREATE TABLE "+name+"_too (a BIGINT); INSERT INTO "+name+"_too (a) SELECT a + b FROM "+name+";"),
	}
}

func requireSteps(t *testing.T, d *db.DB, name string) {
	t.Helper()
	var a, b, sum int
	require.NoError(t, d.Read().QueryRowContext(t.Context(), "SELECT a, b FROM "+name).Scan(&a, &b))
	require.NoError(t, d.Read().QueryRowContext(t.Context(), "SELECT a FROM "+name+"_too").Scan(&sum))
	require.Equal(t, []int{2, 2, 4}, []int{a, b, sum})
	require.NoError(t, d.Migrated(t.Context(), steps(name)...))
}

func TestEightStartConcurrently(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		errs := make(chan error, 8)
		var all sync.WaitGroup
		for range cap(errs) {
			all.Go(func() { errs <- openAndMigrate(t.Context(), url) })
		}
		all.Wait()
		close(errs)
		for err := range errs {
			require.NoError(t, err)
		}
		requireSteps(t, dbtest.Open(t, url), "shop")
	})
}

func openAndMigrate(ctx context.Context, url string) error {
	d, err := db.Open(ctx, db.Config{URL: url})
	if err != nil {
		return err
	}
	return errors.Join(d.Migrate(ctx, steps("shop")...), d.Close())
}

func TestTwoProcessesStartConcurrently(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		program, err := os.Executable()
		require.NoError(t, err)
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				cmd := exec.CommandContext(t.Context(), program)
				cmd.Env = append(os.Environ(), "AGENTHOST_TEST_MIGRATE="+url)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			})
		}
		all.Wait()
		requireSteps(t, dbtest.Open(t, url), "shop")
	})
}

// migrateInChild is the child process of TestTwoProcessesStartConcurrently.
func migrateInChild(url string) {
	if err := openAndMigrate(context.Background(), url); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

func TestMigrationsAreAtomic(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		d := dbtest.Open(t, url)
		good, bad := series("good", "CREATE TABLE t (a BIGINT);"), series("bad", "CREATE TABLE u (a BIGINT);", "SELECT nothing FROM nowhere;")
		err := d.Migrate(t.Context(), good, bad)
		require.ErrorContains(t, err, `migrate database: apply 0002_test.sql of "bad": `)
		require.ErrorIs(t, d.Migrated(t.Context(), good), db.ErrPending)
		require.NoError(t, d.Migrate(t.Context(), good), "t is not there yet")
	})
}

func TestMigrated(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		d := dbtest.Open(t, url)
		all := steps("shop")
		require.NoError(t, d.Migrated(t.Context()), "nothing is all there is")
		require.ErrorIs(t, d.Migrated(t.Context(), all...), db.ErrPending)
		require.NoError(t, d.Migrate(t.Context(), all[0]))
		require.NoError(t, d.Migrated(t.Context(), all[0]))
		require.EqualError(t, d.Migrated(t.Context(), all...), `check migrations: the database is not migrated: 1 of "shop_second" have to be applied`)
		require.NoError(t, d.Migrate(t.Context(), all...))
		requireSteps(t, d, "shop")
	})
}

func TestNewerDatabase(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		d := dbtest.Open(t, url, series("shop", "CREATE TABLE t (a BIGINT)", "CREATE TABLE u (a BIGINT)", "CREATE TABLE v (a BIGINT)"))
		old := series("shop", "CREATE TABLE t (a BIGINT)")
		for _, check := range []func(context.Context, ...db.Series) error{d.Migrate, d.Migrated} {
			err := check(t.Context(), old)
			require.ErrorIs(t, err, db.ErrNewer)
			var newer *db.NewerError
			require.ErrorAs(t, err, &newer)
			require.Equal(t, db.NewerError{Series: "shop", Database: 3, Program: 1}, *newer)
			require.EqualError(t, err, `check migrations: the database is newer than this program: it has migration 0003 of "shop", `+
				`and this program has 0001 as the newest: run the program that applied it, or a newer one`)
		}
		require.NoError(t, d.Migrated(t.Context()), "a series that this program does not have is left alone")
	})
}

func TestMigrationsMustNotChange(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		d := dbtest.Open(t, url, series("shop", "CREATE TABLE t (a BIGINT);\n", "CREATE TABLE u (a BIGINT)"))
		err := d.Migrate(t.Context(), series("shop", "CREATE TABLE t (a TEXT);\n", "CREATE TABLE u (a BIGINT)"))
		require.ErrorContains(t, err, `migration 0001_test.sql of "shop" was applied with another text than this program has`)
		require.NoError(t, d.Migrate(t.Context(), series("shop", "CREATE TABLE t (a BIGINT);\r\n", "CREATE TABLE u (a BIGINT)")), "git may end lines so")

		run(t, d, "DELETE FROM agenthost_migrations WHERE version = 1")
		err = d.Migrate(t.Context(), series("shop", "CREATE TABLE t (a BIGINT);\n", "CREATE TABLE u (a BIGINT)"))
		require.ErrorContains(t, err, `the database lacks migration 0001 of "shop", but has 0002_test.sql`)
	})
}

func TestBadSeries(t *testing.T) {
	files := func(names ...string) fs.FS {
		all := fstest.MapFS{}
		for _, name := range names {
			all["sqlite/"+name] = &fstest.MapFile{Data: []byte("SELECT 1")}
		}
		return all
	}
	rows := []struct {
		name   string
		series []db.Series
		want   string
	}{
		{"gap", []db.Series{{Name: "s", Files: files("0001_a.sql", "0003_c.sql")}}, `read migrations "s": 0003_c.sql has the place of number 0002`},
		{"not from the start", []db.Series{{Name: "s", Files: files("0002_a.sql")}}, "0002_a.sql has the place of number 0001"},
		{"zero", []db.Series{{Name: "s", Files: files("0000_a.sql", "0001_b.sql")}}, "0000_a.sql has the place of number 0001"},
		{"a number twice", []db.Series{{Name: "s", Files: files("0001_a.sql", "0002_b.sql", "0002_c.sql")}}, "0002_c.sql has the place of number 0003"},
		{"a file of another kind", []db.Series{{Name: "s", Files: files("0001_a.sql", "README.md")}}, "sqlite/README.md is not a file with a name like 0001_users.sql"},
		{"a number of five digits", []db.Series{{Name: "s", Files: files("00001_a.sql")}}, "sqlite/00001_a.sql is not a file with a name"},
		{"a folder", []db.Series{{Name: "s", Files: files("0001_a.sql/x")}}, "sqlite/0001_a.sql is not a file with a name"},
		{"no folder for the engine", []db.Series{{Name: "s", Files: fstest.MapFS{"postgres/0001_a.sql": {}}}}, `read migrations "s": no files in all and sqlite`},
		{"no files", []db.Series{{Name: "s"}}, `read migrations "s": the series has no files`},
		{"no name", []db.Series{{Files: files()}}, `read migrations "": the name of a series must consist of lower-case letters, digits and _`},
		{"a name twice", []db.Series{{Name: "s", Files: files("0001_a.sql")}, {Name: "s", Files: files("0001_a.sql")}}, `read migrations: two series are named "s"`},
	}
	d := dbtest.Open(t, dbtest.SQLite(t))
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			require.ErrorContains(t, d.Migrate(t.Context(), row.series...), row.want)
			require.ErrorContains(t, d.Migrated(t.Context(), row.series...), row.want)
		})
	}
}

// A replica that was started before a migration has prepared statements from before it.
func TestConnectionsFromBeforeAMigration(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	first := "CREATE TABLE t (a BIGINT); INSERT INTO t (a) VALUES (1)"
	replica, migrator := dbtest.Open(t, url, series("shop", first)), dbtest.Open(t, url)
	for _, name := range []string{"before", "after"} {
		runs := 0
		require.NoError(t, replica.Tx(t.Context(), func(tx *sql.Tx) error {
			runs++
			var a string
			return tx.QueryRowContext(t.Context(), "SELECT a FROM t").Scan(&a)
		}), name)
		if name == "after" {
			require.Equal(t, 2, runs, "the first meets the old statement")
		}
		require.NoError(t, migrator.Migrate(t.Context(), series("shop", first, "ALTER TABLE t ALTER COLUMN a TYPE TEXT")))
	}
}
