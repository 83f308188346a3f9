package sandbox

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// hierarchy is a directory in which this process can create control groups.
type hierarchy struct {
	dir         string
	outside     bool // next to the group of this process
	unified     bool // of version 2
	controllers []string
}

// group is a control group of one command in each hierarchy.
type group struct {
	dirs    []string
	unified *os.File   // the directory of version 2, into which the launcher is cloned
	join    []*os.File // of version 1, to which the launcher writes
}

// groupPrefix begins the names of control groups. The id of the process that has created the group
// follows.
const groupPrefix = "agenthost-sandbox-"

// launcherThreads are added to the limit of processes, which counts threads.
const launcherThreads = 24

var groupNumber atomic.Uint64

// findHierarchies returns where control groups can limit memory and processes. It removes groups
// that ended programs have left.
func findHierarchies() []hierarchy {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}

	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}

	var result []hierarchy
	missing := []string{"memory", "pids"}
	for _, h := range hierarchies(string(mounts), string(own)) {
		h.controllers = slices.DeleteFunc(h.controllers, func(c string) bool { return !slices.Contains(missing, c) })
		if len(h.controllers) == 0 || h.outside && !delegated(h.dir) || h.try() != nil {
			continue
		}

		h.sweep()
		result = append(result, h)
		missing = slices.DeleteFunc(missing, func(c string) bool { return slices.Contains(h.controllers, c) })
	}

	return result
}

// hierarchies returns the candidates for findHierarchies. A process of version 2 can create groups
// with limits next to its own only, unless its own is the root.
func hierarchies(mounts, own string) []hierarchy {
	var result []hierarchy
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(line, " - ")
		mount, system := strings.Fields(before), strings.Fields(after)
		if len(mount) < 5 || len(system) < 3 {
			continue
		}

		root, point := mount[3], mount[4]
		switch system[0] {
		case "cgroup2":
			if dir, ok := ownGroup(own, "", root, point); ok {
				result = append(result, hierarchy{dir: dir, unified: true, controllers: []string{"memory", "pids"}})
				if dir != point {
					result = append(result, hierarchy{
						dir: filepath.Dir(dir), outside: true, unified: true, controllers: []string{"memory", "pids"},
					})
				}
			}
		case "cgroup":
			for _, controller := range []string{"memory", "pids"} {
				if !slices.Contains(strings.Split(system[2], ","), controller) {
					continue
				}

				if dir, ok := ownGroup(own, controller, root, point); ok {
					result = append(result, hierarchy{dir: dir, controllers: []string{controller}})
				}
			}
		}
	}

	return result
}

// delegated reports whether the service manager has given dir, or a group around it, to its
// processes. A command in another group next to that of a service would not have the restrictions
// of the service, such as its memory and addresses.
func delegated(dir string) bool {
	value := make([]byte, 1)
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		for _, name := range []string{"user.delegate", "trusted.delegate"} {
			if n, err := unix.Getxattr(dir, name, value); err == nil && string(value[:n]) == "1" {
				return true
			}
		}
	}

	return false
}

// ownGroup returns the directory of the group of this process in the hierarchy with a controller.
func ownGroup(own, controller, root, point string) (string, bool) {
	for line := range strings.Lines(own) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 || !slices.Contains(strings.Split(fields[1], ","), controller) {
			continue
		}

		if root != "/" && !contains(root, fields[2]) {
			return "", false
		}

		return filepath.Join(point, strings.TrimPrefix(fields[2], strings.TrimSuffix(root, "/"))), true
	}

	return "", false
}

// try reports why no group with limits can be created in h.
func (h *hierarchy) try() error {
	if h.unified {
		available, err := os.ReadFile(filepath.Join(h.dir, "cgroup.controllers"))
		if err != nil {
			return err
		}

		h.controllers = slices.DeleteFunc(h.controllers, func(c string) bool { return !slices.Contains(strings.Fields(string(available)), c) })
		for _, c := range h.controllers {
			if err := writeFile(filepath.Join(h.dir, "cgroup.subtree_control"), "+"+c); err != nil {
				return err
			}
		}
	}

	if len(h.controllers) == 0 {
		return errors.New("no controllers")
	}

	g := &group{}
	err := g.create(*h, Limits{Memory: 1 << 30, Processes: 100})
	g.close()
	return errors.Join(err, g.remove(50, true))
}

// sweepAge is the age of a group without processes whose launcher has joined it, or never will.
const sweepAge = time.Minute

// sweep removes the groups of processes that have ended. The id of a process of another namespace
// is unknown here, so a group may also be one that its launcher is about to join.
func (h *hierarchy) sweep() {
	entries, err := os.ReadDir(h.dir)
	if err != nil {
		return
	}

	for _, entry := range entries {
		rest, found := strings.CutPrefix(entry.Name(), groupPrefix)
		id, _, _ := strings.Cut(rest, "-")
		pid, err := strconv.Atoi(id)
		if !found || err != nil || !errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			continue
		}

		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > sweepAge {
			_ = unix.Rmdir(filepath.Join(h.dir, entry.Name())) // fails while it has processes
		}
	}
}

// abandoned are the groups of commands that have outlived their sandbox.
var abandoned struct {
	mu   sync.Mutex // guards dirs
	dirs []string
}

// abandon removes the group if its command has ended. Else the start of a later command does.
func (g *group) abandon() {
	_ = g.remove(5, false)
	abandoned.mu.Lock()
	defer abandoned.mu.Unlock()
	abandoned.dirs = append(abandoned.dirs, g.dirs...)
}

// newGroup returns a group for a command in each of the hierarchies.
func newGroup(hierarchies []hierarchy, limits Limits) (*group, error) {
	abandoned.mu.Lock()
	abandoned.dirs = slices.DeleteFunc(abandoned.dirs, func(dir string) bool { return !errors.Is(unix.Rmdir(dir), unix.EBUSY) })
	abandoned.mu.Unlock()
	g := &group{}
	for _, h := range hierarchies {
		if err := g.create(h, limits); err != nil {
			g.close()
			return nil, errors.Join(fmt.Errorf("create a control group: %w", err), g.remove(50, true))
		}
	}

	return g, nil
}

// groupLimits returns the limits of a control group. A zero value means no limit.
func (p Policy) groupLimits() Limits {
	if p.Nested {
		return p.Limits
	}

	return Limits{Memory: cmp.Or(p.Limits.Memory, 2<<30), Processes: cmp.Or(p.Limits.Processes, 1000)}
}

// create creates a group in a hierarchy. A zero limit is none.
func (g *group) create(h hierarchy, limits Limits) error {
	dir, err := h.makeDirectory()
	if err != nil {
		return err
	}

	g.dirs = append(g.dirs, dir)
	memory := strconv.FormatUint(limits.Memory, 10)
	processes := strconv.FormatUint(limits.Processes+launcherThreads, 10)
	for _, c := range h.controllers {
		switch {
		case c == "pids" && limits.Processes == 0, c == "memory" && limits.Memory == 0:
		case c == "pids":
			err = errors.Join(err, writeFile(filepath.Join(dir, "pids.max"), processes))
		case h.unified:
			err = errors.Join(err, writeFile(filepath.Join(dir, "memory.max"), memory), writeOptional(filepath.Join(dir, "memory.swap.max"), "0"))
		default:
			err = errors.Join(err, writeFile(filepath.Join(dir, "memory.limit_in_bytes"), memory),
				writeOptional(filepath.Join(dir, "memory.memsw.limit_in_bytes"), memory))
		}
	}

	if err != nil {
		return err
	}

	if h.unified {
		g.unified, err = os.Open(dir)
		return err
	}

	join, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
	if err == nil {
		g.join = append(g.join, join)
	}

	return err
}

// makeDirectory creates a control group with a free name. Groups of an ended process with the same
// id may remain, such as those of commands that have outlived it.
func (h *hierarchy) makeDirectory() (string, error) {
	for {
		dir := filepath.Join(h.dir, groupPrefix+strconv.Itoa(os.Getpid())+"-"+strconv.FormatUint(groupNumber.Add(1), 10))
		if err := os.Mkdir(dir, 0o700); !errors.Is(err, os.ErrExist) {
			return dir, err
		}
	}
}

// add makes a launcher a member, as it does itself a little later. Without a member, the group of a
// sandbox that is closed before that would be removed.
func (g *group) add(pid int) {
	for _, file := range g.join {
		_, _ = file.WriteString(strconv.Itoa(pid)) // it may have ended
	}
}

// close closes what only the start of the command needs.
func (g *group) close() {
	if g.unified != nil {
		_ = g.unified.Close()
	}

	for _, file := range g.join {
		_ = file.Close()
	}
}

// remove removes the group, and with kill its processes, in a number of attempts. A process that
// has been killed leaves its group a little later.
func (g *group) remove(attempts int, kill bool) error {
	var err error
	for range attempts {
		g.dirs = slices.DeleteFunc(g.dirs, func(dir string) bool {
			e := unix.Rmdir(dir)
			if !errors.Is(e, unix.EBUSY) {
				return true
			}

			err = &os.PathError{Op: "remove", Path: dir, Err: e}
			if kill {
				killGroup(dir)
			}

			return false
		})
		if len(g.dirs) == 0 {
			return nil
		}

		<-time.After(20 * time.Millisecond) // no event reports that a group of version 1 is empty
	}

	return err
}

func killGroup(dir string) {
	if writeFile(filepath.Join(dir, "cgroup.kill"), "1") == nil {
		return
	}

	file, err := os.Open(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return
	}

	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if pid, err := strconv.Atoi(lines.Text()); err == nil && pid > 0 {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// writeFile writes a file that exists.
func writeFile(path, content string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}

	_, err = file.WriteString(content)
	return errors.Join(err, file.Close())
}

// writeOptional writes a file that kernels without swap do not have.
func writeOptional(path, content string) error {
	if err := writeFile(path, content); !errors.Is(err, os.ErrNotExist) {
		return err
	}

	return nil
}
