package js

import (
	"os"

	"golang.org/x/sys/unix"
)

// unread says whether something that was written to a pipe was not read. The kernel keeps it when the readers are gone.
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
