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

// wait kills the rest of the group before it reaps the child: until then, the id of the group
// cannot be reused.
func (p *Process) wait() error {
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		err = unix.Waitid(unix.P_PID, p.PID(), nil, unix.WEXITED|unix.WNOWAIT, nil)
	}

	p.end(err == nil) // after an error, the child may be reaped already and the id in use again
	waited := p.cmd.Wait()
	p.awaitGone()
	return waited
}

// populated reports whether a process of the group is alive. Zombies stay members, also for
// kill(2), until their new parent reaps them. That may take long, and never happens in a container
// without an init process.
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

		// "pid (name) state parent group ...", with the number of threads as the 20th field. A name
		// may contain any character. A process looks dead when its first thread has ended, and may
		// still have files open.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > 17 && string(fields[2]) == strconv.Itoa(group) &&
			(!bytes.ContainsAny(fields[0], "ZX") || len(fields[17]) > 1 || fields[17][0] > '1') {
			return true
		}
	}

	return false
}
