package main_test

import (
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/internal/usertest"
)

// Programs of other users of the computer, which can read the challenge in the arguments of the
// browser, neither end nor complete a sign-in.
func TestOtherUsersDoNotEndASignIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startDev(t, dir, nil)
	defer end(t, p)
	p.Await(t, p.Stdout, running)
	setup := p.Await(t, p.Stdout, regexp.MustCompile(`#setup=(\w+)\n`))[1]
	page, err := client.New(client.Config{BaseURL: p.URL})
	require.NoError(t, err)
	_, err = page.Auth.Setup(t.Context(), client.SetupRequest{Username: "ada", Password: password, SetupToken: setup})
	require.NoError(t, err)
	binary, err := built()
	require.NoError(t, err)
	login := daemontest.Spawn(t, binary, dir, []string{"AGENTHOST_CONFIG", t.TempDir(), "BROWSER", "sh -c true"}, "login", p.URL, "--browser", "--name", "one")
	shown := login.Await(t, login.Log, loginPage)
	const script = `exec 3<>/dev/tcp/127.0.0.1/$0; printf 'GET /?error=access_denied&state=%s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nConnection: close\r\n\r\n' "$1" "$0" >&3; cat <&3`
	get := func(credential *syscall.Credential) string {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", script, shown[2], shown[3])
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	if os.Getuid() == 0 { // CI is; another user cannot become one
		require.Contains(t, get(&syscall.Credential{Uid: usertest.Unprivileged, Gid: usertest.Unprivileged}), http.StatusText(http.StatusNotFound))
	}
	require.Contains(t, get(nil), "Not signed in")
	require.Equal(t, 3, login.Exit(t))
}
