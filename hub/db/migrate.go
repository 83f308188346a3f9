package db

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/seed93082962/agenthost/internal/migrate"
)

// Series is a named, numbered list of migrations. Each concern has one, and the database stores
// which ones were applied, by name.
//
// Files holds postgres/NNNN_name.sql and sqlite/NNNN_name.sql, numbered from 0001 without gaps.
// Each file is applied once and may hold several statements. All migrations of all series run in
// one transaction: statements that cannot run in one (CREATE INDEX CONCURRENTLY, VACUUM) are not
// supported. An applied file must not be changed: the database stores its checksum.
type Series = migrate.Series

// Embedded returns the series of a concern, whose files are in the directory "migrations".
func Embedded(name string, files embed.FS) Series {
	sub, err := fs.Sub(files, "migrations")
	if err != nil {
		panic(err) // only for an invalid name
	}
	return Series{Name: name, Files: sub}
}

// NewerError means that a newer program has migrated the database. It wraps [ErrNewer].
type NewerError = migrate.NewerError

// ErrNewer is wrapped by every [*NewerError].
var ErrNewer = migrate.ErrNewer

// ErrPending means that migrations have not been applied yet.
var ErrPending = migrate.ErrPending

// Migrate applies the missing migrations of all series in the order given, all or none. Concurrent
// calls, of other processes too, wait for each other: on SQLite for 5 s, on PostgreSQL until ctx
// ends. It fails with a [*NewerError] if a newer program has migrated the database, and with
// another error if an applied migration differs from the one of this program.
func (d *DB) Migrate(ctx context.Context, all ...Series) error {
	plan, err := migrate.Read(string(d.engine), all...)
	if err != nil {
		return err
	}
	// Most starts find nothing to apply and need no lock.
	if err := d.check(ctx, plan); !errors.Is(err, ErrPending) {
		return err
	}
	var n int
	err = d.Tx(ctx, func(tx *sql.Tx) (err error) {
		n, err = plan.Apply(ctx, tx)
		return err
	})
	if err != nil {
		return fmt.Errorf("migrate database: %w", err)
	}
	if n > 0 {
		d.reset()
		d.logger.LogAttrs(ctx, slog.LevelInfo, "database migrated", slog.Int("migrations", n))
	}
	return nil
}

// Migrated returns nil if all migrations of all series have been applied. Otherwise it returns
// [ErrPending], a [*NewerError], or an error that describes a migration that was changed or
// removed. It changes nothing. An older replica that continues to serve while newer ones replace it
// ignores ErrNewer.
func (d *DB) Migrated(ctx context.Context, all ...Series) error {
	plan, err := migrate.Read(string(d.engine), all...)
	if err != nil {
		return err
	}
	return d.check(ctx, plan)
}

func (d *DB) check(ctx context.Context, plan migrate.Plan) error {
	if err := plan.Check(ctx, d.read); err != nil {
		return fmt.Errorf("check migrations: %w", ended(ctx, err))
	}
	return nil
}
