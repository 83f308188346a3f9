package process

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/seed93082962/agenthost/internal/sandbox"
)

// killLeft kills the processes that a runtime has left in sessions of their own, such as the
// children of a command of Bash: all processes with a variable in their environment. The runtime
// must have ended, because it has the variable too.
func killLeft(mark string) {
	const passes = 3 // a process may fork while the others are killed
	for range passes {
		if !killOnce([]byte(mark)) {
			return
		}
	}
}

func killOnce(mark []byte) (found bool) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}

	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}

		env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err != nil || !bytes.Contains(env, mark) {
			continue
		}

		p, err := os.FindProcess(pid) // the same process until it is released: the id may be given to another one
		if err != nil {
			continue
		}

		env, err = os.ReadFile("/proc/" + e.Name() + "/environ")
		if err == nil && slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return bytes.Equal(v, mark) }) {
			found = killGroupOf(p) || found
		}

		_ = p.Release() // it has no other error than of a second call
	}

	return found
}

// killGroupOf kills a process and its group: another member that starts a program at this moment
// has no environment.
func killGroupOf(p *os.Process) bool {
	if group, err := syscall.Getpgid(p.Pid); err == nil && group > 1 && group != syscall.Getpgrp() {
		_ = syscall.Kill(-group, syscall.SIGKILL) // the error is that of p.Kill
	}

	return p.Kill() == nil
}

// killOrphans kills the group of a runtime that has ended, if a process in it has the mark of the
// revision. Without that, it may be the group of another program that was given
// the id, in particular after a reboot.
func killOrphans(pid int, born, mark string) {
	if now := birth(pid); now != "" && now != born || born == "" || bootOf(born) != boot() {
		return
	}

	for _, member := range members(pid) {
		env, err := os.ReadFile("/proc/" + member + "/environ")
		if err == nil && slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return string(v) == mark }) {
			_ = syscall.Kill(-pid, syscall.SIGKILL) // it has ended otherwise
			return
		}
	}
}

// killMembers kills the processes of a group except the first one, and reports whether there are
// any.
func killMembers(group int) (found bool) {
	for _, member := range members(group) {
		pid, _ := strconv.Atoi(member)
		p, err := os.FindProcess(pid) // the same process until it is released
		if err != nil || pid == group {
			continue
		}

		if of, err := syscall.Getpgid(pid); err == nil && of == group && p.Kill() == nil {
			found = true
		}

		_ = p.Release() // it has no other error than of a second call
	}

	return found
}

// members returns the processes of a group.
func members(group int) (pids []string) {
	entries, _ := os.ReadDir("/proc") // without /proc, there is none
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}

		if of, err := syscall.Getpgid(pid); err == nil && of == group {
			pids = append(pids, e.Name())
		}
	}

	return pids
}

// begins reports whether a group has a launcher that neither handles nor ignores SIGTERM yet.
func begins(group int) bool {
	return slices.ContainsFunc(members(group), func(pid string) bool {
		args, err := os.ReadFile("/proc/" + pid + "/cmdline")
		if err != nil || !bytes.HasPrefix(args, []byte(sandbox.Launcher+"\x00")) {
			return false
		}

		status, err := os.ReadFile("/proc/" + pid + "/status")
		if err != nil {
			return false
		}

		for line := range strings.Lines(string(status)) {
			name, value, _ := strings.Cut(line, ":")
			if name != "SigIgn" && name != "SigCgt" {
				continue
			}

			mask, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			if err != nil || mask&(1<<(syscall.SIGTERM-1)) != 0 {
				return false
			}
		}

		return true
	})
}

// birth returns the start of a process as an identifier: the id of the boot and the clock ticks
// since then. It returns "" if there is no such process, or if it has ended and was not waited for.
func birth(pid int) string {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}

	// "pid (name) state ...", with the start as the 22nd field. A name may contain any character.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 || bytes.ContainsAny(fields[0], "ZX") {
		return ""
	}

	id := boot()
	if id == "" {
		return ""
	}

	return id + "/" + string(fields[19])
}

// boot returns the id of the boot of this machine, or "".
func boot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}

	return strings.TrimSpace(string(id))
}

// bootOf returns the boot of a birth.
func bootOf(born string) string {
	id, _, _ := strings.Cut(born, "/")
	return id
}
