//go:build !linux

package host

// protect has no effect: there is no way to protect the memory.
func protect() error { return nil }
