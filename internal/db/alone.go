package db

import (
	"errors"
	"fmt"
	"os"

	"github.com/seed93082962/agenthost/internal/filelock"
)

// Join makes Alone false for all other open DBs of the same SQLite file, of this or another
// process, until Close or the end of the process. It has no effect with PostgreSQL. It must be
// called within [DB.Tx], as Alone.
func (d *DB) Join() error {
	d.sharing.Lock()
	defer d.sharing.Unlock()
	if d.path == "" || d.shared != nil {
		return nil
	}
	_, err := d.tryAlone()
	return err
}

// Alone joins, and reports whether no other open DB has joined. It is false with PostgreSQL, which
// several programs may share.
//
// It must be called within [DB.Tx], so that two programs do not call it at the same time: each of
// them releases its shared lock to try for an exclusive one.
func (d *DB) Alone() (bool, error) {
	if d.path == "" {
		return false, nil
	}
	d.sharing.Lock()
	defer d.sharing.Unlock()
	return d.tryAlone()
}

// tryAlone tries for an exclusive lock, and takes a shared one in any case.
func (d *DB) tryAlone() (alone bool, err error) {
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
		_ = d.shared.Close() // or nil
		d.shared = nil
		return false, fmt.Errorf("lock the file of the database: %w", err)
	}
	return alone, nil
}

// leave ends the effect of Join.
func (d *DB) leave() error {
	d.sharing.Lock()
	defer d.sharing.Unlock()
	if d.shared == nil {
		return nil
	}
	defer func() { d.shared = nil }()
	return d.shared.Close()
}
