package filesafe

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Dir is a directory that confines all paths. It is safe for concurrent use.
//
// Paths are absolute, or relative to the directory; "" and "." are the directory itself. They have
// the meaning of the operating system, including ".." and symbolic links: a path is valid if its
// end is inside the directory.
type Dir struct {
	root *os.Root
	path string // absolute, without links
}

// Open opens the directory at path.
func Open(path string) (*Dir, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("open directory: %w", err)
	}
	abs, err := filepath.Abs(path)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		_ = root.Close() // it was only read
		return nil, fmt.Errorf("find directory: %w", err)
	}
	return &Dir{root, abs}, nil
}

// Close makes later calls fail with [fs.ErrClosed]. Open files stay open.
func (d *Dir) Close() error { return d.root.Close() }

// Path returns the absolute path of the directory without links, as of Open.
func (d *Dir) Path() string { return d.path }

// Stat returns information about the file that name resolves to.
func (d *Dir) Stat(name string) (fs.FileInfo, error) {
	_, info, err := d.stat("stat", name)
	return info, err
}

// Open opens a regular file for reading. For other files the error is [ErrNotFile].
func (d *Dir) Open(name string) (*os.File, error) {
	f, _, err := d.open(name, false)
	return f, err
}

// tries bounds how often a path that changes concurrently is resolved again.
const tries = 8

// open also returns the information of the open file, which later changes of the path do not
// affect.
func (d *Dir) open(name string, directories bool) (f *os.File, info fs.FileInfo, err error) {
	good := func(mode fs.FileMode) bool { return mode.IsRegular() || directories && mode.IsDir() }
	for range tries {
		// The file is checked before it is opened: opening a FIFO wakes its writer, and opening a
		// device can have any effect.
		var rel string
		rel, info, err = d.stat("open", name)
		if err != nil {
			return nil, nil, err
		}
		if !good(info.Mode()) {
			return nil, nil, pathError("open", name, ErrNotFile)
		}
		// O_NONBLOCK is for a FIFO that was created since. It also avoids four system calls.
		f, err = d.root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil && errors.Is(err, fs.ErrPermission) {
			break
		} else if err != nil {
			continue
		}
		info, err = f.Stat()
		if err == nil && good(info.Mode()) {
			return f, info, nil
		}
		_ = f.Close() // it was only read
		err = cmp.Or(err, ErrNotFile)
	}
	return nil, nil, pathError("open", name, err)
}

// stat also returns a path that os.Root resolves to the same file.
func (d *Dir) stat(op, name string) (rel string, info fs.FileInfo, err error) {
	if strings.IndexByte(name, 0) >= 0 {
		return "", nil, pathError(op, name, fs.ErrInvalid)
	}
	if !filepath.IsAbs(name) {
		rel = cmp.Or(name, ".")
		info, err = d.root.Stat(rel)
		// os.Root rejects some valid paths (absolute links, links that leave and return, the ninth
		// link), but its successes and its ErrNotExist are correct.
		if err == nil {
			return rel, info, nil
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrClosed) {
			return "", nil, pathError(op, name, err)
		}
	}
	for range tries {
		if rel, err = d.locate(name); err != nil {
			break
		}
		info, err = d.root.Stat(rel)
		if err == nil {
			return rel, info, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			break
		}
	}
	return "", nil, pathError(op, name, err)
}
