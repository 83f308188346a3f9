package sandbox_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed93082962/agenthost/internal/sandbox"
)

func init() {
	attacks["internet socket"] = anySocket
	attacks["datagram of a pair"] = func(path string) error {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		return unix.Sendto(pair[0], []byte("attack"), 0, &unix.SockaddrUnix{Name: path})
	}
	attacks["fast open"] = func(address string) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		return unix.Sendto(fd, []byte("attack"), unix.MSG_FASTOPEN, inet(address))
	}
	attacks["fast open of a bound socket"] = func(address string) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT, 1)
		_ = unix.Bind(fd, &unix.SockaddrInet4{})
		if err := unix.Connect(fd, inet(address)); err != nil {
			return err
		}
		_, err = unix.Write(fd, []byte("attack"))
		return err
	}
	attacks["multipath TCP"] = func(address string) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)
		if err != nil {
			return err
		}
		return unix.Connect(fd, inet(address))
	}
	attacks["setuid mode"] = func(arg string) error {
		mode, name, _ := strings.Cut(arg, " ")
		return setuidCalls[name](uint32(number(mode)))
	}
	attacks["listen"] = func(string) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		return unix.Listen(fd, 1)
	}
}

func inet(address string) unix.Sockaddr {
	a := netip.MustParseAddrPort(address)
	return &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
}

// anySocket returns nil if a socket of a family other than AF_UNIX can be created.
func anySocket(string) error {
	for family := range 64 {
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_RAW, unix.SOCK_RDM, unix.SOCK_SEQPACKET, unix.SOCK_DCCP, unix.SOCK_PACKET} {
			for _, protocol := range []int{0, 1, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_SCTP, unix.IPPROTO_MPTCP, 256} {
				if fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol); err == nil && !isUnix(fd) {
					return nil
				}
				pair, err := unix.Socketpair(family, kind|unix.SOCK_CLOEXEC, protocol)
				if err == nil && (!isUnix(pair[0]) || !isUnix(pair[1])) {
					return nil
				}
			}
		}
	}
	return errors.New("there are Unix sockets only")
}

// isUnix reports whether a socket is of AF_UNIX, and closes it.
func isUnix(fd int) bool {
	defer func() { _ = unix.Close(fd) }()
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	return err == nil && domain == unix.AF_UNIX
}

// Where a command shares the network of the system, it has no internet socket, with which it could
// reach an address in a way that no rule restricts.
func TestNoInternetSockets(t *testing.T) {
	local, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = local.Close() })
	log := filepath.Join(t.TempDir(), "log")
	datagrams, err := net.ListenPacket("unixgram", log)
	require.NoError(t, err)
	t.Cleanup(func() { _ = datagrams.Close() })
	attacker := program(t)
	// Another service of the machine has the port of the proxy.
	list := []attack{
		{"internet socket", ""}, {"datagram of a pair", log}, {"multipath TCP", local.Addr().String()}, {"listen", ""},
		{"fast open", local.Addr().String()}, {"fast open", "10.0.0.1:3128"}, {"fast open of a bound socket", local.Addr().String()},
		{"connect", "127.0.0.2:3128"}, {"connect", "[::1]:3128"}, {"connect", "10.0.0.1:3128"}, {"own server", ""}, {"socket file", log},
	}
	for _, abi := range []int{-1, 1, 3, 4} { // of Landlock; it had no rules for the network before 4
		for _, network := range []sandbox.Network{sandbox.NetworkProxy, sandbox.NetworkNone} {
			t.Run(fmt.Sprint(network, abi), func(t *testing.T) {
				sandbox.SimulateKernel(t, abi)
				s := open(t, func(p *sandbox.Policy) { p.Read, p.Network = []string{attacker}, network })
				support := s.Support()
				require.Equal(t, []bool{true, true, false}, []bool{support.Files, support.Network, support.Isolated})
				requireDenied(t, s, attacker, list)
			})
		}
	}
}

// Programs use the proxy without an internet socket.
func TestProxiedPrograms(t *testing.T) {
	sandbox.AllowAddresses(t, netip.Addr.IsLoopback)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, "served ", r.URL.Path) }))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	attacker := program(t)
	url := "http://localhost:" + port
	for kernel, simulate := range kernels {
		simulate(t)
		s := open(t, func(p *sandbox.Policy) { p.Read, p.Domains = []string{attacker}, []string{"localhost:" + port} })
		for name, script := range map[string]string{
			"curl":     "curl -sS " + url + "/a",
			"parallel": "for i in {1..40}; do curl -sSm 20 " + url + "/$i & done; wait",
			"python":   `python3 -c 'import urllib.request; print(urllib.request.urlopen("` + url + `/p").read().decode())'`,
			"options": `python3 -c 'import http.client, socket; c = http.client.HTTPConnection("127.0.0.1", 3128); c.connect()
c.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1); c.request("GET", "` + url + `/o"); print(c.getresponse().read().decode())'`,
			"node": `node -e 'require("http").get({host: "127.0.0.1", port: 3128, path: "` + url + `/n"}, r => r.pipe(process.stdout))'`,
			"bash": `exec 3<>/dev/tcp/127.0.0.1/3128; printf 'GET ` + url + `/b HTTP/1.0\r\n\r\n' >&3; cat <&3`,
		} {
			t.Run(kernel+"/"+name, func(t *testing.T) {
				output, err := bash(t, s, "export NO_PROXY= no_proxy=; "+script)
				require.NoError(t, err, output)
				require.Contains(t, output, "served /")
			})
		}
	}
}

// A set-user-id file of a command would run as this user for other accounts.
func TestSetuidModes(t *testing.T) {
	for kernel, simulate := range kernels {
		t.Run(kernel, func(t *testing.T) {
			simulate(t)
			attacker := program(t)
			dir := t.TempDir()
			s := open(t, func(p *sandbox.Policy) { p.Dir, p.Read = dir, []string{attacker} })
			require.NoError(t, os.WriteFile(filepath.Join(dir, "existing"), nil, 0o600))
			var list []attack
			for name := range setuidCalls {
				for _, mode := range []int{0o4755, 0o2755, 0o6711, 0o4000} {
					list = append(list, attack{"setuid mode", strconv.Itoa(mode) + " " + name})
				}
			}
			requireDenied(t, s, attacker, list)
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			for _, e := range entries {
				info, err := e.Info()
				require.NoError(t, err)
				require.Zero(t, info.Mode()&(os.ModeSetuid|os.ModeSetgid), e.Name())
			}
			output, err := bash(t, s, "umask 0; touch f && chmod 755 f && chmod +t . && mkdir -m 1777 d && cp -p f g && install -m 700 f h && python3 -c 'import os; os.open(\"f\", os.O_RDONLY, 0o4755)' && stat -c %a f d h")
			require.NoError(t, err, output)
			require.Equal(t, "755\n1777\n700\n", output)
		})
	}
}

// setuidCalls create or change a file with a mode.
var setuidCalls = map[string]func(mode uint32) error{
	"chmod":    func(mode uint32) error { return unix.Chmod("existing", mode) },
	"fchmodat": func(mode uint32) error { return unix.Fchmodat(unix.AT_FDCWD, "existing", mode, 0) },
	"fchmodat2": func(mode uint32) error {
		return unix.Fchmodat(unix.AT_FDCWD, "existing", mode, unix.AT_SYMLINK_NOFOLLOW)
	},
	"fchmod": func(mode uint32) error {
		fd, err := unix.Open("existing", unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		return unix.Fchmod(fd, mode)
	},
	"open": func(mode uint32) error {
		_, err := unix.Open("o"+strconv.Itoa(int(mode)), unix.O_CREAT|unix.O_WRONLY, mode)
		return err
	},
	"temporary": func(mode uint32) error { _, err := unix.Open(".", unix.O_TMPFILE|unix.O_WRONLY, mode); return err },
	"openat2": func(mode uint32) error {
		_, err := unix.Openat2(unix.AT_FDCWD, "p"+strconv.Itoa(int(mode)), &unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY, Mode: uint64(mode)})
		return err
	},
	"mknod": func(mode uint32) error { return unix.Mknod("m"+strconv.Itoa(int(mode)), unix.S_IFREG|mode, 0) },
	"mknodat": func(mode uint32) error {
		return unix.Mknodat(unix.AT_FDCWD, "n"+strconv.Itoa(int(mode)), unix.S_IFREG|mode, 0)
	},
	"with other bits": func(mode uint32) error {
		path, err := unix.BytePtrFromString("existing")
		if err == nil {
			err = chmodWide(path, uintptr(mode))
		}
		return err
	},
}

// chmodWide calls chmod with a mode whose upper half, which the kernel ignores, is not zero.
func chmodWide(path *byte, mode uintptr) error {
	_, _, errno := unix.Syscall(unix.SYS_FCHMODAT, ^uintptr(99), uintptr(unsafe.Pointer(path)), 1<<40|mode) // AT_FDCWD
	if errno != 0 {
		return errno
	}
	return nil
}
