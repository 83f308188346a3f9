package sqlaudit

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

//go:embed migrations
var files embed.FS

// Migrations holds the schema as numbered SQL files, postgres/NNNN_name.sql and sqlite/NNNN_name.sql, for a program that
// has a way to apply such files. Others use [Migrate]; a database takes one of the two ways for ever.
func Migrations() fs.FS {
	sub, err := fs.Sub(files, "migrations")
	if err != nil {
		panic(err) // the path is a constant
	}
	return sub
}

// migrationLock is the advisory lock under which PostgreSQL migrates, an arbitrary number.
const migrationLock = 7402958236714093

// Migrate brings the schema of the store into the database, or up to date, in one transaction. Several processes may do so
// at once. It keeps what it did in the table audit_schema.
func Migrate(ctx context.Context, db *sql.DB, engine string) error {
	if _, err := dialectOf(engine); err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("migrate audit log: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	if err := migrate(ctx, tx, engine); err != nil {
		return fmt.Errorf("migrate audit log: %w", err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("migrate audit log: %w", err)
	}
	return nil
}

func migrate(ctx context.Context, tx *sql.Tx, engine string) error {
	if engine == PostgreSQL {
		if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", int64(migrationLock)); err != nil {
			return err
		}
	}
	// SQLite takes its write lock here, before anything is read.
	if _, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS audit_schema (version BIGINT PRIMARY KEY)"); err != nil {
		return err
	}
	var done int64
	if err := tx.QueryRowContext(ctx, "SELECT COALESCE(MAX(version), 0) FROM audit_schema").Scan(&done); err != nil {
		return err
	}
	names, err := fs.Glob(Migrations(), engine+"/*.sql") // sorted
	if err != nil {
		return err
	}
	var newest int64
	for _, name := range names {
		number, _, _ := strings.Cut(strings.TrimPrefix(name, engine+"/"), "_")
		if newest, err = strconv.ParseInt(number, 10, 64); err != nil {
			return err
		}
		if newest <= done {
			continue
		}
		text, err := fs.ReadFile(Migrations(), name)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, string(text)); err != nil {
			return fmt.Errorf("apply %s: %w", name, err)
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO audit_schema (version) VALUES ($1)", newest); err != nil {
			return err
		}
	}
	if done > newest {
		return fmt.Errorf("the schema has version %d, this program knows %d", done, newest)
	}
	return nil
}
