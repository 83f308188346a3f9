package js

import (
	"os"

	"golang.org/x/sys/unix"
)

// unread reports whether a pipe contains unread bytes. The kernel stores them after the end of the
// readers.
func unread(pipe *os.File) bool {
	conn, err := pipe.SyscallConn()
	if err != nil {
		return false
	}

	left := 0
	if conn.Control(func(fd uintptr) { left, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }) != nil || err != nil {
		return false
	}

	return left > 0
}
