package sandbox

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/seed93082962/agenthost/internal/sandbox/internal/launch"
)

const (
	maxScanned   = 100_000 // entries of the working directory that are read before a command
	maxInside    = 10_000  // entries of one protected directory
	maxProtected = 1_000   // mounts for them
)

// protection returns the steps that make protected paths of the working directory read-only, after
// those that mount it.
func (s *Enforcer) protection() []launch.Mount {
	if s.dir == "" || s.policy.Protects == nil {
		return nil
	}

	var mounts []launch.Mount
	protect := func(path string) {
		mounts = append(mounts, launch.Mount{Kind: launch.MountProtect, Target: path})
		for _, path := range s.named { // Write names something inside
			if contains(mounts[len(mounts)-1].Target, path) {
				mounts = append(mounts, launch.Mount{Kind: launch.MountKeep, Target: path})
			}
		}
	}
	paths, sockets := s.protectedPaths()
	for _, path := range paths {
		protect(path)
	}

	if s.policy.Network == NetworkAll {
		sockets = nil
	}

	for _, path := range sockets {
		mounts = append(mounts, launch.Mount{Kind: launch.MountHide, Target: path})
	}

	if git := filepath.Join(s.dir, ".git"); !s.isNamed(git) && s.createGitFiles() {
		mounts = append(mounts, launch.Mount{Kind: launch.MountKeep, Target: git}) // it cannot be renamed
		protect(filepath.Join(git, "config"))
		protect(filepath.Join(git, "hooks"))
	}

	return mounts
}

// isNamed reports whether an entry of Write that is inside the working directory permits a path.
func (s *Enforcer) isNamed(path string) bool {
	return slices.ContainsFunc(s.named, func(dir string) bool { return contains(dir, path) })
}

// createGitFiles reports whether the working directory is that of a repository. What is protected
// there must exist: a missing name can be created.
func (s *Enforcer) createGitFiles() bool {
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return false
	}

	defer func() { _ = root.Close() }()
	info, err := root.Lstat(".git")
	if err != nil || !info.IsDir() {
		return false
	}

	_ = root.Mkdir(".git/hooks", 0o755)
	if config, err := root.OpenFile(".git/config", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); err == nil {
		_ = config.Close()
	}

	return true
}

// protectedPaths returns the outermost protected paths that exist. A directory that cannot be read,
// and one of the working directory for which a bound is reached, is one of them as a whole. It also
// returns the sockets of other programs.
func (s *Enforcer) protectedPaths() (paths, sockets []string) {
	top := &scan{s: s, entries: maxScanned, paths: maxProtected}
	for _, path := range s.policy.Protected {
		if target, ok := follow(path, nil, &top.entries); ok {
			top.protect(target)
		}
	}

	dirs, ok := top.list(s.dir)
	if !ok || len(top.found) > maxProtected {
		return []string{s.dir}, top.sockets
	}

	slices.Sort(dirs)
	for _, dir := range dirs {
		// Each directory has at most half of what is left: a large one, such as node_modules, does not
		// make the others read-only.
		below := &scan{s: s, entries: top.entries / 2, paths: top.paths / 2}
		complete := below.walk(dir)
		found := slices.Compact(slices.Sorted(slices.Values(below.found)))
		if !complete || len(found) > below.paths {
			found = slices.DeleteFunc(found, func(path string) bool { return contains(dir, path) }) // not what links lead to
			found = append(found, dir)
		}

		top.found = append(top.found, found...)
		top.paths -= len(found)
		top.sockets = append(top.sockets, below.sockets...)
		top.entries -= top.entries/2 - max(below.entries, 0)
	}

	if len(top.found) > 2*maxProtected {
		return []string{s.dir}, top.sockets
	}

	return outermost(top.found), top.sockets
}

// scan is a search for protected paths.
type scan struct {
	s              *Enforcer
	entries, paths int // that are left
	found          []string
	sockets        []string // of other programs
	inside         bool     // only sockets are searched
}

// walk searches a directory. It reports whether it has read all of it.
func (c *scan) walk(dir string) bool {
	for queue := []string{dir}; len(queue) > 0; queue = queue[1:] {
		dirs, ok := c.list(queue[0])
		if !ok {
			return false
		}

		queue = append(queue, dirs...)
	}

	return true
}

// list adds the protected names in a directory, and returns the other directories in it. It reports
// whether it has read all of it. A command may change the directory concurrently.
func (c *scan) list(dir string) ([]string, bool) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil, true
	}

	var dirs []string
	if err == nil {
		err = unix.Faccessat(fd, ".", unix.X_OK, 0)
		file := os.NewFile(uintptr(fd), dir)
		defer func() { _ = file.Close() }()
		for err == nil && c.entries > 0 {
			var entries []fs.DirEntry
			entries, err = file.ReadDir(1000)
			c.entries -= len(entries) * (1 + len(dir)/512) // long paths take memory
			dirs = append(dirs, c.judge(dir, entries)...)
		}
	}

	switch {
	case errors.Is(err, io.EOF):
		return dirs, true
	case err != nil && dir != c.s.dir: // the command could make it readable
		c.protect(dir)
		return nil, true
	}

	return nil, false
}

// judge adds the protected ones of the entries of a directory, and returns the other directories.
func (c *scan) judge(dir string, entries []fs.DirEntry) []string {
	var dirs []string
	for _, e := range entries {
		path := dir + "/" + e.Name()
		switch {
		case len(path) >= unix.PathMax: // it cannot be mounted
			c.entries = 0
			return nil
		case c.s.isNamed(path):
		case e.Type()&fs.ModeSocket != 0:
			if isServed(path) {
				c.sockets = append(c.sockets, path)
			}
		case c.inside && e.IsDir():
			dirs = append(dirs, path)
		case c.inside:
		case dir == c.s.dir && e.Name() == ".git" && e.IsDir():
			c.searchSockets(path)
		case c.s.policy.Protects(e.Name()):
			c.protect(path)
			if e.IsDir() {
				c.searchSockets(path)
			}

			if e.Type()&fs.ModeSymlink == 0 {
				continue
			}

			if target, ok := follow(path, nil, &c.entries); ok {
				c.protect(target)
			}
		case e.IsDir():
			dirs = append(dirs, path)
		}
	}

	return dirs
}

// searchSockets adds the sockets in a protected directory.
func (c *scan) searchSockets(dir string) {
	below := &scan{s: c.s, entries: min(c.entries, maxInside), inside: true}
	_ = below.walk(dir) // to the bound
	c.sockets = append(c.sockets, below.sockets...)
}

// protect adds a path, if it is inside the working directory and Write does not name it.
func (c *scan) protect(path string) {
	if strings.HasPrefix(path, c.s.dir+"/") && !c.s.isNamed(path) {
		c.found = append(c.found, path)
	}
}

// isServed reports whether a process may accept connections at a socket file, without a connection:
// that of another type of socket fails.
func isServed(path string) bool {
	file, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}

	defer func() { _ = unix.Close(file) }()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return true
	}

	defer func() { _ = unix.Close(fd) }()
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: "/proc/self/fd/" + strconv.Itoa(file)}) // a path may be too long
	return !errors.Is(err, unix.ECONNREFUSED)
}
