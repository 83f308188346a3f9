package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	landlock "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/seed93082962/agenthost/internal/sandbox/internal/launch"
)

// Command is a confined command that is being started.
type Command struct {
	s      *Enforcer
	cmd    *exec.Cmd
	files  []*os.File // of the launcher
	group  *group     // nil without control groups
	socket *os.File   // the other end is open until the end of the launcher; nil if none is needed

	denied denied
}

// Denied returns the connections that the proxy has denied to the command, one sentence for each
// address: it names the address, and the field that permits it if one does. The list is bounded.
func (c *Command) Denied() []string {
	c.denied.mu.Lock()
	defer c.denied.mu.Unlock()
	return slices.Clone(c.denied.reasons)
}

// Confine changes cmd, which the caller starts then, so that it starts confined. cmd.Dir must be
// inside Dir of the policy; empty means Dir. cmd.Env must not be nil. The command has the
// environment of cmd, with HOME, TMPDIR and the variables of the proxy replaced. cmd.ExtraFiles
// must be empty, unless the policy is Nested. The process of cmd ends with the exit code or by the
// signal of the command. If the command could not be started, the exit code is 125, and stderr has
// the reason in one line.
//
// What cmd.Stdin, Stdout and Stderr are should be pipes or /dev/null: without Landlock, the command
// can open a file again, with all rights that its user has to it.
//
// The caller must call Started after cmd was started, and also if that failed.
func (s *Enforcer) Confine(cmd *exec.Cmd) (*Command, error) {
	if len(cmd.ExtraFiles) > 0 && !s.policy.Nested || cmd.Env == nil {
		return nil, errors.New("confine the command: it has extra files or no environment")
	}

	c := &Command{s: s, cmd: cmd}
	dir := cmp.Or(cmd.Dir, s.policy.Dir)
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}

	config := launch.Config{
		Limits:  s.limits(),
		User:    s.policy.User,
		Extra:   len(cmd.ExtraFiles),
		Ruleset: s.abi > 0,
		Filter:  s.filter,
		Path:    cmd.Path,
		Dir:     dir,
		Args:    cmd.Args,
		Env:     s.environment(cmd.Env),
	}
	variable, attributes := launch.Variable+"="+launch.Version, &syscall.SysProcAttr{}
	switch {
	case !s.support.Isolated && s.policy.Nested:
		variable += " 0" // a launcher that the command cannot signal
	case !s.support.Isolated:
		config.NotifyCall = unix.SYS_SECCOMP
		config.Fallback = s.fallback
	default:
		variable, attributes = isolate(&config, s.policy)
		config.Root = s.root
		config.Mounts = append(s.mounts(), s.protection()...)
		config.Granted = s.granted()
	}

	if s.proxy != nil {
		config.ProxyPort = proxyPort
	}

	if len(s.groups) > 0 {
		var err error
		if c.group, err = newGroup(s.groups, s.policy.groupLimits()); err != nil {
			c.close()
			return nil, fmt.Errorf("confine the command: %w", err)
		}

		config.Groups = len(c.group.join)
	}

	if err := c.open(config); err != nil {
		c.close()
		return nil, fmt.Errorf("confine the command: %w", err)
	}

	cmd.Path = "/proc/self/exe"
	cmd.Args = []string{Launcher}
	cmd.Env = append([]string{variable}, launch.Environment...)
	cmd.Dir = "/"
	files := make([]*os.File, launch.ExtraFD-launch.ConfigFD)
	copy(files, c.files)
	cmd.ExtraFiles = slices.Concat(files, cmd.ExtraFiles)
	cmd.SysProcAttr = attributes
	if c.group != nil && c.group.unified != nil {
		cmd.SysProcAttr.UseCgroupFD = true
		cmd.SysProcAttr.CgroupFD = int(c.group.unified.Fd())
	}

	return c, nil
}

func (c *Command) open(config launch.Config) error {
	fd, err := unix.MemfdCreate("sandbox", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("create a file in memory: %w", err)
	}

	file := os.NewFile(uintptr(fd), "sandbox")
	c.files = append(c.files, file)
	if _, err := file.Write(config.Append(nil)); err != nil {
		return err
	}

	if _, err := file.Seek(0, 0); err != nil {
		return err
	}

	ruleset := (*os.File)(nil) // closed in the launcher
	if config.Ruleset {
		if ruleset, err = c.s.rules(); err != nil {
			return err
		}
	}

	c.files = append(c.files, ruleset)
	if c.s.proxy == nil && c.group == nil {
		return nil
	}

	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("create a socket for the launcher: %w", err)
	}

	c.socket = os.NewFile(uintptr(pair[0]), "launcher")
	c.files = append(c.files, os.NewFile(uintptr(pair[1]), "launcher"))
	if c.group != nil {
		c.files = append(c.files, c.group.join...)
	}

	return nil
}

// Started releases what only the start of the command needs. The proxy serves the command until its
// end.
func (c *Command) Started() {
	if c.s.policy.Nested && c.cmd.Process != nil && c.group != nil {
		c.group.add(c.cmd.Process.Pid)
	}

	c.release()
	if c.socket != nil {
		c.s.watch(c)
	}
}

// release closes what only the start of the command needs.
func (c *Command) release() {
	for _, file := range c.files {
		if file != nil {
			_ = file.Close()
		}
	}

	c.files = nil
	if c.group != nil {
		c.group.close()
	}
}

// close releases everything of a command that is not started.
func (c *Command) close() {
	c.release()
	if c.socket != nil {
		_ = c.socket.Close()
	}

	if c.group != nil {
		_ = c.group.remove(50, true)
	}
}

// noDump is the limit of core dumps in bytes. It is too small for a file. With 0, the kernel would
// still start the handler of the system, which reads the process as root: see core(5).
const noDump = 1

func (s *Enforcer) limits() []launch.Limit {
	l := s.policy.Limits
	if s.policy.Nested {
		set := []launch.Limit{{Resource: unix.RLIMIT_CORE, Value: noDump}}
		processes := l.Processes
		if s.policy.User == 0 || s.limited("pids") { // the user id may have other processes too
			processes = 0
		}

		for resource, value := range map[int]uint64{
			unix.RLIMIT_AS: l.AddressSpace, unix.RLIMIT_FSIZE: l.FileSize, unix.RLIMIT_NOFILE: l.OpenFiles, unix.RLIMIT_NPROC: processes,
		} {
			if value != 0 {
				set = append(set, launch.Limit{Resource: resource, Value: value})
			}
		}

		return set
	}

	return []launch.Limit{
		{Resource: unix.RLIMIT_CORE, Value: noDump},
		{Resource: unix.RLIMIT_AS, Value: cmp.Or(l.AddressSpace, 16<<30)},
		{Resource: unix.RLIMIT_FSIZE, Value: cmp.Or(l.FileSize, 8<<30)},
		{Resource: unix.RLIMIT_NOFILE, Value: cmp.Or(l.OpenFiles, 4096)},
		{Resource: unix.RLIMIT_NPROC, Value: cmp.Or(l.Processes, 1000)},
	}
}

// environment returns env with a home directory of its own: that of the user is not visible.
func (s *Enforcer) environment(env []string) []string {
	if s.policy.Nested {
		return env
	}

	replaced := []string{"HOME=" + s.home(), "TMPDIR=" + s.temporary()}
	if s.proxy != nil {
		url := "http://127.0.0.1:" + strconv.Itoa(proxyPort)
		for _, name := range []string{"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy", "PIP_PROXY"} {
			replaced = append(replaced, name+"="+url)
		}

		replaced = append(replaced, "NO_PROXY=localhost,127.0.0.1,::1", "no_proxy=localhost,127.0.0.1,::1", "NODE_USE_ENV_PROXY=1")
	}

	result := slices.DeleteFunc(slices.Clone(env), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return name == launch.Variable || slices.ContainsFunc(replaced, func(r string) bool { return strings.HasPrefix(r, name+"=") })
	})
	return append(result, replaced...)
}

// mounts returns the steps to fill the root of a command: parents before what is inside them.
func (s *Enforcer) mounts() []launch.Mount {
	mounts := []launch.Mount{
		{Kind: s.processes(), Target: "/proc"},
		{Kind: launch.MountTmpfs, Source: "256m", Target: "/dev/shm"},
		{Kind: launch.MountLink, Source: "/proc/self/fd", Target: "/dev/fd"},
		{Kind: launch.MountLink, Source: "/proc/self/fd/0", Target: "/dev/stdin"},
		{Kind: launch.MountLink, Source: "/proc/self/fd/1", Target: "/dev/stdout"},
		{Kind: launch.MountLink, Source: "/proc/self/fd/2", Target: "/dev/stderr"},
	}
	for _, device := range devices {
		mounts = append(mounts, launch.Mount{Kind: launch.MountDevice, Source: device, Target: device})
	}

	all := slices.Concat(s.read, s.write)
	for _, link := range s.links {
		all = append(all, link[0])
	}

	if !slices.ContainsFunc(all, func(path string) bool { return contains("/tmp", path) }) {
		mounts = append(mounts, launch.Mount{Kind: launch.MountWrite, Source: s.tmp, Target: "/tmp"})
	}

	var paths []launch.Mount
	read := s.read
	if s.abi > 0 && !s.policy.Nested { // the names in /etc are visible then, and Landlock permits the listed files only
		read = outermost(append(slices.Clone(read), "/etc"))
	}

	for _, path := range read {
		paths = append(paths, launch.Mount{Kind: launch.MountRead, Source: path, Target: path})
	}

	for _, path := range s.write {
		paths = append(paths, launch.Mount{Kind: launch.MountWrite, Source: path, Target: path})
	}

	slices.SortStableFunc(paths, func(a, b launch.Mount) int { return strings.Compare(a.Target, b.Target) })
	mounts = append(mounts, paths...)
	for i, link := range s.links { // sorted: one that another one leads to is after that
		if slices.ContainsFunc(s.links[:i], func(l [2]string) bool { return contains(l[0], link[0]) }) {
			continue
		}

		inside := slices.ContainsFunc(paths, func(m launch.Mount) bool { return contains(m.Target, link[0]) })
		if !inside {
			mounts = append(mounts, launch.Mount{Kind: launch.MountLink, Source: link[1], Target: link[0]})
		}
	}

	return mounts
}

// granted returns the rules for what the launcher mounts: their files do not exist before.
func (s *Enforcer) granted() []launch.Grant {
	if s.abi == 0 || s.policy.Nested {
		return nil
	}

	all := accessOf(s.abi)
	return []launch.Grant{
		{Path: "/", Access: landlock.AccessFSReadDir},
		{Path: "/proc", Access: all & accessRead},
		{Path: "/dev/shm", Access: all},
	}
}

// processes returns how the processes of the command are mounted. Those of a nested command are
// writable, unless it is root, the owner of the files in /proc/sys: then it cannot create user
// namespaces.
func (s *Enforcer) processes() string {
	if s.policy.Nested && (s.policy.User != 0 || os.Getuid() != 0) {
		return launch.MountNested
	}

	return launch.MountProcess
}

// isolate makes the launcher with the configuration c one in new namespaces. It returns the
// variable of the environment and the attributes with which it is started.
//
// A child is started without a copy of the page tables of this process, which may be large. The
// package syscall copies them for a new user namespace, because its parent may map the users. Here,
// the launcher does so.
func isolate(c *launch.Config, p Policy) (string, *syscall.SysProcAttr) {
	c.Namespaces = true
	flags := syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC
	if p.User == 0 { // only root can change the user, and needs no user namespace for the mounts
		one := func(id int) string { return fmt.Sprintf("%d %d 1", id, id) }
		c.UserMap, c.GroupMap = one(os.Getuid()), one(os.Getgid())
		flags |= syscall.CLONE_NEWUSER
		if p.Network != NetworkAll {
			c.Loopback = true
			flags |= syscall.CLONE_NEWNET
		}
	}

	variable := launch.Variable + "=" + launch.Version
	if p.Nested || p.User != 0 {
		c.First = true
		return variable + " " + strconv.Itoa(flags|syscall.CLONE_NEWPID), &syscall.SysProcAttr{}
	}

	return variable, &syscall.SysProcAttr{
		Cloneflags:  uintptr(flags | syscall.CLONE_VFORK | syscall.CLONE_VM),
		AmbientCaps: launch.Capabilities, // in the namespaces
	}
}
