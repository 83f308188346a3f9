package main_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/tool/js"
)

// proc is a process in /proc.
type proc struct {
	pid, parent int
	state       string // R, S, Z...
	line        string // its command line
}

// processes returns the processes below the command, including orphans, which are identified by the
// home directory in their environment. Of dead processes, only children of the command count.
func (s *stage) processes() (found []proc) {
	s.t.Helper()
	entries, err := os.ReadDir("/proc")
	require.NoError(s.t, err)
	all := map[int]proc{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := readProc(pid); ok {
			all[pid] = p
		}
	}
	home := []byte("\x00HOME=" + s.home + "\x00")
	for _, p := range all {
		below := false
		for at := p.parent; at != 0 && !below; at = all[at].parent {
			below = at == s.Cmd.Process.Pid
		}
		if !below && p.pid != s.Cmd.Process.Pid {
			env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid)) // it may have ended
			below = bytes.Contains(append([]byte{0}, env...), home)
		}
		if below {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b proc) int { return a.pid - b.pid })
	return found
}

func readProc(pid int) (proc, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	end := bytes.LastIndexByte(stat, ')')
	if err != nil || end < 0 {
		return proc{}, false
	}
	fields := strings.Fields(string(stat[end+1:]))
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return proc{}, false
	}
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return proc{pid: pid, parent: parent, state: fields[0], line: strings.ReplaceAll(string(line), "\x00", " ")}, true
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	p, ok := readProc(pid)
	return ok && p.state != "Z" && p.state != "X"
}

// balance holds the resources of the command.
type balance struct {
	workers     int    // of custom tools
	others      string // processes: MCP servers remain from run to run
	descriptors int
	goroutines  int
}

func (s *stage) balance() balance {
	s.t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.Cmd.Process.Pid))
	require.NoError(s.t, err)
	b := balance{descriptors: len(files), goroutines: int(s.count("go_goroutines"))}
	for _, p := range s.processes() {
		if strings.HasSuffix(p.line, js.WorkerArg+" ") {
			b.workers++
		} else {
			b.others += fmt.Sprintln(p.pid, p.state == "Z", p.line)
		}
	}
	return b
}

// settled returns the balance when it has been stable for a short time.
func (s *stage) settled() balance {
	s.t.Helper()
	last, same := s.balance(), 0
	s.until("a balance that stays", func() bool {
		now := s.balance()
		if same++; now != last {
			last, same = now, 0
		}
		return same == 5
	})
	return last
}

// returns waits until the command has no more resources than before: the same processes, and no
// more workers and connections, except for one idle connection. Some may have ended.
func (s *stage) returns(before balance) {
	s.t.Helper()
	var now balance
	ok := func() bool {
		now = s.balance()
		// The notification of a cancel may have opened a connection, which the HTTP client keeps idle
		// for the next request: one descriptor and two goroutines.
		idle := min(max(now.descriptors-before.descriptors, 0), 1)
		return now.others == before.others && now.workers <= before.workers &&
			now.descriptors <= before.descriptors+idle && now.goroutines <= before.goroutines+2*idle
	}
	defer func() {
		if s.t.Failed() {
			s.t.Logf("before %+v, now %+v", before, now)
			_ = s.Cmd.Process.Signal(syscall.SIGQUIT) // writes all goroutines to the log
			s.Wait(s.t)
			s.t.Log(s.Log.String())
		}
	}()
	s.until("the balance of before", ok)
}
