package pgtest

import "github.com/seed93082962/agenthost/internal/diskspace"

// MemoryDir returns the file system in memory that Linux has, or "" if it lacks room for the
// servers of concurrent test binaries. Containers often limit it to 64 MB.
func MemoryDir() string {
	const path, room = "/dev/shm", 1 << 30
	if free, err := diskspace.Free(path); err != nil || free.Bytes < room {
		return ""
	}

	return path
}
