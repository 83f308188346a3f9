//go:build linux || darwin

package doctor

import "syscall"

// freeSpace returns the bytes that this user can write to the file system of a directory.
func freeSpace(dir string) (uint64, error) {
	var s syscall.Statfs_t
	err := syscall.Statfs(dir, &s)
	return s.Bavail * uint64(s.Bsize), err
}
