package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/internal/deeptree"
	"github.com/seed93082962/agenthost/internal/filelock"
)

// lockDir contains a file for each key, which is locked during a call. Its content is the highest
// fence and the owner. It remains for a day after the deployment was deleted, because a frozen hub
// may come back.
const lockDir = ".locks"

const (
	lockPause    = 5 * time.Millisecond
	forgetFences = 24 * time.Hour
)

// locked is a locked key.
type locked struct {
	file  *os.File
	fence int64
	owner string // of the deployment; "" if a former version created it
}

// lock locks a key. A hub that is frozen while it has the lock delays the others until ctx ends.
func (d *Driver) lock(ctx context.Context, key string) (*locked, error) {
	path := filepath.Join(d.cfg.Dir, lockDir, key)
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
		return nil, fmt.Errorf("read fence: %w", err)
	}

	l := &locked{file: f}
	l.parse(string(text))
	return l, nil
}

// maxLock bounds the bytes of a lock file.
const maxLock = 256

// parse reads the fence and the owner. A damaged file has none: the next claim writes them.
func (l *locked) parse(text string) {
	fence, owner, _ := strings.Cut(strings.TrimSpace(text), " ")
	n, err := strconv.ParseInt(fence, 10, 64)
	if err != nil || n < 0 || len(text) == maxLock {
		return
	}

	l.fence, l.owner = n, strings.TrimSpace(owner)
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

// raise stores a higher fence and its owner. The text has the same length as the former one, so
// that it needs no space on a full disk.
func (l *locked) raise(claim deploy.Claim) error {
	text := fmt.Appendf(nil, "%019d %-40s\n", claim.Fence, claim.Owner)
	_, err := l.file.WriteAt(text, 0)
	if err == nil {
		err = l.file.Truncate(int64(len(text)))
	}

	if err != nil {
		return clean("write fence", err)
	}

	l.fence, l.owner = claim.Fence, claim.Owner
	return nil
}

// empty deletes in the background what was moved away.
func (d *Driver) empty(trash string) { d.waiting.Go(func() { _ = deeptree.Remove(trash) }) } // the next start tries again

func (l *locked) unlock() { _ = l.file.Close() } // it releases the lock

// sweep deletes what former hubs left: parts of deleted deployments, and fences that no hub can
// remember.
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
		info, err := e.Info()
		if err != nil || now.Sub(info.ModTime()) < forgetFences || (folder{dir: filepath.Join(d.cfg.Dir, e.Name())}).exists() {
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
