package main_test

import (
	"io"
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/hub/wire"
)

var loginPage = regexp.MustCompile(`(http://\S+)/console/cli/(\d+)/(\S{43})\n`)

// A page of the hub, for which the test acts, signs the program in. Other requests do not.
func TestLoginWithABrowser(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startDev(t, dir, nil)
	defer end(t, p)
	page := setUp(t, p, dir)
	binary, err := built()
	require.NoError(t, err)
	config := t.TempDir()
	spawn := func(args ...string) *daemontest.Process {
		return daemontest.Spawn(t, binary, dir, []string{"AGENTHOST_CONFIG", config, "BROWSER", "sh -c true"}, args...)
	}
	redirect := func(port, query string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+"/"+query, nil)
		require.NoError(t, err)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(text)
	}

	login := spawn("login", p.URL, "--browser", "--name", "one")
	shown := login.Await(t, login.Log, loginPage)
	require.Equal(t, p.URL, shown[1])
	port, challenge := shown[2], shown[3]
	login.Await(t, login.Log, regexp.MustCompile("the code "+regexp.QuoteMeta(challenge[:8])+`\.`))
	code, err := page.Auth.Authorize(t.Context(), challenge)
	require.NoError(t, err)
	for _, query := range []string{"", "?code=" + code.Code, "?code=" + code.Code + "&state=other", "other?code=" + code.Code + "&state=" + challenge} {
		status, _ := redirect(port, query)
		require.Equal(t, http.StatusNotFound, status)
	}
	_, err = page.Auth.Redeem(t.Context(), code.Code, "another verifier")
	require.ErrorIs(t, err, wire.Unauthenticated)
	status, text := redirect(port, "?code="+code.Code+"&state="+challenge)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, "Signed in")
	require.Zero(t, login.Exit(t), login.Log.String())
	require.Contains(t, login.Stdout.String(), "as ada (admin)")
	whoami := spawn("whoami", "-q")
	require.Zero(t, whoami.Exit(t))
	require.Equal(t, "ada\n", whoami.Stdout.String())

	// A code of another sign-in does not end this one. A cancel does.
	login = spawn("login", p.URL, "--browser", "--name", "two")
	shown = login.Await(t, login.Log, loginPage)
	for range 2 {
		status, text = redirect(shown[2], "?code=unknown&state="+shown[3])
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, text, "Not signed in")
	}
	status, text = redirect(shown[2], "?error=access_denied&state="+shown[3])
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, "Not signed in")
	require.Equal(t, 3, login.Exit(t))
	require.Contains(t, login.Log.String(), "cancelled in the browser")
}
