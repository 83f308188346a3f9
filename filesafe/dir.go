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

// Dir is a directory that no path leads out of. Its methods may be called from several goroutines at once.
//
// Paths are relative to the directory, with "" and "." for itself, or absolute. They mean what they mean to the operating
// system, ".." included: a path goes through links, and is good when its end is inside.
type Dir struct {
	root *os.Root
	path string // absolute, free of links
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

// Close makes all later calls fail with [fs.ErrClosed]. Open files stay open.
func (d *Dir) Close() error { return d.root.Close() }

// Path is the absolute path of the directory, free of links, as it was when it was opened.
func (d *Dir) Path() string { return d.path }

// Stat describes what name leads to.
func (d *Dir) Stat(name string) (fs.FileInfo, error) {
	_, info, err := d.stat("stat", name)
	return info, err
}

// Open opens a regular file for reading. Anything else is [ErrNotFile].
func (d *Dir) Open(name string) (*os.File, error) {
	f, _, err := d.open(name, false)
	return f, err
}

// tries bounds how often a path is followed again, when what was seen just before is not there any more.
const tries = 8

// open also answers what the open file is, which no change of the path can alter any more.
func (d *Dir) open(name string, directories bool) (f *os.File, info fs.FileInfo, err error) {
	good := func(mode fs.FileMode) bool { return mode.IsRegular() || directories && mode.IsDir() }
	for range tries {
		// Looked at before it is opened: opening a FIFO wakes its writer, and opening a device can do anything.
		var rel string
		rel, info, err = d.stat("open", name)
		if err != nil {
			return nil, nil, err
		}
		if !good(info.Mode()) {
			return nil, nil, fault("open", name, ErrNotFile)
		}
		// O_NONBLOCK is for what was put there since, and spares four system calls.
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
	return nil, nil, fault("open", name, err)
}

// stat also answers a path that leads os.Root to the same place.
func (d *Dir) stat(op, name string) (rel string, info fs.FileInfo, err error) {
	if strings.IndexByte(name, 0) >= 0 {
		return "", nil, fault(op, name, fs.ErrInvalid)
	}
	if !filepath.IsAbs(name) {
		rel = cmp.Or(name, ".")
		info, err = d.root.Stat(rel)
		// os.Root refuses more than it must (absolute links, out and in again, the ninth link), but what it finds, and
		// what it misses, is right.
		if err == nil {
			return rel, info, nil
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrClosed) {
			return "", nil, fault(op, name, err)
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
	return "", nil, fault(op, name, err)
}
