//go:build !linux

package js

import "runtime"

// yield lets other goroutines run.
func yield() { runtime.Gosched() }
