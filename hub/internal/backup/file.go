package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/filelock"
	"github.com/seed93082962/agenthost/internal/syncdir"
)

// partial is the end of the name of a file that is not complete. A later backup to the same path
// replaces it.
const partial = ".partial"

// WriteFile writes a backup of d to a file with mode 0600. It replaces a former backup when the new
// one is complete and on the disk, and no other file.
func WriteFile(ctx context.Context, cfg Config, d *db.DB, path string) (m Manifest, err error) {
	if err := checkReplaced(path); err != nil {
		return m, err
	}

	file, err := openPartial(path)
	if err != nil {
		return m, fmt.Errorf("create backup: %w", err)
	}

	defer func() {
		err = errors.Join(err, file.Close())
		if err != nil {
			_ = os.Remove(file.Name()) // err is the error to return
		}
	}()
	dump, err := replace(file.Name() + ".database")
	if err != nil {
		return m, fmt.Errorf("create dump: %w", err)
	}

	if m, err = cfg.write(ctx, d, dump, &pacedFile{ctx: ctx, file: file}); err != nil {
		return m, err
	}

	if err := file.Sync(); err != nil {
		return m, writing(err)
	}

	if err := os.Rename(file.Name(), path); err != nil {
		return m, writing(err)
	}

	return m, writing(syncdir.Sync(filepath.Dir(path)))
}

// checkReplaced returns an error if a file exists that is not a backup: its name may be a mistake.
func checkReplaced(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|filelock.OpenFlags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	if err != nil {
		return fmt.Errorf("open former backup: %w", err)
	}

	start := make([]byte, len(manifestName))
	_, err = io.ReadFull(f, start)
	if err := errors.Join(err, f.Close()); err != nil || string(start) != manifestName {
		return fmt.Errorf("%s exists and is not a backup: choose another name", path)
	}

	return nil
}

// openPartial creates the file of an incomplete backup, which one process at a time writes.
func openPartial(path string) (*os.File, error) {
	f, err := replace(path + partial)
	if err != nil {
		return nil, err
	}

	if err = filelock.Lock(f); errors.Is(err, filelock.ErrLocked) {
		err = errWritten
	}

	if err == nil {
		err = current(f)
	}

	if err != nil {
		return nil, errors.Join(err, f.Close())
	}

	return f, nil
}

var errWritten = errors.New("another process writes this backup")

// replace creates an empty file with mode 0600 in place of what a killed process left. A file or a
// link of another user at this name is not written, because that user could read it. If a process
// has locked the file, replace returns errWritten.
func replace(path string) (*os.File, error) {
	if former, err := os.OpenFile(path, os.O_RDONLY|filelock.OpenFlags, 0); err == nil {
		defer func() { _ = former.Close() }() // until then, no other process replaces it
		if errors.Is(filelock.Lock(former), filelock.ErrLocked) {
			return nil, errWritten
		}
	}

	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}

	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// current returns an error if the file has another name now: the process that had the lock before
// has completed it.
func current(f *os.File) error {
	named, err := os.Lstat(f.Name())
	if err != nil {
		return err
	}

	opened, err := f.Stat()
	if err == nil && !os.SameFile(named, opened) {
		err = errors.New("another process has just written this backup")
	}

	return err
}
