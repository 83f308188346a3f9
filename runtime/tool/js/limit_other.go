//go:build !linux

package js

import "runtime/debug"

// limitProcess limits only the stack. Other systems have no limit of memory that suits a Go
// program.
func limitProcess(limits) error {
	debug.SetMaxStack(64 << 20)
	return nil
}
