//go:build unix && !linux

package process

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
)

// birth returns the start of a process as an identifier, or "" if there is no such process.
func birth(pid int) string {
	out, err := exec.CommandContext(context.Background(), "/bin/ps", "-o", "stat=,lstart=", "-p", strconv.Itoa(pid)).Output()
	status, start, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if err != nil || strings.HasPrefix(status, "Z") {
		return ""
	}
	return strings.TrimSpace(start)
}
