//go:build !linux

package groupsync_test

import (
	"os"
	"testing"
)

// unsynced returns 0: only Linux reports it.
func unsynced(*testing.T, *os.File) int { return 0 }
