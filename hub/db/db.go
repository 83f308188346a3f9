// Package db opens the hub's database, SQLite or PostgreSQL, from one URL, brings its schema up to date, and runs
// transactions on it. It knows no table: each concern brings its own migrations as a [Series] and its own SQL, one text
// that both engines understand.
//
//	d, err := db.Open(ctx, db.Config{URL: "sqlite:///var/lib/hub/hub.db"})
//	if err != nil {
//		return err
//	}
//	defer d.Close()
//	if err := d.Migrate(ctx, identity.Migrations); err != nil {
//		return err
//	}
//	err = d.Tx(ctx, func(tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, `UPDATE accounts SET balance = balance - $1 WHERE id = $2`, 5, id)
//		return err
//	})
//
// # One SQL text
//
// Both engines take $1 placeholders in any order, RETURNING, ON CONFLICT, row values, partial indexes and NULLS LAST.
// Times are BIGINT, see [Micros]. What SQLite lacks is FOR UPDATE: an UPDATE that comes first in the transaction locks
// its row on PostgreSQL, and on SQLite the whole database is locked from the start. Columns are named, never *, so that a
// newer program that adds one disturbs no older one beside it.
//
// # Connections
//
// SQLite has one connection that writes, and as many that read as [Config.MaxConns] says, 8 by default; these refuse
// to write. Who writes waits for the connection as long as his context allows; for another process that has the file
// locked a transaction waits 5 s, and a statement of its own 1 s. The end of a context may be seen 1 s late there.
// The file must not be on a network file system, where SQLite's locks do not hold. PostgreSQL has one pool of at
// most 16 connections by default for both, opened as they are needed and closed after 5 minutes without use; each
// replica of the hub has its own, and the sum must stay below the server's max_connections, which is 100 as shipped.
// Connecting may take 5 s, and waiting for a lock 5 s; connect_timeout, lock_timeout and pool_max_conns in the URL
// say otherwise. Inside [DB.Tx] use the *sql.Tx alone: whoever asks Read for a second connection there waits for a
// pool that others in the same place may have emptied.
package db

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
)

// Engine is the kind of database. Its value is the folder with the engine's migrations in a [Series].
type Engine string

// The engines.
const (
	PostgreSQL Engine = "postgres"
	SQLite     Engine = "sqlite"
)

// Config says which database to open.
type Config struct {
	// URL is sqlite://<path>, where the path is taken as it stands, or postgres://..., as libpq has it. What the latter
	// leaves out comes from the PG* environment variables and their files, as with every client of PostgreSQL.
	URL string

	// MaxConns bounds the connections: with SQLite those that read, beside the one that writes. Defaults to 8 for SQLite
	// and 16 for PostgreSQL.
	MaxConns int

	// Logger is told which migrations were made, and of transactions that had to be run again. Defaults to none.
	Logger *slog.Logger
}

// DB is an open database. It is safe for concurrent use.
type DB struct {
	engine      Engine
	read, write *sql.DB
	reset       func() // drops pooled connections, which remember the schema as it was
	close       func() error
	logger      *slog.Logger
}

// Open opens the database that the URL names. A SQLite file that does not exist is made, readable by its owner alone, and
// so are its directories. It fails where the database cannot be used, then with [ErrUnavailable] if another try may help.
func Open(ctx context.Context, config Config) (*DB, error) {
	if config.MaxConns < 0 {
		return nil, fmt.Errorf("open database: MaxConns is %d, and must not be negative", config.MaxConns)
	}
	d, err := open(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", classify(ctx, err))
	}
	d.logger = config.Logger
	if d.logger == nil {
		d.logger = slog.New(slog.DiscardHandler)
	}
	return d, nil
}

func open(ctx context.Context, config Config) (*DB, error) {
	engine, rest, err := parse(config.URL)
	if err != nil {
		return nil, err
	}
	if engine == SQLite {
		return openSQLite(ctx, rest, config.MaxConns)
	}
	return openPostgreSQL(ctx, rest, config.MaxConns)
}

// Engine tells which kind of database this is.
func (d *DB) Engine() Engine { return d.engine }

// Read is for statements that change nothing. On SQLite it refuses all others. Its errors are bare: see [Unavailable].
func (d *DB) Read() *sql.DB { return d.read }

// Write is for statements that change something and need no transaction around them. On SQLite it has one connection,
// so that whoever keeps it, by open rows say, stops all who write. Its errors are bare: see [Unavailable].
func (d *DB) Write() *sql.DB { return d.write }

// Ping tells whether the database answers and takes writes, for a readiness probe. It is [ErrUnavailable] if not.
func (d *DB) Ping(ctx context.Context) error {
	if err := d.ping(ctx); err != nil {
		return fmt.Errorf("ping database: %w", classify(ctx, err))
	}
	return nil
}

func (d *DB) ping(ctx context.Context) error {
	if d.engine == SQLite {
		var version int // of the schema: it is read from the file
		return d.read.QueryRowContext(ctx, "PRAGMA schema_version").Scan(&version)
	}
	var readOnly string
	if err := d.write.QueryRowContext(ctx, "SHOW transaction_read_only").Scan(&readOnly); err != nil {
		return err
	}
	if readOnly == "on" {
		return errStandby
	}
	return nil
}

// Close waits for statements that run and closes all connections.
func (d *DB) Close() error {
	if err := d.close(); err != nil {
		return fmt.Errorf("close database: %w", err)
	}
	return nil
}
