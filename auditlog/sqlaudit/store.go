// Package sqlaudit stores audit logs in PostgreSQL or SQLite through database/sql. It imports no
// driver:
//
//	db, err := sql.Open("pgx", url)
//	err = sqlaudit.Migrate(ctx, db, "postgres")
//	store, err := sqlaudit.New(sqlaudit.Config{Write: db, Engine: "postgres"})
//
// [Store.Append] writes records in a transaction of its own. [Store.AppendTx] joins the caller's
// transaction, so that a change and its entry are committed together. Any number of processes may
// write to one database.
//
// # Tables
//
// audit_heads has a row for each tenant: the newest entry, and the last pruned one. A writer locks
// it, so ids are dense and no entry appears below an id that was read. audit_keys has a row for
// each category, action and user; entries refer to these keys. audit_entries has the entries.
//
// # Positions
//
// An entry stores its position within its category and its action: the number of entries with the
// same key so far. Some entries of one tenant:
//
//	id   category  category_pos  action       action_pos
//	1    auth      1             auth.login   1
//	2    user      1             user.create  1
//	3    auth      2             auth.logout  1
//	4    auth      3             auth.login   2
//	5    user      2             user.create  2
//	6    auth      4             auth.logout  2
//
// The total of a filter is a difference of two positions. For category auth and the ids 3 to 6 it
// is the position of the last auth entry at or below 6, less that of the last auth entry below 3: 4
// - 1 = 3. The index (category, id) finds each of the two entries directly. Times never decrease
// along ids, so a time range is a range of ids.
//
// A page is a range of positions. The page of category auth with offset 1 and limit 2 begins at
// position 4 - 1 = 3 and contains the positions 3 and 2: the entries 4 and 3. Pruning deletes
// entries 1 and 2 without a change of later positions; the key keeps the position of its last
// pruned entry, its floor, and totals subtract that: 4 - 1 = 3.
//
// # Milestones
//
// The page must find position 3 without reading all entries before it. An index (category,
// category_pos) of all entries would make appends slower. The index contains only every sixteenth
// position, the milestones. To find position 1,000,003 of a key, the query looks up the next
// milestone, 1,000,016, and reads the index (category, id) from its id downwards: at most fifteen
// entries are skipped. A time is found in the same way among the entries whose id is a multiple of
// 16. So a page costs the same at any depth for all filters but users.
//
// # Users
//
// A filter by user matches a part of a name or an id. The matching users are searched among the
// keys, and their entries are counted in the index of users. A page reads either the log from its
// offset backwards or that index, whichever is estimated to be shorter. So the cost depends on the
// number of entries of the matching users.
//
// # Connections
//
// On PostgreSQL the transactions given to AppendTx may have any isolation. On SQLite, Write should
// have one connection, WAL, a busy timeout, and transactions that begin immediate
// (_txlock=immediate with modernc.org/sqlite).
package sqlaudit

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/internal/leaf/auditstore"
	"github.com/seed93082962/agenthost/internal/leaf/migrate"
)

// The engines.
const (
	postgreSQL = "postgres"
	sqlite     = "sqlite"
)

// Config configures a Store.
type Config struct {
	Write  *sql.DB // required
	Read   *sql.DB // for queries. Defaults to Write.
	Engine string  // required: postgres or sqlite

	// Now is the clock of createdAt. Defaults to time.Now.
	Now func() time.Time
}

// Store is an [auditlog.Store] for any number of processes.
type Store struct {
	write  *sql.DB
	read   *sql.DB
	engine engine
	now    func() time.Time
}

var _ auditlog.Store = (*Store)(nil)

// New returns a store on a database that has the schema. It sends no statement to the database.
func New(c Config) (*Store, error) {
	if c.Write == nil {
		return nil, errors.New("open audit log: no database")
	}

	e, err := engineOf(c.Engine)
	if err != nil {
		return nil, err
	}

	s := &Store{write: c.Write, read: cmp.Or(c.Read, c.Write), engine: e, now: c.Now}
	if s.now == nil {
		s.now = time.Now
	}

	return s, nil
}

// Head implements [auditlog.Store].
func (s *Store) Head(ctx context.Context, tenantID string) (auditlog.Head, error) {
	l, err := s.log(ctx, s.read, tenantID)
	return l.head, err
}

// Checkpoint implements [auditlog.Store].
func (s *Store) Checkpoint(ctx context.Context, tenantID string) (auditlog.Head, error) {
	l, err := s.log(ctx, s.read, tenantID)
	return l.floor, err
}

// Tenants returns the tenants that have a log, by name.
func (s *Store) Tenants(ctx context.Context) ([]string, error) {
	var names []string
	err := forEach(ctx, s.read, "SELECT name FROM audit_heads ORDER BY name", nil, func(row *sql.Rows) error {
		var name string
		err := row.Scan(&name)
		names = append(names, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list audit logs: %w", err)
	}

	return names, nil
}

// Clock returns the current time of the store's clock or of the database, whichever is earlier.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	now := s.now()
	other := time.Now()
	if s.engine.clock != "" {
		var micros int64
		if err := scanRow(ctx, s.read, s.engine.clock, nil, &micros); err != nil {
			return time.Time{}, fmt.Errorf("read clock of database: %w", err)
		}

		other = time.UnixMicro(micros)
	}

	if other.Before(now) {
		now = other
	}

	return now, nil
}

// engine contains the differences between PostgreSQL and SQLite.
type engine struct {
	isolation sql.IsolationLevel // of the store's own transactions
	lock      string             // locks the head row of the log named $1, and returns it
	clock     string             // returns the server's time in Unix microseconds; "" without a server
	contains  string             // format: text column, parameter
	set       string             // format: parameter with a JSON array of integers; a subquery with the column key
}

func engineOf(name string) (engine, error) {
	switch name {
	case postgreSQL:
		return engine{
			isolation: sql.LevelReadCommitted, // others fail instead of waiting for the lock
			lock:      "SELECT " + logColumns + " FROM audit_heads WHERE name = $1 FOR UPDATE",
			clock:     "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)",
			contains:  "strpos(%s, %s) > 0",
			set:       "(SELECT CAST(json_array_elements_text(CAST(%s AS json)) AS BIGINT) AS key)",
		}, nil
	case sqlite:
		return engine{
			lock:     "UPDATE audit_heads SET id = id WHERE name = $1 RETURNING " + logColumns,
			contains: "instr(%s, %s) > 0",
			set:      "(SELECT value AS key FROM json_each(%s))",
		}, nil
	}

	return engine{}, fmt.Errorf("open audit log: unknown engine %q", name)
}

//go:embed migrations
var files embed.FS

// Migrations holds the schema as numbered SQL files, all/NNNN_name.sql, postgres/NNNN_name.sql and
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
// several processes wait for each other, on SQLite for the busy timeout of db. The table
// agenthost_migrations stores the applied migrations.
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

	if engine == sqlite {
		return applyImmediately(ctx, db, plan)
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

// applyImmediately applies the plan in a transaction of SQLite that begins with the write lock,
// which database/sql cannot do.
func applyImmediately(ctx context.Context, db *sql.DB, plan migrate.Plan) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}

	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}

	if _, err := plan.Apply(ctx, conn); err != nil {
		_, rollback := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return errors.Join(err, rollback)
	}

	if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") // fails if the commit was done
		return err
	}

	return nil
}

// log is the head row of a tenant. Without a row, it is the zero log.
type log struct {
	tenant      int64         // the key of the tenant
	head, floor auditlog.Head // floor is the last pruned entry
}

const logColumns = "tenant, id, hash, at, floor_id, floor_hash, floor_at"

func (s *Store) log(ctx context.Context, db querier, tenantID string) (log, error) {
	if !auditstore.Storable(tenantID) {
		return log{}, nil
	}

	return scanLog(ctx, db, "SELECT "+logColumns+" FROM audit_heads WHERE name = $1", tenantID)
}

func scanLog(ctx context.Context, db querier, query, tenantID string) (log, error) {
	var at, floorAt int64
	var l log
	err := scanRow(ctx, db, query, []any{tenantID},
		&l.tenant, &l.head.ID, &l.head.Hash, &at, &l.floor.ID, &l.floor.Hash, &floorAt)
	if err != nil {
		return log{}, fmt.Errorf("read head of audit log: %w", err)
	}

	l.head = headAt(l.head, at)
	l.floor = headAt(l.floor, floorAt)
	return l, nil
}

// headAt returns the head with its time. A head without an entry is the zero Head.
func headAt(h auditlog.Head, micros int64) auditlog.Head {
	if h.ID == 0 {
		return auditlog.Head{}
	}

	h.CreatedAt = time.UnixMicro(micros).UTC()
	return h
}

// signed returns an id as the databases store it.
func signed(id uint64) int64 { return int64(min(id, math.MaxInt64)) }

// unsigned converts a count or an id from the database. They are negative only in a damaged log.
func unsigned(n int64) uint64 { return uint64(max(n, 0)) }
