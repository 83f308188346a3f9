// Package db opens the hub's database, SQLite or PostgreSQL, from one URL, migrates its schema, and
// runs transactions. It contains no table: each concern has its own migrations as a [Series] and
// its own SQL, which both engines accept.
//
//	d, err := db.Open(ctx, db.Config{URL: "sqlite:///var/lib/hub/hub.db"})
//	if err != nil {
//		return err
//	}
//	defer d.Close()
//	if err := d.Migrate(ctx, migrations); err != nil {
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
// 1 s late. A commit is on the disk when it returns. The file must not be on a network file system,
// where the locks of SQLite do not work.
//
// PostgreSQL has one pool for both, with at most 16 connections by default, which are closed after
// 5 minutes without use. Each replica of the hub has its own pool; the sum must stay below
// max_connections of the server, which is 100 by default. The time limit is 5 s to connect and 5 s
// to wait for a lock. The server ends a transaction of a hub that sends nothing for 30 s, such as a
// suspended one, which would keep its locks. connect_timeout, lock_timeout,
// idle_in_transaction_session_timeout and pool_max_conns in the URL take precedence.
//
// A connection pooler such as PgBouncer may be in front of PostgreSQL, in any mode that keeps a
// connection for a transaction. Open detects it. No statement is prepared then, and each
// transaction sets its limits. [DB.Dump] and [Load] need the server itself.
//
// Inside [DB.Tx], use only the *sql.Tx: a call of Read would wait for a second connection while
// concurrent transactions hold all of them.
package db

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"go.opentelemetry.io/otel/metric"

	"github.com/seed93082962/agenthost/internal/diskspace"
	"github.com/seed93082962/agenthost/internal/leaf/migrate"
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

	// ReadOnly is for callers that only read: a SQLite file is not created, its mode is not changed,
	// and writes are rejected. Defaults to false.
	ReadOnly bool

	// Logger receives applied migrations, transactions that had to be repeated, files whose
	// permissions were too wide, and a connection to another host that is not encrypted. Defaults
	// to none.
	Logger *slog.Logger

	// MeterProvider receives the metrics of transactions and connections. Defaults to none.
	MeterProvider metric.MeterProvider
}

// DB is an open database. It is safe for concurrent use.
type DB struct {
	engine      Engine
	read, write *sql.DB
	log         *writeAheadLog // of SQLite, nil if ReadOnly
	reset       func()         // closes pooled connections, whose prepared statements depend on the schema
	close       func() error
	logger      *slog.Logger
	pools       func() []pool // for metrics
	metrics     *metrics

	url    string // of PostgreSQL
	pooled bool   // a connection pooler is in front of PostgreSQL
	limits []any  // names and values for each transaction whose connection does not have them
	path   string // of the SQLite file
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
	if d.metrics, err = newMetrics(config.MeterProvider, d.pools); err != nil {
		return nil, fmt.Errorf("open database: %w", errors.Join(err, d.close()))
	}

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

// Ping returns [ErrUnavailable] unless the database can be reached and takes writes, for which a
// SQLite file needs a MiB on its disk. It is for a readiness probe.
func (d *DB) Ping(ctx context.Context) error {
	err := d.ping(ctx)
	if err == nil && d.engine == SQLite {
		err = d.checkRoom()
	}

	if err != nil {
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

// leastRoom is what a transaction of SQLite may need on the disk, in bytes.
const leastRoom = 1 << 20

// checkRoom returns an error if the disk of the SQLite file is full.
func (d *DB) checkRoom() error {
	free, err := diskspace.Free(filepath.Dir(d.path))
	if err == nil && (free.Bytes < leastRoom || free.Files == 0) {
		return errFull
	}

	return nil
}

// Close waits for running statements and closes all connections.
func (d *DB) Close() error {
	d.metrics.stop()
	if err := d.close(); err != nil {
		return fmt.Errorf("close database: %w", err)
	}

	return nil
}

// Errors about URLs never quote them, because they contain passwords.
var (
	errNoURL   = errors.New("the URL is empty: use sqlite://<path> or postgres://<user>:<password>@<host>/<database>")
	errScheme  = errors.New("the URL is neither sqlite://<path> nor postgres://<user>:<password>@<host>/<database>")
	errPath    = errors.New("the sqlite:// URL has no path")
	errMemory  = errors.New("the sqlite:// URL must name a file: an in-memory database belongs to one connection, and the hub uses several")
	errOptions = errors.New("the sqlite:// URL contains a ?: options and file names with a ? are not supported")
	errNUL     = errors.New("the path of the sqlite:// URL contains a NUL character")
	errURL     = errors.New("the postgres:// URL cannot be parsed: escape special characters in user and password as %XX")
)

// parse returns the engine of a URL, and the path of the file or the URL itself.
func parse(raw string) (Engine, string, error) {
	if raw == "" {
		return "", "", errNoURL
	}

	scheme, rest, _ := strings.Cut(raw, "://")
	switch scheme {
	case "sqlite":
		return SQLite, rest, checkPath(rest)
	case "postgres", "postgresql":
		if _, err := url.Parse(raw); err != nil {
			return "", "", errURL
		}

		return PostgreSQL, raw, nil
	}

	return "", "", errScheme
}

func checkPath(path string) error {
	switch {
	case path == "":
		return errPath
	case path == ":memory:":
		return errMemory
	case strings.Contains(path, "?"):
		return errOptions
	case strings.Contains(path, "\x00"):
		return errNUL
	}

	return nil
}

// createFile creates the database file with mode 0600, because SQLite would make it readable by
// every user. SQLite gives the files next to it the same mode.
func createFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}

	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("make file: %w", err)
	}

	return f.Close()
}

// restrictFiles removes the permissions of other users from the files of the database: a former
// version, a copy or a wide umask may have left them readable. If path is a link, they are where it
// points to.
func restrictFiles(path string, logger *slog.Logger) {
	if runtime.GOOS == "windows" {
		return // a mode does not control access there
	}

	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}

	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm()&0o077 == 0 {
			continue
		}

		mode := info.Mode().Perm().String()
		if err := os.Chmod(name, 0o600); err != nil {
			logger.Warn("a database file is accessible to other users, and its mode cannot be changed", "file", name, "mode", mode, "err", err)
			continue
		}

		logger.Warn("a database file was accessible to other users: its mode is now 0600", "file", name, "mode", mode)
	}
}

// Series is a named, numbered list of migrations. Each concern has one, and the database stores
// which ones were applied, by name.
//
// Files holds all/NNNN_name.sql for both engines, and postgres/NNNN_name.sql and
// sqlite/NNNN_name.sql where their statements differ, numbered from 0001 without gaps. In all,
// ${bytes}, ${integer} and ${primary key} are BYTEA, BIGINT and PRIMARY KEY on PostgreSQL, and
// BLOB, INTEGER and NOT NULL PRIMARY KEY on SQLite. Each file is applied once and may hold several
// statements. All migrations of all series run in one transaction: statements that cannot run in
// one (CREATE INDEX CONCURRENTLY, VACUUM) are not supported. An applied file must not be changed:
// the database stores its checksum.
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
