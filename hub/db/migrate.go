package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// migrationLock is the key of the advisory lock under which replicas that start together migrate one after another. It
// belongs to this package: other programs in the same database must not take it.
const migrationLock = 0x6167656e74686f73

const migrationsTable = `CREATE TABLE IF NOT EXISTS hub_migrations (
	series TEXT NOT NULL,
	version BIGINT NOT NULL,
	name TEXT NOT NULL,
	checksum TEXT NOT NULL,
	applied_at BIGINT NOT NULL,
	PRIMARY KEY (series, version)
)`

// ErrNewer is wrapped by every [*NewerError].
var ErrNewer = errors.New("the database is newer than this program")

// ErrPending is wrapped when migrations are still to be made.
var ErrPending = errors.New("the database is not migrated")

// NewerError says that a newer program has migrated the database.
type NewerError struct {
	Series            string
	Database, Program int // the numbers of the newest migrations
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("%v: it has migration %04d of %q, and this program knows %04d as the newest: "+
		"run the program that made it, or a newer one", ErrNewer, e.Database, e.Series, e.Program)
}

// Unwrap answers [ErrNewer].
func (e *NewerError) Unwrap() error { return ErrNewer }

// Migrate makes the migrations of all series that the database does not have yet, in the order given, all or none.
// Any number of replicas may do so at once: one does, and the others wait, on SQLite for 5 s, on PostgreSQL until
// ctx ends. It fails with a [*NewerError] where a newer program was here, and where a migration that was made is not
// what this program has under its number.
func (d *DB) Migrate(ctx context.Context, all ...Series) error {
	plan, err := d.plan(all)
	if err != nil {
		return err
	}
	// Most starts find nothing to do, and need not wait for whoever writes.
	if err := d.migrated(ctx, plan); !errors.Is(err, ErrPending) {
		return err
	}
	var made int
	err = d.Tx(ctx, func(tx *sql.Tx) error {
		var err error
		made, err = d.apply(ctx, tx, plan)
		return err
	})
	if err != nil {
		return fmt.Errorf("migrate database: %w", err)
	}
	if made > 0 {
		d.reset()
		d.logger.LogAttrs(ctx, slog.LevelInfo, "database migrated", slog.Int("migrations", made))
	}
	return nil
}

// Migrated is nil when all migrations of all series were made, as [DB.Migrate] leaves them; else it is ErrPending,
// or a [*NewerError], or says what is wrong. It changes nothing. An older replica that is to serve on while newer
// ones take over lets [ErrNewer] pass.
func (d *DB) Migrated(ctx context.Context, all ...Series) error {
	plan, err := d.plan(all)
	if err != nil {
		return err
	}
	return d.migrated(ctx, plan)
}

type planned struct {
	series     string
	migrations []migration
}

func (d *DB) plan(all []Series) ([]planned, error) {
	var plan []planned
	names := map[string]bool{}
	for _, s := range all {
		if names[s.Name] {
			return nil, fmt.Errorf("read migrations: two series are named %q", s.Name)
		}
		names[s.Name] = true
		migrations, err := s.migrations(d.engine)
		if err != nil {
			return nil, err
		}
		plan = append(plan, planned{s.Name, migrations})
	}
	return plan, nil
}

func (d *DB) migrated(ctx context.Context, plan []planned) error {
	if err := d.check(ctx, plan); err != nil {
		return fmt.Errorf("check migrations: %w", ended(ctx, err))
	}
	return nil
}

func (d *DB) check(ctx context.Context, plan []planned) error {
	exists := `SELECT COUNT(to_regclass('hub_migrations'))`
	if d.engine == SQLite {
		exists = `SELECT COUNT(*) FROM sqlite_schema WHERE type = 'table' AND name = 'hub_migrations'`
	}
	var tables int
	if err := d.read.QueryRowContext(ctx, exists).Scan(&tables); err != nil {
		return err
	}
	var pending []error
	for _, p := range plan {
		var done []migration
		if tables > 0 {
			var err error
			if done, err = applied(ctx, d.read, p.series); err != nil {
				return err
			}
		}
		due, err := p.due(done)
		if err != nil {
			return err
		}
		if len(due) > 0 {
			pending = append(pending, fmt.Errorf("%w: %d of %q are to be made", ErrPending, len(due), p.series))
		}
	}
	return errors.Join(pending...)
}

func (d *DB) apply(ctx context.Context, tx *sql.Tx, plan []planned) (made int, err error) {
	if d.engine == PostgreSQL {
		// Whoever waits here waits for the migrations of another, which may take as long as they take.
		if _, err := tx.ExecContext(ctx, "SET LOCAL lock_timeout = 0"); err != nil {
			return 0, err
		}
		if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", int64(migrationLock)); err != nil {
			return 0, err
		}
	}
	if _, err := tx.ExecContext(ctx, migrationsTable); err != nil {
		return 0, err
	}
	for _, p := range plan {
		done, err := applied(ctx, tx, p.series)
		if err != nil {
			return 0, err
		}
		due, err := p.due(done)
		if err != nil {
			return 0, err
		}
		for _, m := range due {
			if _, err := tx.ExecContext(ctx, m.statement); err != nil {
				return 0, fmt.Errorf("run %s of %q: %w", m.name, p.series, err)
			}
			_, err := tx.ExecContext(ctx,
				`INSERT INTO hub_migrations (series, version, name, checksum, applied_at) VALUES ($1, $2, $3, $4, $5)`,
				p.series, m.version, m.name, m.checksum, Micros(time.Now()))
			if err != nil {
				return 0, err
			}
			made++
		}
	}
	return made, nil
}

// due answers the migrations that are still to be made, given those that were.
func (p planned) due(done []migration) ([]migration, error) {
	if newest := len(done); newest > 0 && done[newest-1].version > len(p.migrations) {
		return nil, &NewerError{Series: p.series, Database: done[newest-1].version, Program: len(p.migrations)}
	}
	for i, m := range done {
		if m.version != i+1 {
			return nil, fmt.Errorf("the database lacks migration %04d of %q, but has %s", i+1, p.series, m.name)
		}
		if m.checksum != p.migrations[i].checksum {
			return nil, fmt.Errorf("migration %s of %q was made with another text than this program has: "+
				"a migration must not be changed, add one", p.migrations[i].name, p.series)
		}
	}
	return p.migrations[len(done):], nil
}

type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func applied(ctx context.Context, q queryer, series string) (done []migration, err error) {
	rows, err := q.QueryContext(ctx, `SELECT version, name, checksum FROM hub_migrations WHERE series = $1 ORDER BY version`, series)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var m migration
		if err := rows.Scan(&m.version, &m.name, &m.checksum); err != nil {
			return nil, err
		}
		done = append(done, m)
	}
	return done, rows.Err()
}
