//go:build linux || darwin

package diskspace

import (
	"math"
	"syscall"
)

// Free returns what this user can write to the file system of a directory. On systems other than
// Linux and macOS, the error is [errors.ErrUnsupported].
func Free(dir string) (Space, error) {
	var s syscall.Statfs_t
	err := syscall.Statfs(dir, &s)
	free := Space{Bytes: s.Bavail * uint64(s.Bsize), Files: s.Ffree}
	if s.Files == 0 { // such as btrfs
		free.Files = math.MaxUint64
	}

	return free, err
}
