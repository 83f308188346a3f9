//go:build !linux

package worker

import (
	"runtime/debug"

	"github.com/seed93082962/agenthost/runtime/tool/js/internal/frame"
)

// limitProcess limits only the stack. Other systems have no limit of memory that suits a Go
// program.
func limitProcess(frame.Limits) error {
	debug.SetMaxStack(64 << 20)
	return nil
}
