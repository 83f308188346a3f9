package mcp

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/internal/filelock"
)

const (
	dirPrefix = "agenthost-mcp-"
	lockName  = "lock" // in the directory of a connector, locked until its last server ends

	maxLeftovers = 10_000        // names that are read to find the directories of ended processes
	newGrace     = 2 * time.Hour // after which a directory without a lock is one of an ended process
)

// directories creates the private directories of the stdio servers of a connector:
//
//	<base>/agenthost-mcp-<random>/lock
//	<base>/agenthost-mcp-<random>/<number>/
//
// The directory of the connector exists while one of its servers does. The first server of a
// process deletes the directories of processes that were killed.
type directories struct {
	base, path string
	log        *slog.Logger

	mu     sync.Mutex // guards the fields below
	lock   *os.File   // nil while path does not exist
	number int        // of the last directory
	count  int        // of existing directories
}

// create creates an empty directory that only this user can access.
func (d *directories) create() (dir string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lock == nil {
		if err := d.open(); err != nil {
			return "", fmt.Errorf("create a private directory: %w", err)
		}
	}
	d.number++
	dir = filepath.Join(d.path, strconv.Itoa(d.number))
	if err := os.Mkdir(dir, 0o700); err != nil {
		d.closeUnused()
		return "", fmt.Errorf("create a private directory: %w", err)
	}
	d.count++
	return dir, nil
}

// delete deletes a directory of create with its content.
func (d *directories) delete(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := deleteTree(dir); err != nil { // a process that has left the group may still write to it
		d.log.Warn("the private directory of an MCP server cannot be deleted", "dir", dir, "err", err)
		return // the next process deletes it
	}
	d.count--
	d.closeUnused()
}

// open creates and locks path. It is created under another name, because the deletion of leftovers
// by another process takes a directory without a lock for one.
func (d *directories) open() error {
	if err := os.MkdirAll(d.base, 0o700); err != nil {
		return err
	}
	d.deleteLeftovers()
	work := d.path + ".new"
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(work, lockName), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		if err = filelock.Lock(lock); err == nil {
			err = os.Rename(work, d.path)
		}
	}
	if err != nil {
		if lock != nil {
			closeAll(lock)
		}
		return errors.Join(err, os.RemoveAll(work))
	}
	d.lock = lock
	return nil
}

// closeUnused deletes path when it has no more directories.
func (d *directories) closeUnused() {
	if d.count > 0 {
		return
	}
	if err := deleteTree(d.path); err != nil {
		d.log.Warn("the directory of MCP servers cannot be deleted", "dir", d.path, "err", err)
		return
	}
	closeAll(d.lock)
	d.lock = nil
}

// deleteLeftovers deletes the directories of processes that have ended without deleting them.
func (d *directories) deleteLeftovers() {
	root, err := os.OpenRoot(d.base)
	if err != nil {
		return
	}
	defer closeAll(root)
	dir, err := root.Open(".")
	if err != nil {
		return
	}
	defer closeAll(dir)
	entries, _ := dir.ReadDir(maxLeftovers) // with an error, those that were read
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), dirPrefix) {
			continue
		}
		lock, err := root.OpenFile(filepath.Join(e.Name(), lockName), os.O_RDWR|filelock.OpenFlags, 0)
		if err == nil {
			err = filelock.Lock(lock)
			if err == nil {
				err = deleteTree(filepath.Join(d.base, e.Name()))
			}
			closeAll(lock)
		} else if info, statErr := e.Info(); statErr == nil && errors.Is(err, fs.ErrNotExist) && time.Since(info.ModTime()) > newGrace {
			err = deleteTree(filepath.Join(d.base, e.Name()))
		}
		if err != nil && !errors.Is(err, filelock.ErrLocked) { // of another user
			d.log.Debug("a directory of MCP servers cannot be deleted", "dir", e.Name(), "err", err)
		}
	}
}

// deleteTree deletes a directory with its content, read-only directories included.
func deleteTree(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	root, err := os.OpenRoot(dir) // no link leads out of it
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err == nil {
		err = fs.WalkDir(root.FS(), ".", func(path string, e fs.DirEntry, _ error) error {
			if e != nil && e.IsDir() {
				return root.Chmod(path, 0o700)
			}
			return nil
		})
		closeAll(root)
	}
	return errors.Join(os.RemoveAll(dir), err)
}

// withoutDir returns an environment without the values through which a program would read the
// directory that agents edit: HOME and TMPDIR in it become private, and PATH does not contain it.
// Directories below it remain in PATH, because the runtime protects them. If agents edit the root of
// the file system, the environment is unchanged.
func withoutDir(env []string, edited, private string) []string {
	if edited == "" || filepath.Dir(edited) == edited {
		return env
	}
	changed := slices.Clone(env)
	for i, entry := range changed {
		name, value, _ := strings.Cut(entry, "=")
		switch name {
		case "HOME", "TMPDIR":
			if value != "" && within(value, edited) {
				changed[i] = name + "=" + private
			}
		case "PATH":
			dirs := slices.DeleteFunc(filepath.SplitList(value), func(dir string) bool { return !filepath.IsAbs(dir) || same(dir, edited) })
			changed[i] = name + "=" + strings.Join(dirs, string(filepath.ListSeparator))
		}
	}
	return changed
}

// within reports whether a path is dir or below it, through links and in another letter case too. A
// relative path is within the directory in which a program starts, and counts as within dir.
func within(path, dir string) bool {
	if !filepath.IsAbs(path) {
		return true
	}
	for {
		if resolved, err := filepath.EvalSymlinks(path); err == nil {
			path = resolved
		}
		if same(path, dir) {
			return true
		}
		parent := filepath.Dir(path)
		if parent == path {
			return false
		}
		path = parent
	}
}

func same(a, b string) bool {
	first, err1 := os.Stat(a)
	second, err2 := os.Stat(b)
	return filepath.Clean(a) == filepath.Clean(b) || err1 == nil && err2 == nil && os.SameFile(first, second)
}
