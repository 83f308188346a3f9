package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	landlock "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/seed93082962/agenthost/internal/sandbox/internal/launch"
)

// proxyPort is the port of the proxy on the loopback interface of a command. Where the command has
// none, it is an address that leads to the proxy.
const proxyPort = 3128

// Enforcer starts commands under one policy. It is safe for concurrent use.
type Enforcer struct {
	policy   Policy
	support  Support
	read     []string // without symbolic links
	write    []string
	links    [][2]string
	dir      string   // the working directory without symbolic links; empty if it does not exist
	named    []string // entries of Write inside dir
	sockets  []string // where the command can connect to the sockets of other programs
	root     string   // an empty directory
	tmp      string   // the directory of temporary files, without symbolic links
	abi      int      // of Landlock; 0 without it
	filter   []byte
	fallback []byte // the filter where a launcher gets no notifications
	proxy    *proxy // nil unless the network is NetworkProxy
	groups   []hierarchy

	ctx    context.Context // done when the sandbox is closed
	cancel context.CancelFunc
	served sync.WaitGroup
}

// New returns a sandbox. The caller must close it. Support reports what the kernel enforces; it is
// the caller who decides whether that is enough.
func New(p Policy) (*Enforcer, error) {
	p.Network = cmp.Or(p.Network, NetworkProxy)
	if err := p.check(); err != nil {
		return nil, err
	}

	p.Dir = filepath.Clean(p.Dir)
	p.Private = filepath.Clean(p.Private)
	if p.Dir == p.Private || contains(p.Dir, p.Private) || contains(p.Private, p.Dir) {
		return nil, fmt.Errorf("the private directory %s and the working directory %s are not separate", p.Private, p.Dir)
	}

	s := &Enforcer{policy: p}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.open(); err != nil {
		s.Close()
		return nil, err
	}

	return s, nil
}

func (s *Enforcer) open() error {
	for _, name := range []string{"home", "tmp", "root"} {
		if err := os.MkdirAll(filepath.Join(s.policy.Private, name), 0o700); err != nil {
			return fmt.Errorf("create the private directory: %w", err)
		}
	}

	var err error
	defaults := slices.Concat(systemPaths, toolchains(s.policy.Path, filepath.Clean(cmp.Or(s.policy.Home, "/root"))))
	if s.policy.User != 0 {
		defaults = slices.DeleteFunc(defaults, private)
	}

	read := append(without(defaults, s.policy.Hidden), s.policy.Read...)
	own, links := resolve([]string{s.policy.Dir, s.home(), s.temporary()}, nil)
	if len(own) == 3 {
		s.dir = own[0]
	}

	more, _ := resolve(s.policy.Write, own)
	more, writeLinks := resolve(s.policy.Write, slices.Concat(own, more))
	s.write = append(own, more...)
	for _, path := range more {
		if s.dir != "" && contains(s.dir, path) {
			s.named = append(s.named, path)
		}
	}

	var readLinks [][2]string
	s.read, readLinks = resolve(read, s.write)
	s.links = slices.CompactFunc(slices.SortedFunc(slices.Values(slices.Concat(links, writeLinks, readLinks)), func(a, b [2]string) int {
		return strings.Compare(a[0], b[0])
	}), func(a, b [2]string) bool { return a[0] == b[0] })
	s.write = outermost(s.write)
	permitted, _ := resolve(s.policy.Read, own)
	s.sockets = append(permitted, more...)
	if s.policy.Network == NetworkAll {
		s.sockets = slices.Concat(s.read, s.write)
	}

	// What is inside a writable directory can be read there, and a command may replace it.
	s.read = slices.DeleteFunc(outermost(s.read), func(path string) bool {
		return slices.ContainsFunc(s.write, func(dir string) bool { return contains(dir, path) })
	})
	for _, dir := range []string{s.home(), s.temporary()} {
		if s.policy.User == 0 {
			break
		}

		if err := os.Lchown(dir, s.policy.User, s.policy.User); err != nil {
			return fmt.Errorf("create the private directory: %w", err)
		}
	}

	if s.tmp, err = filepath.EvalSymlinks(s.temporary()); err != nil {
		return err
	}

	if s.root, err = filepath.EvalSymlinks(filepath.Join(s.policy.Private, "root")); err != nil {
		return err
	}

	s.abi = kernel.landlock()
	s.support = probe(variant{s.policy.Network, s.policy.User != 0}, s.abi)
	s.limitGroups()
	if s.policy.Network == NetworkProxy {
		s.proxy, err = newProxy(s.policy.Domains)
		if err != nil {
			return err
		}
	}

	if s.support.Isolated {
		if s.policy.Nested && s.abi < abiScope {
			s.abi = 0
		}

		s.filter, err = newFilter(s.policy, true, objects{families: []uint64{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6}})
		return err
	}

	families := familiesOf(s.policy, s.abi)
	s.filter, err = newFilter(s.policy, false, objects{families: families, proxied: s.proxy != nil, shared: !s.policy.Nested})
	if err != nil {
		return err
	}

	s.fallback, err = newFilter(s.policy, false, objects{families: families})
	return err
}

// private reports whether path is a directory of root that other users cannot enter. It would hide
// what they may read in it.
func private(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir() && info.Mode().Perm()&0o001 == 0
}

// limitGroups finds out what can be limited. A nested command has limits only if they are set.
func (s *Enforcer) limitGroups() {
	set := s.policy.Limits
	if s.policy.Nested && set.Memory == 0 && set.Processes == 0 {
		return
	}

	s.groups = kernel.groups()
	s.support.Memory = s.limited("memory")
	s.support.Processes = s.limited("pids") || s.policy.User != 0 || os.Getuid() != 0 && !s.policy.Nested
	whose := "of root "
	if s.policy.Nested {
		whose = ""
	}

	if !s.support.Processes {
		s.support.Reason = strings.TrimPrefix(s.support.Reason+"; the processes "+whose+"are not limited: control groups cannot be created", "; ")
	}
}

// limited reports whether control groups have a controller.
func (s *Enforcer) limited(controller string) bool {
	return slices.ContainsFunc(s.groups, func(h hierarchy) bool { return slices.Contains(h.controllers, controller) })
}

// rules returns the Landlock ruleset of one command. The launcher adds rules for what it mounts.
func (s *Enforcer) rules() (*os.File, error) {
	read := s.read
	switch {
	case s.support.Isolated && s.policy.Nested:
		return newScope()
	case s.policy.Nested:
		read = append(slices.Clone(read), "/proc", "/sys/fs/cgroup") // its launchers read the processes of commands
	case !s.support.Isolated:
		read = append(slices.Clone(read), kernelFiles...)
	}

	network := s.support.Isolated || s.policy.Network == NetworkAll
	return newRuleset(s.abi, read, append(slices.Clone(s.write), devices...), s.sockets, network)
}

// familiesOf returns the sockets of a command that shares the network of the system. Without
// NetworkAll, none exists: a call that uses it in a way that no rule restricts reaches nothing.
func familiesOf(p Policy, abi int) []uint64 {
	if p.Network != NetworkAll {
		return nil
	}

	families := []uint64{unix.AF_INET, unix.AF_INET6}
	if !p.Nested || abi >= abiResolveUnix { // else every socket file of the system could be connected to
		families = append(families, unix.AF_UNIX)
	}

	return families
}

func (s *Enforcer) home() string { return filepath.Join(s.policy.Private, "home") }

func (s *Enforcer) temporary() string { return filepath.Join(s.policy.Private, "tmp") }

// Support returns what the kernel enforces for the commands.
func (s *Enforcer) Support() Support { return s.support }

// Close ends the proxy. It does not end commands.
func (s *Enforcer) Close() {
	s.cancel()
	if s.proxy != nil {
		s.proxy.close()
	}

	s.served.Wait()
}

// kernel is what the kernel can do. Tests replace it, to simulate another kernel.
var kernel = struct {
	landlock func() int          // returns the version of Landlock, or 0
	isolate  func(variant) error // reports why namespaces cannot be created
	groups   func() []hierarchy
}{
	landlock: func() int { version, _ := landlock.LandlockGetABIVersion(); return max(version, 0) },
	isolate:  func(v variant) error { return trials[v]() },
	groups:   sync.OnceValue(findHierarchies),
}

// variant is what the namespaces of a policy depend on.
type variant struct {
	network Network
	user    bool // the command has another user
}

var trials = map[variant]func() error{
	{NetworkAll, false}:   sync.OnceValue(func() error { return tryIsolated(Policy{Network: NetworkAll}) }),
	{NetworkAll, true}:    sync.OnceValue(func() error { return tryIsolated(Policy{Network: NetworkAll, User: 65534}) }),
	{NetworkNone, false}:  sync.OnceValue(func() error { return tryIsolated(Policy{Network: NetworkNone}) }),
	{NetworkProxy, false}: sync.OnceValue(func() error { return tryIsolated(Policy{Network: NetworkProxy}) }),
}

// probe returns what the kernel enforces. The first call for a network starts a launcher without a
// command.
func probe(v variant, abi int) Support {
	network := v.network
	err := kernel.isolate(v)
	if err == nil {
		s := Support{Files: true, Network: true, Isolated: true}
		if network == NetworkAll && abi < abiScope {
			s.Reason = "Landlock of this kernel does not restrict abstract sockets, and the network is that of the system"
		}

		return s
	}

	s := Support{Files: abi > 0, Network: abi > 0 || network != NetworkProxy}
	s.Reason = "namespaces cannot be created: " + err.Error()
	if abi == 0 {
		s.Reason += "; the kernel has no Landlock"
	}

	return s
}

// tryIsolated reports why a command cannot have namespaces of its own.
func tryIsolated(p Policy) error {
	root, err := os.MkdirTemp("", "agenthost-sandbox-")
	if err != nil {
		return err
	}

	defer func() { _ = os.Remove(root) }()
	fd, err := unix.MemfdCreate("sandbox", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}

	file := os.NewFile(uintptr(fd), "sandbox")
	defer func() { _ = file.Close() }()
	config := launch.Config{User: p.User, Root: root, Mounts: []launch.Mount{{Kind: launch.MountProcess, Target: "/proc"}}}
	variable, attributes := isolate(&config, p)
	if _, err := file.WriteAt(config.Append(nil), 0); err != nil {
		return err
	}

	var output strings.Builder
	cmd := exec.Cmd{
		Path:       "/proc/self/exe",
		Args:       []string{"agenthost-sandbox"},
		Env:        append([]string{variable}, launch.Environment...),
		Dir:        "/",
		Stderr:     &output,
		ExtraFiles: []*os.File{file},

		SysProcAttr: attributes,
	}
	if err := cmd.Run(); err != nil {
		if reason, found := strings.CutPrefix(strings.TrimSpace(output.String()), launch.Prefix); found {
			return errors.New(reason)
		}

		return err
	}

	return nil
}
