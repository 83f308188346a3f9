//go:build unix && !linux

package child

import (
	"syscall"

	"golang.org/x/sys/unix"
)

func dieWithParent(*syscall.SysProcAttr) {}

// wait kills the rest of the group after it has reaped the child. The id of a group with members is
// not reused; that of an empty group could be, within microseconds.
func (p *Process) wait() error {
	waited := p.cmd.Wait()
	p.end(true)
	p.awaitGone()
	return waited
}

func populated(group int) bool { return unix.Kill(-group, 0) == nil }
