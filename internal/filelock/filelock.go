// Package filelock locks open files across processes: with flock(2) on Linux, macOS, the BSDs and
// illumos, and with LockFileEx on Windows. The system releases a lock when the process that has it
// ends. Other systems have no lock.
package filelock

import "errors"

// ErrLocked is returned by Lock if another open file, of this or another process, has a lock.
var ErrLocked = errors.New("file is locked")
