package sandbox_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/sandbox"
)

// serveSockets accepts connections at socket files in dir, and receives datagrams at the last one.
func serveSockets(t *testing.T, dir string, names ...string) {
	t.Chdir(dir) // an address has at most 108 bytes
	for i, name := range names {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.Chdir(filepath.Dir(name)))
		base := filepath.Base(name)
		if i == len(names)-1 {
			conn, err := net.ListenPacket("unixgram", base)
			require.NoError(t, err)
			t.Cleanup(func() { _ = conn.Close() })
		} else {
			l, err := net.Listen("unix", base)
			require.NoError(t, err)
			t.Cleanup(func() { _ = l.Close() })
		}
		require.NoError(t, os.Chdir(dir))
	}
}

const connectAll = `python3 - "$@" <<'END'
import os, socket, sys
top = os.getcwd()
for name in sys.argv[1:]:
    os.chdir(os.path.dirname(os.path.join(top, name)))
    base = os.path.basename(name)
    for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET:
        try:
            s = socket.socket(socket.AF_UNIX, kind)
            s.connect(base)
            print("CONNECTED", name)
        except OSError: pass
    for attempt in lambda: os.rename(base, "moved"), lambda: os.unlink(base), lambda: os.link(base, "linked"):
        try: attempt()
        except OSError: pass
    try:
        s = socket.socket(socket.AF_UNIX)
        s.connect("linked")
        print("CONNECTED linked", name)
    except OSError: pass
print("tried")
END`

// A command cannot connect to other programs through sockets in the working directory. It has its
// own ones, also at a name that a program has left.
func TestSocketsOfOtherPrograms(t *testing.T) {
	names := []string{"top.sock", "a/b/deep.sock", ".dotted.sock", ".git/daemon.ipc", ".cache/x/y.sock", "sub/.run/z.sock", strings.Repeat("long/", 40) + "socket", "datagram"}
	for kernel, simulate := range kernels {
		for _, network := range []sandbox.Network{sandbox.NetworkProxy, sandbox.NetworkNone} {
			t.Run(kernel+" "+string(network), func(t *testing.T) {
				simulate(t)
				dir := t.TempDir()
				serveSockets(t, dir, names...)
				policy := func(p *sandbox.Policy) { p.Dir, p.Protects, p.Network = dir, dotted, network }
				s := open(t, policy)
				output, err := bash(t, s, "set -- "+strings.Join(names, " ")+"; "+connectAll)
				require.NoError(t, err, output)
				require.Equal(t, "tried\n", output)
				if !s.Support().Isolated { // no socket exists
					return
				}
				named := open(t, func(p *sandbox.Policy) {
					policy(p)
					p.Write = []string{filepath.Join(dir, "top.sock")}
				})
				output, err = bash(t, named, "set -- "+strings.Join(names, " ")+"; "+connectAll)
				require.NoError(t, err, output)
				require.Contains(t, output, "CONNECTED top.sock\n")
				require.NotContains(t, output, "CONNECTED a/")
				for range 2 {
					output, err = bash(t, s, `python3 -c '
import os, socket
if os.path.exists("own.sock"): os.unlink("own.sock")
s = socket.socket(socket.AF_UNIX); s.bind("own.sock"); s.listen()
c = socket.socket(socket.AF_UNIX); c.connect("own.sock"); print("own")'`)
					require.NoError(t, err, output)
					require.Equal(t, "own\n", output)
				}
			})
		}
	}
}
