package main_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/internal/usertest"
)

// closeAtOnce sends a request to end a sign-in as another user, and the end of the connection in
// the same packet: its socket has no user when the request is read.
func closeAtOnce(t *testing.T, port int, challenge string, reset bool) {
	t.Helper()
	var fd int
	var err error
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		runtime.LockOSThread() // the thread ends with this function
		if _, err = unix.SetfsuidRetUid(usertest.Unprivileged); err == nil {
			fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		}
	}()
	<-opened
	require.NoError(t, err)
	require.NoError(t, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_CORK, 1))
	if reset {
		require.NoError(t, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_CORK, 0))
		require.NoError(t, unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}))
	}
	require.NoError(t, unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}))
	_, err = fmt.Fprintf(fdWriter(fd), "GET /?error=access_denied&state=%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n", challenge, port)
	require.NoError(t, err)
	require.NoError(t, unix.Close(fd))
}

type fdWriter int

func (fd fdWriter) Write(p []byte) (int, error) { return unix.Write(int(fd), p) }

// Programs of other users of the computer, which can read the challenge in the arguments of the
// browser, neither end nor complete a sign-in.
func TestOtherUsersDoNotEndASignIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startDev(t, dir, nil)
	defer end(t, p)
	setUp(t, p, dir)
	binary, err := built()
	require.NoError(t, err)
	login := daemontest.Spawn(t, binary, dir, []string{"AGENTHOST_CONFIG", t.TempDir(), "BROWSER", "sh -c true"}, "login", p.URL, "--browser", "--name", "one")
	shown := login.Await(t, login.Log, loginPage)
	const script = `exec 3<>/dev/tcp/127.0.0.1/$0; printf 'GET /?error=access_denied&state=%s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nConnection: close\r\n\r\n' "$1" "$0" >&3; cat <&3`
	get := func(credential *syscall.Credential) (string, error) {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", script, shown[2], shown[3])
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	rejected := func(credential *syscall.Credential) {
		out, err := get(credential)
		require.NoError(t, err, out)
		require.Contains(t, out, http.StatusText(http.StatusNotFound), "the sign-in continues")
	}
	if os.Getuid() == 0 { // CI is; another user cannot become one
		other := &syscall.Credential{Uid: usertest.Unprivileged, Gid: usertest.Unprivileged}
		rejected(other)
		port, err := strconv.Atoi(shown[2])
		require.NoError(t, err)
		for i := range 100 {
			closeAtOnce(t, port, shown[3], i%2 == 1)
		}
		rejected(other)
	}
	_, _ = get(nil) // the program may end before the response is read
	require.Equal(t, 3, login.Exit(t))
	require.Contains(t, login.Log.String(), "cancelled in the browser")
}
