package process

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

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
