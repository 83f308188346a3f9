package filesafe

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// Errors of [Dir] come as [*fs.PathError]. Beside these and [fs.ErrNotExist], [fs.ErrPermission] and [fs.ErrClosed] there
// is [fs.ErrInvalid] for a path with a null byte.
var (
	// ErrOutside is answered to a path that ends outside the directory.
	ErrOutside = errors.New("path leads outside the directory")
	// ErrNotFile is answered where a regular file is needed: to directories, FIFOs, sockets and devices.
	ErrNotFile = errors.New("not a regular file")
	// ErrNotDirectory is answered where a directory is needed.
	ErrNotDirectory = errors.New("not a directory")
)

// errLoop is answered to a path that goes through more than maxLinks links.
var errLoop = errors.New("too many symbolic links")

// fault words an error of os.Root, which names paths and calls that the caller does not know.
func fault(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: cause(err)}
}

func cause(err error) error {
	if inner := (*fs.PathError)(nil); errors.As(err, &inner) {
		err = inner.Err
	}
	if inner := (*os.LinkError)(nil); errors.As(err, &inner) {
		err = inner.Err
	}
	// The error of os.Root for a path that leads outside has no name. It alone is neither of these.
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

// missing tells whether err means that there is nothing to be had at a path, rather than that something failed. What may
// not be read is as good as missing, and so is a path through a file, one through a loop, and one too long to exist.
func missing(err error) bool {
	for _, e := range []error{fs.ErrNotExist, fs.ErrPermission, errLoop, syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
