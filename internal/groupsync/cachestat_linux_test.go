package groupsync_test

import (
	"os"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// unsynced returns the number of pages of a file that are not on the disk, by cachestat(2). A
// kernel before Linux 6.5 does not have it: the result is 0.
func unsynced(t *testing.T, file *os.File) uint64 {
	t.Helper()
	const sysCachestat = 451
	var area struct{ offset, length uint64 }
	var found struct{ cached, dirty, writeback, evicted, recentlyEvicted uint64 }
	_, _, errno := syscall.Syscall6(sysCachestat, file.Fd(), uintptr(unsafe.Pointer(&area)), uintptr(unsafe.Pointer(&found)), 0, 0, 0)
	if errno == syscall.ENOSYS || errno == syscall.EPERM || errno == syscall.EOPNOTSUPP {
		return 0
	}
	require.Zero(t, errno)
	return found.dirty + found.writeback
}
