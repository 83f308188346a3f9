// Package privatedir creates directories of this process that no other user can access. They are
// deleted with the process that created them, or by a later one if it was killed.
package privatedir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/internal/deeptree"
	"github.com/seed93082962/agenthost/internal/filelock"
)

const (
	lockName = "lock" // in the directory of a Set, locked while it exists

	maxLeftovers = 10_000        // names that are read to find the directories of ended processes
	newGrace     = 2 * time.Hour // after which a directory without a lock is one of an ended process
)

// Set is a set of private directories:
//
//	<base>/<prefix><random>/lock
//	<base>/<prefix><random>/<number>/
//
// The directory of the set exists while one of its directories does. The first directory of a
// process deletes those of processes that were killed. A Set is safe for concurrent use.
type Set struct {
	base, prefix, path string
	log                *slog.Logger

	mu     sync.Mutex // guards the fields below
	lock   *os.File   // nil while path does not exist
	number int        // of the last directory
	count  int        // of existing directories
}

// New returns an empty set below base, which is created when it is needed. The sets of a prefix
// have the same purpose.
func New(base, prefix string, log *slog.Logger) *Set {
	return &Set{base: base, prefix: prefix, path: filepath.Join(base, prefix+strings.ToLower(rand.Text()[:12])), log: log}
}

// Path returns the parent of the directories.
func (s *Set) Path() string { return s.path }

// Create creates an empty directory that only this user can access.
func (s *Set) Create() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		if err := s.open(); err != nil {
			return "", fmt.Errorf("create a private directory: %w", err)
		}
	}

	s.number++
	dir := filepath.Join(s.path, strconv.Itoa(s.number))
	if err := os.Mkdir(dir, 0o700); err != nil {
		s.closeUnused()
		return "", fmt.Errorf("create a private directory: %w", err)
	}

	s.count++
	return dir, nil
}

// Delete deletes a directory of Create with its content.
func (s *Set) Delete(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := deeptree.Remove(dir); err != nil { // a process that has left the group may still write to it
		s.log.Warn("a private directory cannot be deleted", "dir", dir, "err", err)
		return // the next process deletes it
	}

	s.count--
	s.closeUnused()
}

// open creates and locks path. It is created under another name, because the deletion of leftovers
// by another process takes a directory without a lock for one.
func (s *Set) open() error {
	if err := os.MkdirAll(s.base, 0o700); err != nil {
		return err
	}

	s.deleteLeftovers()
	work := s.path + ".new"
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}

	lock, err := os.OpenFile(filepath.Join(work, lockName), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		if err = filelock.Lock(lock); err == nil {
			err = os.Rename(work, s.path)
		}
	}

	if err != nil {
		if lock != nil {
			_ = lock.Close()
		}

		return errors.Join(err, os.RemoveAll(work))
	}

	s.lock = lock
	return nil
}

// closeUnused deletes path when it has no more directories.
func (s *Set) closeUnused() {
	if s.count > 0 {
		return
	}

	if err := deeptree.Remove(s.path); err != nil {
		s.log.Warn("the parent of private directories cannot be deleted", "dir", s.path, "err", err)
		return
	}

	_ = s.lock.Close()
	s.lock = nil
}

// deleteLeftovers deletes the directories of processes that have ended without deleting them.
func (s *Set) deleteLeftovers() {
	root, err := os.OpenRoot(s.base)
	if err != nil {
		return
	}

	defer func() { _ = root.Close() }()
	dir, err := root.Open(".")
	if err != nil {
		return
	}

	defer func() { _ = dir.Close() }()
	entries, _ := dir.ReadDir(maxLeftovers) // with an error, those that were read
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), s.prefix) {
			continue
		}

		lock, err := root.OpenFile(filepath.Join(e.Name(), lockName), os.O_RDWR|filelock.OpenFlags, 0)
		if err == nil {
			err = filelock.Lock(lock)
			if err == nil {
				err = deeptree.Remove(filepath.Join(s.base, e.Name()))
			}

			_ = lock.Close()
		} else if info, statErr := e.Info(); statErr == nil && errors.Is(err, fs.ErrNotExist) && time.Since(info.ModTime()) > newGrace {
			err = deeptree.Remove(filepath.Join(s.base, e.Name()))
		}

		if err != nil && !errors.Is(err, filelock.ErrLocked) { // of another user
			s.log.Debug("a private directory of another process cannot be deleted", "dir", e.Name(), "err", err)
		}
	}
}
