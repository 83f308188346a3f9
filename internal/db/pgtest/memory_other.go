//go:build !linux

package pgtest

// MemoryDir returns "", because only Linux has a file system in memory at a known path.
func MemoryDir() string { return "" }
