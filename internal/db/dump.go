package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed93082962/agenthost/internal/leaf/migrate"
	"github.com/seed93082962/agenthost/internal/syncdir"
)

// EngineOf returns the engine that a URL names.
func EngineOf(url string) (Engine, error) {
	engine, _, err := parse(url)
	return engine, err
}

// Versions returns the number of the newest migration of each series that was applied.
func Versions(ctx context.Context, q Querier) (map[string]int, error) {
	versions, err := migrate.Versions(ctx, q)
	return versions, Wrap("read migrations", err)
}

// Known returns a [*NewerError] if a database with these versions has a migration that the series
// lack.
func Known(engine Engine, versions map[string]int, all ...Series) error {
	plan, err := migrate.Read(string(engine), all...)
	if err != nil {
		return err
	}

	return plan.Known(versions)
}

// Dump writes one state of the database to w, and calls read with a [Querier] that reads the same
// state. Other connections and processes continue to read and write, also while w waits. [Load]
// reads what was written.
func (d *DB) Dump(ctx context.Context, programs Programs, w io.Writer, read func(q Querier) error) error {
	dump := d.dumpSQLite
	if d.engine == PostgreSQL {
		dump = d.dumpPostgreSQL
	}

	if err := dump(ctx, programs, w, read); err != nil {
		return fmt.Errorf("dump database: %w", ended(ctx, err))
	}

	return nil
}

// dumpSQLite writes the pages of the file as a read transaction has them, which blocks no writer.
// VACUUM INTO would write them to a file itself, faster than a disk on which others commit can
// bear. That deleted content is not in the pages is due to secure_delete: see openSQLite.
func (d *DB) dumpSQLite(ctx context.Context, _ Programs, w io.Writer, read func(q Querier) error) (err error) {
	tx, err := d.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}

	defer func() { _ = tx.Rollback() }() // it has only read
	if err := read(tx); err != nil {
		return err
	}

	// A page is copied whether it is damaged or not.
	found, err := Value[string](ctx, tx, "check file", "PRAGMA quick_check(1)")
	if err != nil {
		return err
	}

	if found != "ok" {
		return fmt.Errorf("the file is damaged: %s", found)
	}

	pages, err := tx.QueryContext(ctx, "SELECT data FROM sqlite_dbpage ORDER BY pgno")
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, pages.Close()) }()
	for pages.Next() {
		var page sql.RawBytes
		if err := pages.Scan(&page); err != nil {
			return err
		}

		if _, err := w.Write(page); err != nil {
			return writing(err)
		}
	}

	return pages.Err()
}

func writing(err error) error { return fmt.Errorf("write dump: %w", err) }

// CheckEmpty returns an error with advice unless the database of a URL is empty: a SQLite file that
// does not exist, or a PostgreSQL database without tables.
func CheckEmpty(ctx context.Context, config Config) error {
	engine, path, err := parse(config.URL)
	switch {
	case err != nil:
	case engine == SQLite:
		err = checkNoFile(path)
	default:
		err = checkNoTable(ctx, config)
	}

	if err != nil {
		return fmt.Errorf("load database: %w", err)
	}

	return nil
}

// checkNoFile rejects a path with a file of a database. SQLite would apply the log of a former
// database to a new one.
func checkNoFile(path string) error {
	for _, name := range []string{path, path + "-wal", path + "-journal"} {
		_, err := os.Lstat(name)
		if err == nil {
			return fmt.Errorf("%s exists: stop the hub, and move the file away, with those that have -wal, -shm and -journal after its name", name)
		}

		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}

	return nil
}

// Load fills the empty database of a URL from a dump, completely or not at all.
func Load(ctx context.Context, config Config, programs Programs, dump io.Reader) error {
	if err := CheckEmpty(ctx, config); err != nil {
		return err
	}

	engine, path, err := parse(config.URL)
	switch {
	case err != nil:
	case engine == SQLite:
		err = loadSQLite(path, dump)
	default:
		err = programs.load(ctx, config.URL, dump)
	}

	if err != nil {
		return fmt.Errorf("load database: %w", ended(ctx, err))
	}

	return nil
}

// loadSQLite writes a temporary file, and gives it the name of the database unless another process
// has created the database in the meantime.
func loadSQLite(path string, dump io.Reader) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}

	f, err := os.CreateTemp(dir, filepath.Base(path)+".*.partial") // with mode 0600
	if err != nil {
		return err
	}

	defer func() { _ = os.Remove(f.Name()) }()
	_, err = io.Copy(f, dump)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}

	if err := os.Link(f.Name(), path); err != nil {
		return err
	}

	return syncdir.Sync(dir)
}
