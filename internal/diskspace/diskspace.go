// Package diskspace reports what a file system has room for.
package diskspace

import (
	"errors"
	"syscall"
)

// Space is what the file system of a directory has room for.
type Space struct {
	Bytes uint64
	Files uint64 // the largest number if the file system has no limit
}

// IsFull reports whether an error is that of a full disk, a quota, or a limit on the size of files.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}
