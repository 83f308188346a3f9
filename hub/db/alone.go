package db

import (
	"errors"
	"fmt"
	"os"

	"github.com/seed93082962/agenthost/internal/filelock"
)

// Alone reports whether no other open DB, of this or another process, has called it for the same
// SQLite file. The call lasts until Close, or the end of the process. It is false with PostgreSQL,
// which several programs may share.
//
// It must be called within [DB.Tx], so that two programs do not call it at once: each of them
// releases its shared lock to try for an exclusive one.
func (d *DB) Alone() (alone bool, err error) {
	if d.path == "" {
		return false, nil
	}
	d.sharing.Lock()
	defer d.sharing.Unlock()
	if d.shared == nil {
		// A lock of the database itself would end with that of any other use of it by this process.
		d.shared, err = os.OpenFile(d.path+".lock", os.O_RDWR|os.O_CREATE|filelock.OpenFlags, 0o600)
	} else {
		err = filelock.Unlock(d.shared)
	}
	if err == nil {
		err = filelock.Lock(d.shared)
	}
	if alone = err == nil; alone {
		err = filelock.Unlock(d.shared)
	}
	if err == nil || errors.Is(err, filelock.ErrLocked) {
		err = filelock.LockShared(d.shared)
	}
	if err != nil {
		return false, fmt.Errorf("lock the file of the database: %w", err)
	}
	return alone, nil
}

// leave ends the effect of Alone.
func (d *DB) leave() error {
	d.sharing.Lock()
	defer d.sharing.Unlock()
	if d.shared == nil {
		return nil
	}
	defer func() { d.shared = nil }()
	return d.shared.Close()
}
