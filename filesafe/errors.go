package filesafe

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// Methods of [Dir] return an [*fs.PathError]. It wraps one of these errors, [fs.ErrNotExist],
// [fs.ErrPermission], [fs.ErrClosed], or [fs.ErrInvalid] for a path with a null byte.
var (
	// ErrOutside reports a path that ends outside the directory.
	ErrOutside = errors.New("path leads outside the directory")
	// ErrNotFile reports a directory, FIFO, socket or device where a regular file is needed.
	ErrNotFile = errors.New("not a regular file")
	// ErrNotDirectory reports another file where a directory is needed.
	ErrNotDirectory = errors.New("not a directory")
)

// errLoop reports a path with more than maxLinks links.
var errLoop = errors.New("too many symbolic links")

// pathError converts an error of os.Root, which has paths and operations that the caller did not
// use.
func pathError(op, name string, err error) error {
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
	if errno := syscall.Errno(0); !errors.As(err, &errno) && !known(err) {
		return ErrOutside
	}
	return err
}

func known(err error) bool {
	for _, e := range []error{fs.ErrClosed, fs.ErrInvalid, ErrOutside, ErrNotFile, ErrNotDirectory, errLoop} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// missing reports whether err means that nothing can be read at a path, as opposed to a failure.
// This includes unreadable files, paths through a file, loops, and paths that are too long.
func missing(err error) bool {
	for _, e := range []error{fs.ErrNotExist, fs.ErrPermission, errLoop, syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
