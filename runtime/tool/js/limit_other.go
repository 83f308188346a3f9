//go:build !linux

package js

import "runtime/debug"

// limitProcess bounds the stack alone: other systems have no limit on memory that a Go program can live with.
func limitProcess(uintptr) error {
	debug.SetMaxStack(64 << 20)
	return nil
}
