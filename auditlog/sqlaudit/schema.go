package sqlaudit

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/seed93082962/agenthost/internal/migrate"
)

//go:embed migrations
var files embed.FS

// Migrations holds the schema as numbered SQL files, postgres/NNNN_name.sql and
// sqlite/NNNN_name.sql, for a program that applies such files itself. Other programs call
// [Migrate]. A database must always be migrated in the same way.
func Migrations() fs.FS {
	sub, err := fs.Sub(files, "migrations")
	if err != nil {
		panic(err) // the path is a constant
	}
	return sub
}

// Migrate creates or updates the schema of the store in one transaction. Concurrent calls of
// several processes wait for each other. The table agenthost_migrations stores the applied
// migrations.
func Migrate(ctx context.Context, db *sql.DB, engine string) error {
	if err := runMigrations(ctx, db, engine); err != nil {
		return fmt.Errorf("migrate audit log: %w", err)
	}
	return nil
}

func runMigrations(ctx context.Context, db *sql.DB, engine string) error {
	if _, err := engineOf(engine); err != nil {
		return err
	}
	plan, err := migrate.Read(engine, migrate.Series{Name: "audit", Files: Migrations()})
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := plan.Apply(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}
