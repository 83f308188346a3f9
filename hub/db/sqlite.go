package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

const sqliteReaders = 8

// busyTimeout is in milliseconds. See patient for what waits longer.
const busyTimeout = "busy_timeout(1000)"

func openSQLite(ctx context.Context, path string, readers int) (*DB, error) {
	if readers == 0 {
		readers = sqliteReaders
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := create(path); err != nil {
		return nil, err
	}
	// journal_mode comes after busy_timeout: the change to WAL needs the file for itself once.
	write, err := pool(path, url.Values{
		"_txlock": {"immediate"},
		"_pragma": {busyTimeout, "journal_mode(WAL)", "foreign_keys(1)", "synchronous(NORMAL)"},
	}, 1)
	if err != nil {
		return nil, err
	}
	read, err := pool(path, url.Values{"_pragma": {busyTimeout, "query_only(1)"}}, readers)
	if err != nil {
		return nil, errors.Join(err, write.Close())
	}
	d := &DB{engine: SQLite, read: read, write: write, reset: func() {}, close: func() error {
		return errors.Join(read.Close(), write.Close())
	}}
	// The first connection changes the file to WAL, which readers cannot.
	err = write.PingContext(ctx)
	if err == nil {
		err = d.ping(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func pool(path string, options url.Values, conns int) (*sql.DB, error) {
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

// create makes the file, because SQLite would make it readable by all. The files beside it take its permissions on.
func create(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("make file: %w", err)
	}
	return f.Close()
}
