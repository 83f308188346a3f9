package sandbox_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/child"
	"github.com/seed93082962/agenthost/internal/sandbox"
)

func init() {
	attacks["many tunnels"] = func(target string) error {
		var open int
		for range 300 {
			conn, err := net.Dial("tcp", strings.TrimPrefix(os.Getenv("HTTP_PROXY"), "http://"))
			if err != nil {
				continue
			}
			_, _ = fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
			if response, err := io.ReadAll(io.LimitReader(conn, 12)); err == nil && strings.HasSuffix(string(response), "200") {
				open++
			}
		}
		fmt.Println(open)
		_, _ = io.ReadAll(os.Stdin) // until the test has seen the number
		return nil
	}
}

// silent is a server that accepts connections, and neither writes nor closes them. It sends each to
// the channel.
func silent(t *testing.T) (address string, accepted chan net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	accepted = make(chan net.Conn, 1000)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	return strings.Replace(l.Addr().String(), "127.0.0.1", "localhost", 1), accepted
}

// requireEnd waits for the end of a connection.
func requireEnd(t *testing.T, conn net.Conn) {
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(20*time.Second)))
	_, err := io.ReadAll(conn)
	if err != nil {
		require.ErrorContains(t, err, "reset")
	}
	_ = conn.Close()
}

// A tunnel ends with its command, and if nothing is sent through it.
func TestProxyTunnelsEnd(t *testing.T) {
	sandbox.AllowAddresses(t, netip.Addr.IsLoopback)
	for kernel, simulate := range kernels {
		t.Run(kernel, func(t *testing.T) {
			simulate(t)
			address, accepted := silent(t)
			attacker := program(t)
			policy := func(p *sandbox.Policy) { p.Read, p.Domains = []string{attacker}, []string{address} }
			output, err := run(t, open(t, policy), attacker, "attack", "proxy tunnel", address)
			require.NoError(t, err, output)
			requireEnd(t, <-accepted)

			sandbox.SetTunnelIdle(t, 100*time.Millisecond)
			output, err = bash(t, open(t, policy), "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT "+address+" HTTP/1.1\r\nHost: x\r\n\r\n' >&3; cat <&3")
			require.NoError(t, err, output)
			require.Contains(t, output, "200 Connection established")
			requireEnd(t, <-accepted)
		})
	}
}

// One command cannot take all connections of its agent.
func TestProxyTunnelsAreShared(t *testing.T) {
	sandbox.AllowAddresses(t, netip.Addr.IsLoopback)
	for kernel, simulate := range kernels {
		t.Run(kernel, func(t *testing.T) {
			simulate(t)
			address, _ := silent(t)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }))
			t.Cleanup(server.Close)
			attacker := program(t)
			s := open(t, func(p *sandbox.Policy) {
				p.Read, p.Domains = []string{attacker}, []string{address, server.Listener.Addr().String()}
			})
			greedy, stdout := start(t, s, attacker, "attack", "many tunnels", address)
			var number int
			_, err := fmt.Fscan(stdout, &number)
			require.NoError(t, err)
			require.Equal(t, 64, number)
			output, err := bash(t, s, "NO_PROXY= no_proxy= curl -sS "+server.URL)
			require.NoError(t, err, output)
			require.Equal(t, "served", output)
			greedy.Kill()
		})
	}
}

// The domains permit hosts, not the other hosts of their addresses.
func TestProxyTunnelsHaveAName(t *testing.T) {
	sandbox.AllowAddresses(t, netip.Addr.IsLoopback)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "served") }))
	t.Cleanup(server.Close)
	port := strconv.Itoa(server.Listener.Addr().(*net.TCPAddr).Port)
	const denied = "the sandbox denied a connection to "
	s := open(t, func(p *sandbox.Policy) {
		p.Domains = []string{"localhost:" + port, "127.0.0.1:" + port, "*.permitted.example:" + port}
	})
	for name, row := range map[string]struct{ script, want string }{
		"its own name":        {"curl -sSk https://localhost:" + port, "served"},
		"a permitted name":    {"curl -sSk --connect-to ::localhost:" + port + " https://a.permitted.example:" + port, "served"},
		"in capital letters":  {"curl -sSk --connect-to ::localhost:" + port + " https://A.Permitted.EXAMPLE:" + port, "served"},
		"an address":          {"curl -sSk https://127.0.0.1:" + port, "served"},
		"in small records":    {"python3 -c '" + smallRecords + "' localhost " + port + " localhost", "served"},
		"another name":        {"curl -sSk --connect-to ::localhost:" + port + " https://other.example:" + port, denied + "other.example:" + port + ": add other.example:" + port + " to sandbox.domains"},
		"behind an address":   {"curl -sSk --connect-to ::127.0.0.1:" + port + " https://other.example:" + port, denied + "other.example:" + port},
		"no name":             {"python3 -c '" + withoutName + "' localhost " + port, denied + "localhost:" + port + ": it has no server name of TLS, which sandbox.domains needs"},
		"another in records":  {"python3 -c '" + smallRecords + "' localhost " + port + " other.example", denied + "other.example:" + port},
		"a hello without end": {"(printf 'CONNECT localhost:" + port + " HTTP/1.1\r\nHost: x\r\n\r\n'; printf '\\x16\\x03\\x01\\x3f\\xff\\x01\\x00\\xff\\xff'; head -c 60000 /dev/zero) >/dev/tcp/127.0.0.1/3128; sleep 0.5", denied + "localhost:" + port},
		"an encrypted hello":  {"python3 -c '" + encryptedName + "' localhost " + port + " localhost", denied + "localhost:" + port + ": its server name is encrypted, which sandbox.domains cannot permit"},
	} {
		t.Run(name, func(t *testing.T) {
			output, denials, _ := runCommand(t, s, "/bin/bash", "-c", "export NO_PROXY= no_proxy=; "+row.script)
			if row.want == "served" {
				require.Contains(t, output, "served")
				require.Empty(t, denials)
				return
			}
			require.NotContains(t, output, "served")
			require.Len(t, denials, 1, output)
			require.Contains(t, denials[0], row.want)
		})
	}
}

// tunnel connects to a host and a port through the proxy. hello is the first message of a TLS
// client with a name.
const tunnel = `
import socket, ssl, sys
def connect():
  s = socket.create_connection(("127.0.0.1", 3128))
  s.sendall(("CONNECT %s:%s HTTP/1.1\r\nHost: x\r\n\r\n" % (sys.argv[1], sys.argv[2])).encode())
  s.recv(1000)
  return s
c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
i, o = ssl.MemoryBIO(), ssl.MemoryBIO()
def hello(name):
  global t
  t = c.wrap_bio(i, o, server_hostname=name)
  try: t.do_handshake()
  except ssl.SSLWantReadError: pass
  return o.read()
def receive(s): return s.recv(100000) or sys.exit("closed")
def finish(s):
  while True:
    i.write(receive(s))
    try: t.do_handshake(); break
    except ssl.SSLWantReadError: pass
  s.sendall(o.read())
  t.write(b"GET / HTTP/1.0\r\n\r\n"); s.sendall(o.read())
  while True:
    i.write(receive(s))
    try: print(t.read(10000).decode()); break
    except ssl.SSLWantReadError: pass
`

// Programs that send a hello in records of 7 bytes, without a name, and with an extension that
// encrypts it.
const (
	smallRecords = tunnel + `
h = hello(sys.argv[3])
body = h[5:]
s = connect()
for k in range(0, len(body), 7):
  part = body[k:k+7]
  s.sendall(bytes(h[:3]) + len(part).to_bytes(2, "big") + bytes(part))
finish(s)
`
	withoutName   = tunnel + "s = connect(); s.sendall(hello(None)); finish(s)"
	encryptedName = tunnel + `
h = bytearray(hello(sys.argv[3]))
body = h[5:]
ext = bytes([0xfe, 0x0d, 0, 12]) + bytes([0, 0, 1, 0, 1, 7, 0, 1, 9, 0, 1, 5])
p = 4 + 2 + 32; p += 1 + body[p]; p += 2 + int.from_bytes(body[p:p+2], "big"); p += 1 + body[p]
n = int.from_bytes(body[p:p+2], "big") + len(ext)
body[p:p+2] = n.to_bytes(2, "big"); body += ext
n = int.from_bytes(body[1:4], "big") + len(ext); body[1:4] = n.to_bytes(3, "big")
s = connect(); s.sendall(bytes(h[:3]) + len(body).to_bytes(2, "big") + bytes(body)); finish(s)
`
)

// Port 443 is for TLS only, if there are domains. A port of an entry can have any protocol.
func TestProxyTunnelsOfOtherProtocols(t *testing.T) {
	sandbox.AllowAddresses(t, netip.Addr.IsLoopback)
	address, accepted := silent(t)
	addresses := []string{address}
	if os.Getuid() == 0 {
		l, err := net.Listen("tcp", "127.0.0.1:443")
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		addresses = append(addresses, "localhost:443")
	}
	s := open(t, func(p *sandbox.Policy) { p.Domains = append([]string{"localhost"}, address) })
	for _, target := range addresses {
		_, denials, err := runCommand(t, s, "/bin/bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT "+target+" HTTP/1.1\r\nHost: x\r\n\r\nSSH-2.0-x\r\n' >&3; sleep 0.3")
		require.NoError(t, err)
		if target == address {
			require.Empty(t, denials)
			conn := <-accepted
			content, _ := io.ReadAll(conn)
			require.Equal(t, "SSH-2.0-x\r\n", string(content))
			continue
		}
		require.Equal(t, []string{"the sandbox denied a connection to localhost:443: sandbox.domains permits TLS only, and it does not begin with a message of a TLS client"}, denials)
	}
}

// start starts a command in s, with a pipe as stdin that is open until the end of the test.
func start(t *testing.T, s *sandbox.Enforcer, args ...string) (*child.Process, io.Reader) {
	stdin, stdout, err := pipes(t)
	require.NoError(t, err)
	cmd := &exec.Cmd{Path: args[0], Args: args, Env: []string{}, Stdin: stdin[0], Stdout: stdout[1]}
	c, err := s.Confine(cmd)
	require.NoError(t, err)
	p, err := child.Start(cmd)
	c.Started()
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return p, stdout[0]
}

// pipes returns two pipes, each with the end for reading first.
func pipes(t *testing.T) (stdin, stdout [2]*os.File, err error) {
	for _, p := range []*[2]*os.File{&stdin, &stdout} {
		if p[0], p[1], err = os.Pipe(); err != nil {
			return stdin, stdout, err
		}
		t.Cleanup(func() { _ = p[0].Close(); _ = p[1].Close() })
	}
	return stdin, stdout, nil
}
