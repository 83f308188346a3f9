package db

import (
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"modernc.org/sqlite"
)

// maxBusy bounds the time that a transaction waits for a file that another process has locked.
const maxBusy = 5 * time.Second

// patient opens connections whose transactions wait for a locked file until their context ends.
// SQLite itself waits for busyTimeout and cannot be interrupted in that time: the end of a context
// may be noticed that late.
type patient struct{ driver.Connector }

func openPatient(name string) (driver.Connector, error) {
	inner, err := sqlite.NewConnector(name)
	if err != nil {
		return nil, err
	}
	return patient{inner}, nil
}

func (p patient) Connect(ctx context.Context) (driver.Conn, error) {
	began := time.Now()
	for {
		c, err := p.Connector.Connect(ctx)
		if err == nil {
			conn, ok := c.(sqliteConn)
			if !ok {
				_ = c.Close()
				return nil, fmt.Errorf("connect: %T of the driver lacks methods", c)
			}
			return &patientConn{conn, statements{}}, nil
		}
		// Concurrent first connections to a new file all change it to WAL. SQLite returns busy to
		// some of them without waiting.
		if !pause(ctx, err, began) {
			return nil, &connectError{err}
		}
	}
}

// sqliteConn has all optional interfaces of database/sql that the driver implements.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

type patientConn struct {
	sqliteConn
	statements statements
}

// BeginTx waits for the lock. It can be repeated, because the transaction has not changed anything
// yet.
func (c *patientConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	began := time.Now()
	for {
		tx, err := c.sqliteConn.BeginTx(ctx, options)
		if err == nil || !pause(ctx, err, began) {
			return tx, err
		}
	}
}

// pause waits, and reports whether the call should be repeated.
func pause(ctx context.Context, err error, began time.Time) bool {
	return retryable(err) && time.Since(began) < maxBusy && wait(ctx, firstPause)
}
