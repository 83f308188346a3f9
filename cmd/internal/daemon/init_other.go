//go:build !linux

package daemon

// Init has no effect: there are no containers.
func Init() error { return nil }
