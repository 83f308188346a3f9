package pgtest

import "syscall"

// memoryDir returns the file system in memory that Linux has, or "" if it lacks room for the
// servers of concurrent test binaries. Containers often limit it to 64 MB.
func memoryDir() string {
	const path, room = "/dev/shm", 1 << 30
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil || s.Bavail*uint64(s.Bsize) < room {
		return ""
	}
	return path
}
