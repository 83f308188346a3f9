// Package filesafe confines file access to one directory. No path and no symbolic link leads
// outside.
//
// [Open] opens a directory. [Dir] reads, lists, walks and writes below it:
//
//	dir, err := filesafe.Open("/srv/work")
//	f, err := dir.Open("reports/2026.pdf")
//
// Only the target of a path must be inside. Links may be absolute and may leave the directory and
// return; a path that ends outside fails with [ErrOutside]. The package resolves links itself and
// then opens the result through [os.Root], so that a link that is created concurrently cannot lead
// outside: the kernel never follows a path out of the directory. FIFOs, sockets and devices are
// never opened. Mounts below the directory are inside, and hard links are ordinary files. The
// directories of a path must be readable, because os.Root opens each of them.
//
// [Dir] takes and returns names as bytes. JSON is UTF-8: a listing of [Handlers] has U+FFFD for
// invalid bytes of a name, and the file can only be requested by the bytes of its name.
//
// [Dir.Handler] serves a directory by URL path. [Handlers] is the files interface of the agent
// runtime: listings as JSON, and downloads with ranges and conditional requests.
//
// The package needs only the standard library. On Linux it sends files with sendfile(2) if the
// http.ResponseWriter or its wrapper has a ReadFrom method that reaches the connection.
//
// Paths and requests are not trusted. A path has at most 4,096 bytes and 256 names, resolution
// follows at most 40 links, a listing holds a bounded number of names, and a download streams the
// file.
package filesafe

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/seed93082962/agenthost/internal/leaf/longpath"
)

// Methods of [Dir] return an [*fs.PathError]. It wraps one of these errors, [fs.ErrNotExist],
// [fs.ErrPermission], [fs.ErrClosed], [fs.ErrInvalid] for a path with a null byte, or
// [syscall.ENAMETOOLONG] for one with more than 4,096 bytes or 256 names, also where links lead.
var (
	// ErrOutside reports a path that ends outside the directory.
	ErrOutside = errors.New("path leads outside the directory")
	// ErrNotFile reports a directory, FIFO, socket or device where a regular file is needed.
	ErrNotFile = errors.New("not a regular file")
	// ErrNotDirectory reports another file where a directory is needed.
	ErrNotDirectory = errors.New("not a directory")
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
func (d *Dir) open(name string, directories bool) (*os.File, fs.FileInfo, error) {
	good := func(mode fs.FileMode) bool { return mode.IsRegular() || directories && mode.IsDir() }
	var err error
	var f *os.File
	var info fs.FileInfo
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
func (d *Dir) stat(op, name string) (string, fs.FileInfo, error) {
	if err := checkName(name); err != nil {
		return "", nil, pathError(op, name, err)
	}

	var err error
	var info fs.FileInfo
	var rel string
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

// checkName rejects a path before anything is done with it.
func checkName(name string) error {
	if longpath.Check(filepath.ToSlash(name)) != nil {
		return syscall.ENAMETOOLONG
	}

	if strings.IndexByte(name, 0) >= 0 {
		return fs.ErrInvalid
	}

	return nil
}

// FS returns the directory as an [fs.FS]. Unlike os.DirFS it confines paths; unlike [os.Root.FS] it
// follows every link that ends inside and opens neither FIFOs nor devices.
func (d *Dir) FS() fs.FS { return tree{d} }

type tree struct{ dir *Dir }

func (t tree) Stat(name string) (fs.FileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, pathError("stat", name, fs.ErrInvalid)
	}

	return t.dir.Stat(name)
}

func (t tree) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, pathError("open", name, fs.ErrInvalid)
	}

	f, _, err := t.dir.open(name, true)
	if err != nil { // a nil *os.File would be a non-nil fs.File
		return nil, err
	}

	return f, nil
}

// errLoop reports a path with more than maxLinks links.
var errLoop = errors.New("too many symbolic links")

// pathError converts an error of os.Root, which has paths and operations that the caller did not
// use.
func pathError(op, name string, err error) error {
	if len(name) > longpath.MaxBytes {
		name = strings.ToValidUTF8(name[:64], "") + "..."
	}

	return &fs.PathError{Op: op, Path: name, Err: cause(err)}
}

func cause(err error) error {
	if inner := (*fs.PathError)(nil); errors.As(err, &inner) {
		err = inner.Err
	}

	if inner := (*os.LinkError)(nil); errors.As(err, &inner) {
		err = inner.Err
	}

	// The error of os.Root for a path that leads outside is unexported. It is the only one that is
	// neither of these.
	known := isAny(err, fs.ErrClosed, fs.ErrInvalid, ErrOutside, ErrNotFile, ErrNotDirectory, errLoop)
	if errno := syscall.Errno(0); !errors.As(err, &errno) && !known {
		return ErrOutside
	}

	return err
}

// missing reports whether err means that nothing can be read at a path, as opposed to a failure.
// This includes unreadable files, paths through a file, loops, and paths that are too long.
func missing(err error) bool {
	return isAny(err, fs.ErrNotExist, fs.ErrPermission, errLoop, syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG)
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}
