//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows)

package filelock

import "os"

// OpenFlags prevents open from blocking on a FIFO.
const OpenFlags = 0

// Lock does nothing: this system has no lock across processes.
func Lock(*os.File) error { return nil }

// Unlock does nothing.
func Unlock(*os.File) error { return nil }
