package db

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const sqliteReaders = 8

// busyTimeout is in milliseconds. Transactions wait longer: see patient.
const busyTimeout = "busy_timeout(1000)"

func openSQLite(ctx context.Context, path string, config Config) (*DB, error) {
	readers := cmp.Or(config.MaxConns, sqliteReaders)
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}

	if config.ReadOnly {
		return openSQLiteToRead(ctx, path, readers)
	}

	if err := createFile(path); err != nil {
		return nil, err
	}

	restrictFiles(path, config.Logger)
	// journal_mode comes after busy_timeout: the change to WAL needs an exclusive lock once. With
	// synchronous=FULL the log is on the disk before COMMIT returns; with NORMAL, a power cut would
	// lose the last transactions. fullfsync is for macOS, where fsync leaves the data in the cache
	// of the disk. With secure_delete, zeros overwrite what is deleted: a dump has all pages.
	write, err := connect(path, url.Values{
		"_txlock": {"immediate"},
		"_pragma": {busyTimeout, "journal_mode(WAL)", "foreign_keys(1)", "synchronous(FULL)", "fullfsync(1)", "secure_delete(1)"},
	}, 1)
	if err != nil {
		return nil, err
	}

	read, err := connect(path, url.Values{"_pragma": {busyTimeout, "query_only(1)"}}, readers)
	if err != nil {
		return nil, errors.Join(err, write.Close())
	}

	d := &DB{engine: SQLite, path: path, read: read, write: write, reset: func() {}, close: func() error {
		return errors.Join(read.Close(), write.Close())
	}}
	d.log = &writeAheadLog{path: path + "-wal"}
	d.pools = func() []pool { return []pool{poolOf("read", read), poolOf("write", write)} }
	// The connection for writes changes the file to WAL, which the others cannot.
	err = write.PingContext(ctx)
	if err == nil {
		err = d.ping(ctx)
	}

	if err != nil {
		return nil, errors.Join(err, d.close())
	}

	return d, nil
}

// openSQLiteToRead opens an existing file, in which the pool for writes rejects them. With
// mode=ro, it would leave the files of the log behind, which the last connection removes.
func openSQLiteToRead(ctx context.Context, path string, readers int) (*DB, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}

	read, err := connect(path, url.Values{"mode": {"rw"}, "_pragma": {busyTimeout, "query_only(1)"}}, readers)
	if err != nil {
		return nil, err
	}

	d := &DB{engine: SQLite, path: path, read: read, write: read, reset: func() {}, close: read.Close}
	d.pools = func() []pool { return []pool{poolOf("read", read)} }
	if err := d.ping(ctx); err != nil {
		return nil, errors.Join(err, d.close())
	}

	return d, nil
}

func connect(path string, options url.Values, conns int) (*sql.DB, error) {
	name := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: options.Encode()}
	if !strings.HasPrefix(name.Path, "/") {
		name.Path = "/" + name.Path // C:/...
	}

	name.OmitHost = true
	connector, err := openPatient(name.String())
	if err != nil {
		return nil, err
	}

	p := sql.OpenDB(connector)
	p.SetMaxOpenConns(conns)
	p.SetMaxIdleConns(conns)
	return p, nil
}

// minLog is the size in bytes of a log that is truncated. SQLite itself begins it again after 4
// MiB.
const minLog = 6 << 20

// lookEvery is the time between two looks at the size of the log, of which each commit would notice
// the cost.
const lookEvery = 20 * time.Millisecond

// writeAheadLog is the file of SQLite that has the last transactions. SQLite begins it again only
// at a moment without readers. If their statements always overlap, such a moment never comes, and
// the file grows without limit.
type writeAheadLog struct {
	path string

	mu      sync.Mutex // held during an attempt
	longest int64      // of the log without another attempt, in bytes
	looked  time.Time
}

// truncate truncates a log that has grown. It waits until all readers use the database file, for at
// most the busy timeout, and writers wait for it. After a failure, the log has to double before the
// next attempt.
func (l *writeAheadLog) truncate(ctx context.Context, write *sql.DB) {
	if !l.mu.TryLock() {
		return
	}

	defer l.mu.Unlock()
	if time.Since(l.looked) < lookEvery {
		return
	}

	l.looked = time.Now()
	info, err := os.Stat(l.path)
	if err != nil || info.Size() <= max(l.longest, minLog) {
		return
	}

	var busy bool
	var frames, moved int64
	err = write.QueryRowContext(context.WithoutCancel(ctx), "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &moved)
	l.longest = minLog
	if err != nil || busy {
		l.longest = 2 * info.Size()
	}
}
