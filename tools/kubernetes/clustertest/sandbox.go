package clustertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// sandbox is what a process enters before it becomes the program of a container.
type sandbox struct {
	Root     string // an empty directory
	Network  string // the file of a network namespace
	Group    string // the directory of a cgroup with the limit of memory
	Memory   int64  // bytes; 0: unlimited
	Host     string // the name of the pod
	Image    string // the file of the program
	Message  string // the file for the termination message
	Mounts   []mount
	ReadOnly bool
	User     int
	GroupID  int
	Groups   []int
	Locked   bool // without new privileges
	Drop     bool // without capabilities
	Dir      string
	Args     []string
	Env      []string
}

// mount is a directory of a volume.
type mount struct {
	Source   string
	Target   string
	ReadOnly bool
}

// outOfMemory reports whether the kernel has killed a process because of the limit.
func (s sandbox) outOfMemory() bool {
	text, _ := os.ReadFile(filepath.Join(s.Group, "memory.oom_control"))
	for line := range strings.Lines(string(text)) {
		if count, found := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); found {
			return count != "0"
		}
	}

	return false
}

// enterContainer makes this process, which has namespaces of its own, the program of a container.
// It returns only if that fails.
func enterContainer(path string) error {
	runtime.LockOSThread()
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}

	var s sandbox
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}

	if s.Memory > 0 {
		err = errors.Join(
			os.WriteFile(filepath.Join(s.Group, "memory.limit_in_bytes"), []byte(strconv.FormatInt(s.Memory, 10)), 0o600),
			os.WriteFile(filepath.Join(s.Group, "cgroup.procs"), []byte("0"), 0o600),
		)
		if err != nil {
			return fmt.Errorf("limit memory: %w", err)
		}
	}

	if err := s.enterNetwork(); err != nil {
		return fmt.Errorf("enter network: %w", err)
	}

	if err := s.enterRoot(); err != nil {
		return fmt.Errorf("enter root: %w", err)
	}

	if err := s.dropPrivileges(); err != nil {
		return fmt.Errorf("drop privileges: %w", err)
	}

	if err := syscall.Chdir(s.Dir); err != nil {
		return fmt.Errorf("enter working directory: %w", err)
	}

	return fmt.Errorf("exec %s: %w", s.Args[0], syscall.Exec(s.Args[0], s.Args, s.Env)) //nolint:gosec // G204: the program of a test
}

func (s sandbox) enterNetwork() error {
	fd, err := unix.Open(s.Network, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}

	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return err
	}

	return unix.Sethostname([]byte(s.Host))
}

// enterRoot creates the file system of the container: the programs and libraries of this machine,
// the program of the image in /usr/local/bin, and the volumes.
func (s sandbox) enterRoot() error {
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}

	if err := unix.Mount("tmpfs", s.Root, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}

	var binds []mount
	for _, dir := range []string{"bin", "lib", "lib32", "lib64", "libexec", "sbin", "share"} {
		binds = append(binds, mount{"/usr/" + dir, "/usr/" + dir, true})
	}

	for _, dir := range []string{"/etc/ssl", "/etc/alternatives"} {
		binds = append(binds, mount{dir, dir, true})
	}

	binds = append(binds, mount{s.Image, "/usr/local/bin/" + filepath.Base(s.Image), true}, mount{s.Message, "/dev/termination-log", false})
	for _, device := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		binds = append(binds, mount{"/dev/" + device, "/dev/" + device, false})
	}

	for _, b := range append(binds, s.Mounts...) {
		if err := s.bind(b); err != nil {
			return fmt.Errorf("mount %s: %w", b.Target, err)
		}
	}

	if err := s.writeFiles(); err != nil {
		return err
	}

	if err := unix.Mount("proc", s.Root+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}

	if err := unix.Chdir(s.Root); err != nil {
		return err
	}

	if err := unix.PivotRoot(".", "."); err != nil {
		return err
	}

	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}

	if !s.ReadOnly {
		return nil
	}

	return unix.Mount("none", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
}

// bind mounts a file or directory, if it exists on this machine.
func (s sandbox) bind(m mount) error {
	info, err := os.Stat(m.Source)
	if os.IsNotExist(err) {
		return nil
	}

	if err != nil {
		return err
	}

	target := filepath.Join(s.Root, m.Target)
	if info.IsDir() {
		err = os.MkdirAll(target, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(target), 0o755); err == nil {
		err = os.WriteFile(target, nil, 0o600)
	}

	if err != nil {
		return err
	}

	if err := unix.Mount(m.Source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}

	if !m.ReadOnly {
		return nil
	}

	return unix.Mount("none", target, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
}

func (s sandbox) writeFiles() error {
	for name, mode := range map[string]os.FileMode{"proc": 0o555, "tmp": 0o777 | os.ModeSticky, "etc": 0o755} {
		dir := filepath.Join(s.Root, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}

		if err := os.Chmod(dir, mode); err != nil {
			return err
		}
	}

	for _, name := range []string{"bin", "lib", "lib64", "sbin"} {
		if err := os.Symlink("usr/"+name, filepath.Join(s.Root, name)); err != nil {
			return err
		}
	}

	for name, text := range map[string]string{
		"passwd": "root:x:0:0:root:/root:/usr/sbin/nologin\n", "group": "root:x:0:\n",
		"hosts": "127.0.0.1 localhost\n", "resolv.conf": "nameserver " + gateway + "\n",
	} {
		if err := os.WriteFile(filepath.Join(s.Root, "etc", name), []byte(text), 0o644); err != nil { //nolint:gosec // G306: for all users
			return err
		}
	}

	return nil
}

func (s sandbox) dropPrivileges() error {
	const lastCapability = 40
	for capability := uintptr(0); s.Drop && capability <= lastCapability; capability++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil {
			return err
		}
	}

	if s.Locked {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
	}

	return errors.Join(syscall.Setgroups(s.Groups), syscall.Setgid(s.GroupID), syscall.Setuid(s.User))
}
