package child

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// wait kills the rest of the group while the dead child, which nobody has waited for yet, keeps the group's id taken.
func (p *Process) wait() error {
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		err = unix.Waitid(unix.P_PID, p.PID(), nil, unix.WEXITED|unix.WNOWAIT, nil)
	}
	p.end(err == nil) // otherwise someone else has waited for the child, and the id may be anybody's
	waited := p.cmd.Wait()
	p.awaitGone()
	return waited
}

// populated answers whether anyone lives in the group. The dead count as members, to kill(2) too, until the process that
// adopted them has waited for them, which may take long, and where a container has no init, forever.
func populated(group int) bool {
	if unix.Kill(-group, 0) != nil {
		return false
	}
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return true
	}
	for _, process := range processes {
		if _, err := strconv.Atoi(process.Name()); err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + process.Name() + "/stat")
		if err != nil {
			continue
		}
		// "pid (name) state parent group ...", the 20th its threads. A name may hold anything, spaces and parentheses too.
		// A process of which the first thread alone is dead looks dead, and may hold files yet.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > 17 && string(fields[2]) == strconv.Itoa(group) &&
			(!bytes.ContainsAny(fields[0], "ZX") || len(fields[17]) > 1 || fields[17][0] > '1') {
			return true
		}
	}
	return false
}
