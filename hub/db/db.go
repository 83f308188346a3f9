// Package db opens the hub's database, SQLite or PostgreSQL, from one URL, migrates its schema, and
// runs transactions. It contains no table: each concern has its own migrations as a [Series] and
// its own SQL, which both engines accept.
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
// Both engines support $1 placeholders in any order, RETURNING, ON CONFLICT, row values, partial
// indexes and NULLS LAST. Times are BIGINT, see [Micros]. SQLite has no FOR UPDATE: an UPDATE as
// the first statement of a transaction locks its row on PostgreSQL, and on SQLite a transaction
// locks the whole database from its start. Columns are named, never *, so that an older program
// continues to work after a newer one added a column.
//
// # Connections
//
// SQLite has one connection for writes and [Config.MaxConns] for reads, 8 by default, which reject
// writes. A write waits for the connection until its context ends. If another process has locked
// the file, a transaction waits 5 s and a single statement 1 s; the end of a context may be noticed
// 1 s late. A commit is on the disk when it returns. Concurrent calls of [DB.Tx] share one: each is
// a savepoint of a common transaction. The file must not be on a network file system, where the
// locks of SQLite do not work.
//
// PostgreSQL has one pool for both, with at most 16 connections by default, which are closed after
// 5 minutes without use. Each replica of the hub has its own pool; the sum must stay below
// max_connections of the server, which is 100 by default. The time limit is 5 s to connect and 5 s
// to wait for a lock. The server ends a transaction of a hub that sends nothing for 30 s, such as a
// suspended one, which would keep its locks. connect_timeout, lock_timeout,
// idle_in_transaction_session_timeout and pool_max_conns in the URL take precedence.
// Inside [DB.Tx], use only the *sql.Tx: a call of Read would wait for a second connection while
// concurrent transactions hold all of them.
package db

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
)

// Engine is a database engine. Its value is the directory of its migrations in a [Series].
type Engine string

// The engines.
const (
	PostgreSQL Engine = "postgres"
	SQLite     Engine = "sqlite"
)

// Config configures [Open].
type Config struct {
	// URL is sqlite://<path> with a literal path, or postgres://... in the form of libpq. Missing
	// parts of the latter come from the PG* environment variables and their files, as with every
	// client of PostgreSQL.
	URL string

	// MaxConns bounds the connections; with SQLite only those for reads. Defaults to 8 for SQLite
	// and 16 for PostgreSQL.
	MaxConns int

	// Logger receives applied migrations, transactions that had to be repeated, files whose
	// permissions were too wide, and a connection to another host that is not encrypted. Defaults
	// to none.
	Logger *slog.Logger
}

// DB is an open database. It is safe for concurrent use.
type DB struct {
	engine      Engine
	read, write *sql.DB
	groups      *groups // nil for PostgreSQL, which shares the syncs of concurrent transactions itself
	reset       func()  // closes pooled connections, whose prepared statements depend on the schema
	close       func() error
	logger      *slog.Logger
}

// Open opens the database that the URL names. A SQLite file that does not exist is created with
// mode 0600, its directories with 0700, and the mode of an existing file is tightened to 0600. If
// the database cannot be used, Open fails, with [ErrUnavailable] if a later attempt may succeed.
func Open(ctx context.Context, config Config) (*DB, error) {
	if config.MaxConns < 0 {
		return nil, fmt.Errorf("open database: MaxConns is %d, and must not be negative", config.MaxConns)
	}
	config.Logger = cmp.Or(config.Logger, slog.New(slog.DiscardHandler))
	d, err := open(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", classify(ctx, err))
	}
	d.logger = config.Logger
	return d, nil
}

func open(ctx context.Context, config Config) (*DB, error) {
	engine, rest, err := parse(config.URL)
	if err != nil {
		return nil, err
	}
	if engine == SQLite {
		return openSQLite(ctx, rest, config)
	}
	return openPostgreSQL(ctx, rest, config)
}

// Engine returns the engine of the database.
func (d *DB) Engine() Engine { return d.engine }

// Read returns the pool for statements that change nothing. On SQLite it rejects all others. Its
// errors do not wrap [ErrUnavailable]: see [Unavailable].
func (d *DB) Read() *sql.DB { return d.read }

// Write returns the pool for statements that change something without a transaction. On SQLite it
// has one connection: open rows, for example, block all writes. Its errors do not wrap
// [ErrUnavailable]: see [Unavailable].
func (d *DB) Write() *sql.DB { return d.write }

// Ping returns [ErrUnavailable] unless the database can be reached and takes writes. It is for a
// readiness probe.
func (d *DB) Ping(ctx context.Context) error {
	if err := d.ping(ctx); err != nil {
		return fmt.Errorf("ping database: %w", classify(ctx, err))
	}
	return nil
}

func (d *DB) ping(ctx context.Context) error {
	if d.engine == SQLite {
		var version int // of the schema, which is read from the file
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

// Close waits for running statements and closes all connections.
func (d *DB) Close() error {
	if err := d.close(); err != nil {
		return fmt.Errorf("close database: %w", err)
	}
	return nil
}
