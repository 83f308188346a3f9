//go:build unix && !linux

package child

import (
	"syscall"

	"golang.org/x/sys/unix"
)

func dieWithParent(*syscall.SysProcAttr) {}

// wait kills the rest of the group when the child has been waited for. A group that has members keeps its id; that of an
// empty one could be given anew in between, within microseconds.
func (p *Process) wait() error {
	waited := p.cmd.Wait()
	p.end(true)
	p.awaitGone()
	return waited
}

func populated(group int) bool { return unix.Kill(-group, 0) == nil }
