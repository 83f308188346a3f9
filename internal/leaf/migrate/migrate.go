// Package migrate applies numbered SQL files to PostgreSQL or SQLite through database/sql. It
// imports no driver.
package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// postgres is the engine with advisory locks. Every other engine is SQLite.
const postgres = "postgres"

// lock is the key of the advisory lock that makes concurrent migrations of one PostgreSQL database
// wait for each other. Other programs must not use it in the same database.
const lock = 0x6167656e74686f73

const createTable = `CREATE TABLE IF NOT EXISTS agenthost_migrations (
	series TEXT NOT NULL,
	version BIGINT NOT NULL,
	name TEXT NOT NULL,
	checksum TEXT NOT NULL,
	applied_at BIGINT NOT NULL,
	PRIMARY KEY (series, version)
)`

// ErrNewer is wrapped by every [*NewerError].
var ErrNewer = errors.New("the database is newer than this program")

// ErrPending means that migrations have not been applied yet.
var ErrPending = errors.New("the database is not migrated")

// NewerError means that a newer program has migrated the database.
type NewerError struct {
	Series            string
	Database, Program int // the numbers of the newest migrations
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("%v: it has migration %04d of %q, and this program has %04d as the newest: "+
		"run the program that applied it, or a newer one", ErrNewer, e.Database, e.Series, e.Program)
}

// Unwrap returns [ErrNewer].
func (e *NewerError) Unwrap() error { return ErrNewer }

// Plan holds the migrations of a program for one engine, in the order in which they are applied.
type Plan struct {
	engine string
	series []planned
}

type planned struct {
	name       string
	migrations []migration
}

// Read reads the files of all series. The engine is "postgres" or "sqlite".
func Read(engine string, all ...Series) (Plan, error) {
	p := Plan{engine: engine}
	names := map[string]bool{}
	for _, s := range all {
		if names[s.Name] {
			return Plan{}, fmt.Errorf("read migrations: two series are named %q", s.Name)
		}

		names[s.Name] = true
		migrations, err := s.migrations(engine)
		if err != nil {
			return Plan{}, err
		}

		p.series = append(p.series, planned{s.Name, migrations})
	}

	return p, nil
}

// Querier is a database or a transaction.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Check returns nil if all migrations have been applied. Otherwise it returns [ErrPending], a
// [*NewerError], or an error that describes a migration that was changed or removed. It changes
// nothing.
func (p Plan) Check(ctx context.Context, q Querier) error {
	exists := `SELECT COUNT(*) FROM sqlite_schema WHERE type = 'table' AND name = 'agenthost_migrations'`
	if p.engine == postgres {
		exists = `SELECT COUNT(to_regclass('agenthost_migrations'))`
	}

	var tables int
	if err := q.QueryRowContext(ctx, exists).Scan(&tables); err != nil {
		return err
	}

	var pending []error
	for _, s := range p.series {
		var done []migration
		if tables > 0 {
			var err error
			if done, err = applied(ctx, q, s.name); err != nil {
				return err
			}
		}

		due, err := s.due(done)
		if err != nil {
			return err
		}

		if len(due) > 0 {
			pending = append(pending, fmt.Errorf("%w: %d of %q have to be applied", ErrPending, len(due), s.name))
		}
	}

	return errors.Join(pending...)
}

// Versions returns the number of the newest applied migration of each series of a database with
// migrations.
func Versions(ctx context.Context, q Querier) (versions map[string]int, err error) {
	rows, err := q.QueryContext(ctx, `SELECT series, MAX(version) FROM agenthost_migrations GROUP BY series`)
	if err != nil {
		return nil, err
	}

	defer func() { err = errors.Join(err, rows.Close()) }()
	versions = map[string]int{}
	for rows.Next() {
		var name string
		var version int
		if err := rows.Scan(&name, &version); err != nil {
			return nil, err
		}

		versions[name] = version
	}

	return versions, rows.Err()
}

// Known returns a [*NewerError] if the newest migrations of a database are not all in the plan.
func (p Plan) Known(versions map[string]int) error {
	program := map[string]int{}
	for _, s := range p.series {
		program[s.name] = len(s.migrations)
	}

	for _, name := range slices.Sorted(maps.Keys(versions)) {
		if versions[name] > program[name] {
			return &NewerError{Series: name, Database: versions[name], Program: program[name]}
		}
	}

	return nil
}

// Transaction is a [*sql.Tx], or a [*sql.Conn] in a transaction.
type Transaction interface {
	Querier
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Apply applies the missing migrations in tx and returns their number. On PostgreSQL it waits for
// concurrent migrations without a time limit. On SQLite tx must hold the write lock from its begin:
// its first statements only read, and a transaction that has read cannot wait for another writer.
func (p Plan) Apply(ctx context.Context, tx Transaction) (int, error) {
	if p.engine == postgres {
		if _, err := tx.ExecContext(ctx, "SET LOCAL lock_timeout = 0"); err != nil {
			return 0, err
		}

		if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", int64(lock)); err != nil {
			return 0, err
		}
	}

	if _, err := tx.ExecContext(ctx, createTable); err != nil {
		return 0, err
	}

	var n int
	for _, s := range p.series {
		done, err := applied(ctx, tx, s.name)
		if err != nil {
			return 0, err
		}

		due, err := s.due(done)
		if err != nil {
			return 0, err
		}

		for _, m := range due {
			if _, err := tx.ExecContext(ctx, m.statement); err != nil {
				return 0, fmt.Errorf("apply %s of %q: %w", m.name, s.name, err)
			}

			_, err := tx.ExecContext(ctx,
				`INSERT INTO agenthost_migrations (series, version, name, checksum, applied_at) VALUES ($1, $2, $3, $4, $5)`,
				s.name, m.version, m.name, m.checksum, time.Now().UnixMicro())
			if err != nil {
				return 0, err
			}

			n++
		}
	}

	return n, nil
}

// due returns the migrations that follow the applied ones.
func (s planned) due(done []migration) ([]migration, error) {
	if newest := len(done); newest > 0 && done[newest-1].version > len(s.migrations) {
		return nil, &NewerError{Series: s.name, Database: done[newest-1].version, Program: len(s.migrations)}
	}

	for i, m := range done {
		if m.version != i+1 {
			return nil, fmt.Errorf("the database lacks migration %04d of %q, but has %s", i+1, s.name, m.name)
		}

		if m.checksum != s.migrations[i].checksum {
			return nil, fmt.Errorf("migration %s of %q was applied with another text than this program has: "+
				"a migration must not be changed, add one", s.migrations[i].name, s.name)
		}
	}

	return s.migrations[len(done):], nil
}

func applied(ctx context.Context, q Querier, series string) (done []migration, err error) {
	rows, err := q.QueryContext(ctx, `SELECT version, name, checksum FROM agenthost_migrations WHERE series = $1 ORDER BY version`, series)
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
