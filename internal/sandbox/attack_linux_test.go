package sandbox_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed93082962/agenthost/internal/sandbox"
)

// attacks are run by this program inside a sandbox. One that returns nil has succeeded. arg is what
// the test passes.
var attacks = map[string]func(arg string) error{
	"read":  func(path string) error { _, err := os.ReadFile(path); return err },
	"write": func(path string) error { return os.WriteFile(path, []byte("attack"), 0o600) },
	"append": func(path string) error { // a rule that denies truncation does not deny it
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			_ = f.Close()
		}
		return err
	},
	"list": func(path string) error { _, err := os.ReadDir(path); return err },
	"write through a link": func(path string) error {
		if err := os.Symlink(path, "link"); err != nil {
			return err
		}
		return os.WriteFile("link", []byte("attack"), 0o600)
	},
	"hard link": func(path string) error {
		if err := os.Link(path, "hard"); err != nil {
			return err
		}
		_, err := os.ReadFile("hard")
		return err
	},
	"a race of links": func(path string) error {
		stop := time.Now().Add(raceTime())
		go func() {
			for time.Now().Before(stop) {
				_ = os.Remove("racing")
				_ = os.WriteFile("racing", nil, 0o600)
				_ = os.Remove("racing")
				_ = os.Symlink(path, "racing")
			}
		}()
		for time.Now().Before(stop) {
			if content, err := os.ReadFile("racing"); err == nil && len(content) > 0 {
				return nil
			}
		}
		return errors.New("never read")
	},
	"a race of links for writing": func(path string) error { // the test compares the content
		stop := time.Now().Add(300 * time.Millisecond)
		go func() {
			for time.Now().Before(stop) {
				_ = os.Remove("racing")
				_ = os.Symlink(path, "racing")
				_ = os.Remove("racing")
				_ = os.Mkdir("racing", 0o700)
				_ = os.Remove("racing")
			}
		}()
		for time.Now().Before(stop) {
			_ = os.WriteFile("racing", []byte("attack"), 0o600)
			_ = os.Truncate("racing", 0)
			_ = os.Rename("racing", "raced")
		}
		return errors.New("see the test")
	},
	"standard input for writing": func(string) error {
		f, err := os.OpenFile("/proc/self/fd/0", os.O_WRONLY, 0)
		if err == nil {
			_ = f.Close()
		}
		return err
	},
	"files of a descriptor": func(string) error {
		return firstSuccess(0, 64, func(fd int) error {
			_, err := os.ReadFile("/proc/self/fd/" + strconv.Itoa(fd) + "/../../etc/shadow")
			return err
		})
	},
	"setuid program": func(path string) error {
		output, err := exec.Command(path, "attack", "effective user", strconv.Itoa(os.Getuid())).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	},
	"effective user": func(uid string) error {
		if os.Geteuid() == number(uid) {
			return errors.New("the user is the same")
		}
		return nil
	},
	"move out": func(path string) error { _ = os.WriteFile("moving", nil, 0o600); return os.Rename("moving", path) },
	"another descriptor": func(string) error {
		return firstSuccess(3, 64, func(fd int) error { return syscall.Fstat(fd, new(syscall.Stat_t)) })
	},
	"files of processes": func(pid string) error {
		var result error
		for _, file := range []string{"environ", "mem", "maps", "root/etc/shadow", "cwd/x", "fd"} {
			f, err := os.Open(filepath.Join("/proc/"+pid, file))
			if err == nil {
				_, err = f.Read(make([]byte, 10))
				if file == "fd" {
					_, err = os.Readlink(filepath.Join(f.Name(), "0")) // the numbers are visible
				}
				_ = f.Close()
			}
			if err == nil {
				return nil
			}
			result = err
		}
		return result
	},
	"files of the first process": func(string) error {
		_, err := os.ReadFile("/proc/1/environ")
		if err != nil {
			_, err = os.ReadDir("/proc/1/root/root")
		}
		return err
	},
	"another namespace of this thread": func(string) error { return unix.Unshare(unix.CLONE_NEWNS) },
	"signal":                           func(pid string) error { return syscall.Kill(number(pid), 0) },
	"priority": func(pid string) error {
		return syscall.Setpriority(syscall.PRIO_PROCESS, number(pid), 10)
	},
	"limit": func(pid string) error {
		return unix.Prlimit(number(pid), unix.RLIMIT_NOFILE, nil, new(unix.Rlimit))
	},
	"trace": func(pid string) error { return syscall.PtraceAttach(number(pid)) },
	"memory of a process": func(pid string) error {
		local := make([]byte, 1)
		_, err := unix.ProcessVMReadv(number(pid), []unix.Iovec{{Base: &local[0], Len: 1}}, []unix.RemoteIovec{{Base: 0x400000, Len: 1}}, 0)
		return err
	},
	"shared memory": func(key string) error {
		id, err := unix.SysvShmGet(number(key), 1, 0)
		if err == nil {
			_, err = unix.SysvShmAttach(id, 0, 0)
		}
		return err
	},
	"connect": func(address string) error {
		conn, err := net.DialTimeout("tcp", address, 3*time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err
	},
	"own server": func(string) error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		conn, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			_ = conn.Close()
		}
		return err
	},
	"nested": func(string) error {
		extra, err := io.ReadAll(io.NewSectionReader(os.NewFile(3, "extra"), 0, 100))
		if err != nil {
			return err
		}
		private, err := os.MkdirTemp("", "")
		if err != nil {
			return err
		}
		dir, err := os.Getwd()
		if err != nil {
			return err
		}
		if err := errors.Join(os.Mkdir("inner", 0o700), os.WriteFile("outer", nil, 0o600)); err != nil {
			return err
		}
		s, err := sandbox.New(sandbox.Policy{Dir: filepath.Join(dir, "inner"), Private: private, Path: os.Getenv("PATH"), Network: sandbox.NetworkNone})
		if err != nil {
			return err
		}
		defer s.Close()
		fmt.Printf("%s %s isolated=%v\n", extra, os.Getenv("HOME"), s.Support().Isolated)
		cmd := &exec.Cmd{Path: "/bin/bash", Args: []string{"bash", "-c", "echo -n user $(id -u)', '; echo written > file && echo -n $(cat file)', '; cat ../outer 2>&- || echo denied"}, Env: []string{"PATH=" + os.Getenv("PATH")}, Stdout: os.Stdout, Stderr: os.Stderr}
		c, err := s.Confine(cmd)
		if err != nil {
			return err
		}
		err = cmd.Start()
		c.Started()
		return errors.Join(err, cmd.Wait())
	},
	// With the rights of a user namespace of its own, it changes how files are mounted.
	"mounts of a namespace": func(path string) error {
		script := "mount -o remount,rw,bind /usr && touch /usr/attack || mount --bind " + path + " . || umount -l /proc && cat " + path + " || mount -t devtmpfs x . || mount /dev/sda ."
		cmd := exec.Command("/bin/bash", "-c", script)
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		output, err := cmd.CombinedOutput()
		return errors.Join(err, errors.New(string(output)))
	},
	"datagram": func(address string) error {
		conn, err := net.Dial("udp", address)
		if err != nil {
			return err
		}
		_, err = conn.Write([]byte("attack"))
		return err
	},
	"socket file": func(path string) error {
		conn, err := net.Dial("unix", path)
		if err == nil {
			_ = conn.Close()
		}
		return err
	},
	"raw socket":    func(string) error { return socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) },
	"packet socket": func(string) error { return socket(unix.AF_PACKET, unix.SOCK_RAW, 0) },
	"netlink":       func(string) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, 0) },
	"vsock":         func(string) error { return socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0) },
	"proxy":         get,
	"proxy tunnel": func(target string) error {
		conn, err := net.Dial("tcp", strings.TrimPrefix(os.Getenv("HTTP_PROXY"), "http://"))
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target); err != nil {
			return err
		}
		response, err := io.ReadAll(io.LimitReader(conn, 12))
		if err == nil && !strings.HasSuffix(string(response), "200") {
			err = fmt.Errorf("the proxy responded %q", response)
		}
		return err
	},
	"user namespace": func(string) error { return unix.Unshare(unix.CLONE_NEWUSER) },
	"user namespace of a child": func(string) error {
		return (&exec.Cmd{Path: "/bin/true", SysProcAttr: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}}).Run()
	},
	"io_uring": func(string) error {
		_, _, errno := syscall.Syscall(unix.SYS_IO_URING_SETUP, 1, 0, 0)
		if errno == syscall.EFAULT { // it exists
			return nil
		}
		return errno
	},
	"a call of tomorrow": func(string) error { // such as 468, file_getattr, of Linux 6.17
		_, _, errno := syscall.Syscall(468, 0, 0, 0)
		if errno != syscall.ENOSYS {
			return nil
		}
		return errno
	},
	"bpf": func(string) error {
		_, _, errno := syscall.Syscall(unix.SYS_BPF, 0, 0, 0)
		if errno == syscall.EINVAL || errno == syscall.EFAULT {
			return nil
		}
		return errno
	},
	"mount":        func(string) error { return unix.Mount("tmpfs", "/dev/shm", "tmpfs", 0, "") },
	"keyring":      func(string) error { _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true); return err },
	"clock":        func(string) error { _, err := unix.ClockAdjtime(unix.CLOCK_REALTIME, &unix.Timex{}); return err },
	"capabilities": capabilities,
	"device":       func(string) error { return unix.Mknod("device", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 1))) },
	"characters of a terminal": func(string) error {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(0))
		if errno == syscall.EPERM {
			return errno
		}
		_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, 0, 1<<32|unix.TIOCSTI, uintptr(0))
		if errno == syscall.EPERM {
			return errno
		}
		return nil // reached the terminal driver
	},
	"memory": func(string) error {
		_, err := syscall.Mmap(-1, 0, 32<<30, syscall.PROT_READ, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
		return err
	},
	"all memory": func(string) error {
		for range 512 {
			block, err := syscall.Mmap(-1, 0, 1<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_POPULATE)
			if err != nil {
				return err
			}
			block[0] = 1
		}
		return nil
	},
	"all processes": func(string) error {
		return firstFailure(400, func() error {
			_, err := syscall.ForkExec("/bin/sleep", []string{"sleep", "600"}, nil)
			return err
		})
	},
	"memory of a file system": func(string) error {
		f, err := os.CreateTemp("/dev/shm", "large-")
		if err != nil {
			return err
		}
		defer func() { _ = os.Remove(f.Name()); _ = f.Close() }()
		block := make([]byte, 1<<20)
		return firstFailure(300, func() error { _, err := f.Write(block); return err })
	},
	"large file": func(string) error { return os.Truncate(must(os.Create("large")).Name(), 1<<40) },
	"open files": func(string) error {
		return firstFailure(20_000, func() error { _, err := syscall.Open("/dev/null", 0, 0); return err })
	},
}

func must(f *os.File, _ error) *os.File { return f }

func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

func firstSuccess(from, to int, try func(int) error) error {
	err := errors.New("none")
	for i := from; i < to; i++ {
		if err = try(i); err == nil {
			target, _ := os.Readlink("/proc/self/fd/" + strconv.Itoa(i))
			if strings.HasPrefix(target, "anon_inode:") || strings.HasPrefix(target, "/sys/") {
				continue // of the Go runtime of this program
			}
			return nil
		}
	}
	return err
}

func firstFailure(n int, try func() error) error {
	for range n {
		if err := try(); err != nil {
			return err
		}
	}
	return nil
}

func socket(family, kind, protocol int) error {
	fd, err := unix.Socket(family, kind, protocol)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

func get(url string) error {
	res, err := http.Get(url)
	if err != nil {
		return err
	}
	body, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s", res.Status, body)
	}
	return nil
}

func capabilities(string) error {
	var data [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
		return err
	}
	noNewPrivs, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil || noNewPrivs != 1 || data[0].Effective|data[0].Permitted|data[1].Effective|data[1].Permitted != 0 {
		return err
	}
	return errors.New("none")
}
