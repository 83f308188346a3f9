//go:build linux || darwin

package doctor

import (
	"math"
	"os"
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

// writable returns an error if this user cannot change a file, or create files in a directory. It
// creates none.
func writable(path string) error {
	const search, write, read = 1, 2, 4 // X_OK, W_OK and R_OK of access(2)
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return syscall.Access(path, write|search)
	}
	return syscall.Access(path, write|read)
}
