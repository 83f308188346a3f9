//go:build linux || darwin

package doctor

import (
	"math"
	"syscall"
)

// freeSpace returns what this user can write to the file system of a directory.
func freeSpace(dir string) (space, error) {
	var s syscall.Statfs_t
	err := syscall.Statfs(dir, &s)
	free := space{bytes: s.Bavail * uint64(s.Bsize), files: s.Ffree}
	if s.Files == 0 { // such as btrfs
		free.files = math.MaxUint64
	}
	return free, err
}

// writable returns an error if this user cannot create files in a directory. It creates none.
func writable(dir string) error {
	const writeAndSearch = 2 | 1 // W_OK and X_OK of access(2)
	return syscall.Access(dir, writeAndSearch)
}
