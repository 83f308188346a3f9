package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/seed93082962/agenthost/internal/deeptree"
	"github.com/seed93082962/agenthost/internal/filelock"
)

// lockDir contains a file for each deployment, which is locked during a call. Its content is the
// owner. Agents do not see it.
const lockDir = ".locks"

const lockPause = 5 * time.Millisecond

// locked is a locked file.
type locked struct {
	file  *os.File
	owner string // of the deployment; "" in a new file
}

// lock locks a file. A hub that is frozen while it has the lock delays the others until ctx ends.
func (d *Driver) lock(ctx context.Context, name string) (*locked, error) {
	path := filepath.Join(d.cfg.Dir, lockDir, name)
	for {
		l, err := tryLock(path)
		if err != nil || l != nil {
			return l, err
		}

		timer := time.NewTimer(lockPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("another hub changes it: %w", context.Cause(ctx))
		}
	}
}

// tryLock returns nil if another file has the lock.
func tryLock(path string) (*locked, error) {
	f, err := openLock(path)
	if err != nil {
		return nil, err
	}

	ok := false
	if err = filelock.Lock(f); err == nil {
		ok, err = same(f, path)
	} else if errors.Is(err, filelock.ErrLocked) {
		err = nil
	}

	if err != nil || !ok {
		_ = f.Close()
		return nil, err
	}

	text, err := io.ReadAll(io.LimitReader(f, maxLock))
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("read owner: %w", err)
	}

	return &locked{file: f, owner: ownerIn(string(text))}, nil
}

// maxLock bounds the bytes of a lock file.
const maxLock = 256

// lockForm is the text of a lock file. A former version had a number before the owner.
var lockForm = regexp.MustCompile(`^(?:owner|\d{19}) (\S*) *\n$`)

// ownerIn returns the owner in the text of a lock file. A damaged one has none.
func ownerIn(text string) string {
	if parts := lockForm.FindStringSubmatch(text); parts != nil {
		return parts[1]
	}

	return ""
}

// same reports whether a path still leads to a file.
func same(f *os.File, path string) (bool, error) {
	opened, err := f.Stat()
	if err != nil {
		return false, err
	}

	now, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}

	return err == nil && os.SameFile(opened, now), err
}

// own stores the owner of a deployment that is created.
func (l *locked) own(owner string) error {
	text := "owner " + owner + "\n"
	_, err := l.file.WriteAt([]byte(text), 0)
	if err == nil {
		err = l.file.Truncate(int64(len(text)))
	}

	if err != nil {
		return clean("write owner", err)
	}

	return nil
}

// empty deletes in the background what was moved away.
func (d *Driver) empty(trash string) { d.waiting.Go(func() { _ = deeptree.Remove(trash) }) } // the next start tries again

func (l *locked) unlock() { _ = l.file.Close() } // it releases the lock

// sweep deletes what former hubs left of deleted deployments.
func (d *Driver) sweep(now time.Time) error {
	locks := filepath.Join(d.cfg.Dir, lockDir)
	if err := os.MkdirAll(locks, 0o700); err != nil {
		return err
	}

	trash, err := filepath.Glob(filepath.Join(d.cfg.Dir, trashPrefix+"*"))
	if err != nil {
		return err
	}

	probes, err := filepath.Glob(filepath.Join(d.cfg.Dir, probePrefix+"*"))
	if err != nil {
		return err
	}

	for _, path := range probes {
		if info, err := os.Stat(path); err == nil && now.Sub(info.ModTime()) > time.Hour { // of a hub that was killed
			trash = append(trash, path)
		}
	}

	for _, path := range trash {
		d.empty(path)
	}

	entries, err := os.ReadDir(locks)
	if err != nil {
		return err
	}

	for _, e := range entries {
		if (folder{dir: filepath.Join(d.cfg.Dir, e.Name())}).exists() {
			continue
		}

		path := filepath.Join(locks, e.Name())
		if l, err := tryLock(path); err == nil && l != nil {
			_ = os.Remove(path) // the next start tries again
			l.unlock()
		}
	}

	return nil
}
