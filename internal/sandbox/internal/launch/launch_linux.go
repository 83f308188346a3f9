package launch

import (
	"errors"
	"runtime"
	"strconv"
	"syscall"
)

// ExitFailed is the exit code of a launcher that could not start the command. The reason is on
// stderr, in one line that begins with Prefix.
const ExitFailed = 125

// Prefix begins the line on stderr of a launcher that could not start the command.
const Prefix = "agenthost sandbox: "

func init() {
	if version, found := syscall.Getenv(Variable); found {
		// A restriction of this thread holds for the command, which is forked on it.
		runtime.LockOSThread()
		syscall.Exit(launch(version))
	}
}

func launch(variable string) int {
	version, flags := variable, ""
	for i := range variable {
		if variable[i] == ' ' {
			version, flags = variable[:i], variable[i+1:]
			break
		}
	}

	if version != Version {
		return fail(errors.New("the program was replaced while it was running"))
	}

	if flags != "" {
		return enter(flags)
	}

	encoded, err := readAll(ConfigFD)
	if err != nil {
		return fail(wrap("read the configuration", err))
	}

	c, ok := decode(encoded)
	if !ok {
		return fail(errors.New("the configuration is malformed"))
	}

	children := openChildren() // the restrictions apply to what is opened later
	reserveHeap()
	notifications := c.startAnswering()
	if err := c.prepare(); err != nil {
		return fail(err)
	}

	if err := c.restrict(notifications); err != nil {
		return fail(err)
	}

	if c.Path == "" {
		return 0
	}

	attributes := &syscall.ProcAttr{Dir: c.Dir, Env: c.Env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{}}
	for i := range c.Extra {
		attributes.Files = append(attributes.Files, ExtraFD+uintptr(i))
	}

	if !c.Namespaces {
		attributes.Sys.Pdeathsig = syscall.SIGKILL // the command does not outlive a launcher that is killed
	}

	pid, err := syscall.ForkExec(c.Path, c.Args, attributes)
	if err != nil {
		return fail(wrap("start "+c.Path, err))
	}

	for i := range c.Extra {
		_ = syscall.Close(ExtraFD + i)
	}

	ignoreSignals()
	status, signal := wait(pid)
	switch {
	case c.First: // the kernel kills the processes of the namespace with its process 1
		report(signal)
		return status
	case c.Namespaces:
		c.first.end()
	default:
		killOrphans(children)
	}

	raise(signal)
	return status
}

// reserveHeap maps memory for what the launcher allocates after it has set the limits. The limit of
// the address space is also that of the launcher, in which the Go runtime has already reserved more
// than 1 GiB. A new heap has between 0 and 4 MiB, because its address is random, and grows by
// multiples of 4 MiB. Of this block, which is not written, almost 4 MiB remain.
func reserveHeap() {
	runtime.KeepAlive(make([]byte, 4<<20+1))
}

// enter starts a launcher for a nested command in new namespaces. The flags are those of clone(2),
// as a number. This launcher remains outside of them.
//
// Without namespaces, the flags are 0: this launcher, which the command cannot signal, kills what
// the other one leaves if the command kills that.
func enter(flags string) int {
	namespaces, err := strconv.ParseUint(flags, 10, 32)
	if err != nil {
		return fail(wrap("read the flags", err))
	}

	sys := syscall.SysProcAttr{Cloneflags: uintptr(namespaces), Pdeathsig: syscall.SIGKILL}
	if namespaces&syscall.CLONE_NEWUSER != 0 {
		sys.AmbientCaps = Capabilities
	}

	children := -1
	if namespaces == 0 {
		if err := prctl(prctlSubreaper, 1); err != nil {
			return fail(wrap("adopt orphans", err))
		}

		children = openChildren()
	}

	pid, err := syscall.ForkExec("/proc/self/exe", []string{"agenthost-sandbox"},
		&syscall.ProcAttr{Env: append([]string{Variable + "=" + Version}, Environment...), Files: []uintptr{0, 1, 2}, Sys: &sys})
	if err != nil {
		return fail(wrap("create namespaces", err))
	}

	ignoreSignals()
	status, signal := wait(pid)
	if reported := reportedSignal(); reported != 0 {
		signal = reported
	}

	if namespaces == 0 {
		killOrphans(children)
	}

	raise(signal)
	return status
}

// prepare does what needs rights that the command does not have.
func (c *Config) prepare() error {
	for i := range c.Groups {
		if _, err := syscall.Write(GroupFD+i, []byte("0")); err != nil { // 0 is this process
			return wrap("join the control group", err)
		}
	}

	// It is the launcher that maps its user: the files of a child in /proc belong to root if the
	// memory of the parent is protected, and an ordinary user could not write them.
	if c.UserMap != "" {
		for _, m := range [][2]string{{"setgroups", "deny"}, {"uid_map", c.UserMap}, {"gid_map", c.GroupMap}} {
			if err := writeFile("/proc/self/"+m[0], m[1]); err != nil {
				return wrap("write "+m[0], err)
			}
		}
	}

	// The memory and the environment of the launcher cannot be read through /proc.
	if err := prctl(prctlSetDumpable, 0); err != nil {
		return wrap("protect the launcher", err)
	}

	if c.Loopback {
		if err := startLoopback(); err != nil {
			return wrap("start the loopback interface", err)
		}
	}

	if !c.Namespaces {
		if err := prctl(prctlSubreaper, 1); err != nil {
			return wrap("adopt orphans", err)
		}
	}

	if c.Root != "" {
		if err := c.mountRoot(); err != nil {
			return err
		}
	}

	if c.ProxyPort != 0 && c.NotifyCall == 0 {
		listener, err := listen(c.ProxyPort)
		if err != nil {
			return wrap("listen for the proxy", err)
		}

		if err := send(ProxyFD, listener); err != nil {
			return wrap("pass on the listener for the proxy", err)
		}
	}

	for _, l := range c.Limits {
		limit := syscall.Rlimit{Cur: l.Value, Max: l.Value}
		var old syscall.Rlimit
		if err := syscall.Getrlimit(l.Resource, &old); err != nil {
			return wrap("read limit "+strconv.Itoa(l.Resource), err)
		}

		limit.Cur = min(limit.Cur, old.Max)
		limit.Max = min(limit.Max, old.Max)
		if err := syscall.Setrlimit(l.Resource, &limit); err != nil {
			return wrap("set limit "+strconv.Itoa(l.Resource), err)
		}
	}

	return wrap("close descriptors", closeOnExec(3))
}

// restrict confines the calling thread, and therefore the command. It sends the descriptor for
// notifications, if the filter has one.
func (c *Config) restrict(notifications chan<- int) error {
	if err := prctl(prctlNoNewPrivileges, 1); err != nil {
		return wrap("set no_new_privs", err)
	}

	if err := dropBounding(); err != nil {
		return wrap("drop capabilities", err)
	}

	if c.User != 0 {
		if err := setUser(uintptr(c.User)); err != nil {
			return wrap("change the user", err)
		}

		if err := prctl(prctlParentDeath, uintptr(syscall.SIGKILL)); err != nil { // the change has removed the signal
			return wrap("end with the parent", err)
		}
	}

	if err := clearCapabilities(); err != nil {
		return wrap("drop capabilities", err)
	}

	if c.Ruleset {
		for _, g := range c.Granted {
			if err := g.add(); err != nil {
				return wrap("grant "+g.Path, err)
			}
		}

		if err := restrictWith(RulesetFD); err != nil {
			return wrap("restrict with Landlock", err)
		}
	}

	if len(c.Filter) == 0 {
		return nil
	}

	if c.NotifyCall == 0 {
		return wrap("restrict with seccomp", filterCalls(c.Filter))
	}

	fd, err := filterAndNotify(c.NotifyCall, c.Filter)
	if errors.Is(err, syscall.EBUSY) { // another filter has a descriptor
		err = filterCalls(c.Fallback)
	} else if err == nil {
		notifications <- fd
	}

	return wrap("restrict with seccomp", err)
}

func (g Grant) add() error {
	fd, err := syscall.Open(g.Path, openPath|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}

	defer func() { _ = syscall.Close(fd) }()
	return addPath(RulesetFD, fd, g.Access)
}

// setUser changes the user and the groups of this thread. The functions of the package syscall
// change those of all threads.
func setUser(id uintptr) error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		return errno
	}

	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESGID, id, id, id); errno != 0 {
		return errno
	}

	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, id, id, id); errno != 0 {
		return errno
	}

	return nil
}

// dropBounding removes all capabilities from the bounding set: the user of a namespace would
// otherwise get them again with execve.
func dropBounding() error {
	for capability := uintptr(0); ; capability++ {
		err := prctl(prctlDropBounding, capability)
		if errors.Is(err, syscall.EINVAL) {
			return nil // there is no further capability
		}

		if errors.Is(err, syscall.EPERM) {
			return nil // an ordinary user without a namespace has none to lose
		}

		if err != nil {
			return err
		}
	}
}

func fail(err error) int {
	_, _ = syscall.Write(2, []byte(Prefix+err.Error()+"\n"))
	return ExitFailed
}

// stepError is an error of a step: fmt is not available here.
type stepError struct {
	step  string
	cause error
}

func (e *stepError) Error() string { return e.step + ": " + e.cause.Error() }

func (e *stepError) Unwrap() error { return e.cause }

func wrap(step string, err error) error {
	if err == nil {
		return nil
	}

	return &stepError{step: step, cause: err}
}
