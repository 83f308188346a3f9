package db

import (
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"modernc.org/sqlite"
)

// maxBusy bounds how long a transaction waits for another process to unlock the file.
const maxBusy = 5 * time.Second

// patient opens connections whose transactions wait for a locked file as long as their context allows. SQLite waits by
// itself for busyTimeout, and looks at nothing while it does: that is how late the end of a context may be seen.
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
				return nil, fmt.Errorf("connect: the driver's %T lacks methods", c)
			}
			return &patientConn{conn}, nil
		}
		// The first connections to a new file change it to WAL all at once, and SQLite lets one of them wait for nothing.
		if !pause(ctx, err, began) {
			return nil, err
		}
	}
}

// sqliteConn is what database/sql asks a connection for beyond the least, all of which is passed on.
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

type patientConn struct{ sqliteConn }

// BeginTx is the place to wait, because nothing has happened yet that a second try could repeat.
func (c *patientConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	began := time.Now()
	for {
		tx, err := c.sqliteConn.BeginTx(ctx, options)
		if err == nil || !pause(ctx, err, began) {
			return tx, err
		}
	}
}

// pause tells whether to try again, after a while.
func pause(ctx context.Context, err error, began time.Time) bool {
	return retryable(err) && time.Since(began) < maxBusy && wait(ctx, firstPause)
}
