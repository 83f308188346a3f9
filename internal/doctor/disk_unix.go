//go:build linux || darwin

package doctor

import (
	"os"
	"syscall"
)

// writable returns an error if this user cannot change a file, or create files in a directory. It
// creates none.
func writable(path string) error {
	const search, write, read = 1, 2, 4 // X_OK, W_OK and R_OK of access(2)
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return syscall.Access(path, write|search)
	}

	return syscall.Access(path, write|read)
}
