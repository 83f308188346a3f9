package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/secret"
)

// database returns an environment in which the hub uses the database at url.
func database(t testing.TB, url string) []string {
	t.Helper()
	return []string{"HUB_DATA_DIR", t.TempDir(), "DATABASE_URL", url, "PROVIDER_ENCRYPTION_KEY", secret.Generate()}
}

func TestFirstStartToShutdown(t *testing.T) {
	t.Parallel()
	hub := binary(t)
	dbtest.Each(t, func(t *testing.T, url string) {
		env := database(t, url)
		p := spawn(t, hub, env)
		token := setUp(t, p.Instance)
		require.Equal(t, http.StatusOK, call(t, "GET", p.URL+"/health", "", "").status)
		require.Equal(t, "ready", call(t, "GET", p.URL+"/health/ready", "", "").string(t, "status"))
		issued := call(t, "POST", p.URL+"/api/v1/cli/issue-token", token, `{"name":"ci"}`)
		require.Equal(t, http.StatusCreated, issued.status, issued.text)
		cli := issued.string(t, "token")

		p.Signal(t, syscall.SIGTERM)
		require.Zero(t, p.Exit(t), "%s", p.Log)
		require.Contains(t, p.Log.String(), `"message":"stopped"`)

		p = spawn(t, hub, env)
		require.NotContains(t, p.Stdout.String(), "setup_token", "it is set up")
		for name, bearer := range map[string]string{"access token": token, "CLI token": cli} {
			require.Equal(t, "admin", call(t, "GET", p.URL+"/auth/userinfo", bearer, "").string(t, "username"), name)
		}
		all := call(t, "GET", p.URL+"/api/v1/admin/audit-logs", cli, "")
		require.EqualValues(t, 2, all.body["total"], all.text)
	})
}

// Acknowledged changes are stored after the process was killed during further writes.
func TestAcknowledgedChangesSurviveKill(t *testing.T) {
	t.Parallel()
	hub := binary(t)
	dbtest.Each(t, func(t *testing.T, url string) {
		env := database(t, url)
		p := spawn(t, hub, env)
		token := setUp(t, p.Instance)
		var (
			writers sync.WaitGroup
			mu      sync.Mutex // guards names
			names   = map[string]bool{}
			enough  = make(chan struct{})
		)
		for w := range 4 {
			writers.Go(func() {
				transport := &http.Transport{}
				defer transport.CloseIdleConnections()
				for i := 0; ; i++ {
					name := fmt.Sprintf("token-%d-%d", w, i)
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL+"/api/v1/cli/issue-token", strings.NewReader(`{"name":"`+name+`"}`))
					if err != nil {
						return
					}
					req.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}}
					res, err := transport.RoundTrip(req)
					if err != nil {
						return // it was killed
					}
					_ = res.Body.Close()
					if res.StatusCode != http.StatusCreated {
						continue
					}
					mu.Lock()
					names[name] = true
					if len(names) == 40 {
						close(enough)
					}
					mu.Unlock()
				}
			})
		}
		<-enough
		p.Signal(t, syscall.SIGKILL)
		writers.Wait()
		require.Equal(t, -1, p.Exit(t))

		p = spawn(t, hub, env)
		log := call(t, "GET", p.URL+"/api/v1/admin/audit-logs/export?action=token.issue", token, "")
		require.Equal(t, http.StatusOK, log.status, log.text)
		recorded := map[string]bool{}
		for line := range strings.Lines(log.text) {
			var entry struct{ TargetName string }
			require.NoError(t, json.Unmarshal([]byte(line), &entry))
			recorded[entry.TargetName] = true
		}
		tokens := call(t, "GET", p.URL+"/api/v1/cli/tokens?page_size=1", token, "")
		require.EqualValues(t, len(recorded), tokens.body["total"], "tokens and their entries stand or fall together")
		for name := range names {
			require.True(t, recorded[name], "%s was acknowledged", name)
		}
		require.Equal(t, true, call(t, "GET", p.URL+"/api/v1/admin/audit-logs/verify", token, "").body["ok"])
	})
}

func TestResetPassword(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		env := database(t, url)
		in := serving(t, env)
		setUp(t, in)
		out, err := once(t, env, "reset-password", "Admin") // while the hub runs
		require.NoError(t, err)
		fresh := strings.TrimSuffix(out, "\n")
		require.NotContains(t, fresh, "\n", "the password stands alone")
		login := func(password string) int {
			return call(t, "POST", in.URL+"/auth/login", "", fmt.Sprintf(`{"username":"admin","password":%q}`, password)).status
		}
		require.Equal(t, http.StatusOK, login(fresh))
		require.Equal(t, http.StatusUnauthorized, login(password))

		_, err = once(t, env, "reset-password", "nobody")
		require.ErrorContains(t, err, "nobody")
		_, err = once(t, env, "reset-password")
		require.EqualError(t, err, "name one user: hub reset-password USER")
	})
}

func TestAdminCommands(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		env := database(t, url)
		in := serving(t, env)
		setUp(t, in)
		out, err := once(t, env, "admin-token", "Admin") // while the hub runs
		require.NoError(t, err)
		token := strings.TrimSuffix(out, "\n")
		require.Regexp(t, "^cli_[0-9a-f]{64}$", token, "the token stands alone")
		require.Equal(t, "admin", call(t, "GET", in.URL+"/auth/userinfo", token, "").string(t, "role"))
		out, err = once(t, env, "restore-admin", "admin")
		require.NoError(t, err)
		require.Equal(t, "the user is an admin\n", out)
		for _, command := range []string{"admin-token", "restore-admin"} {
			_, err = once(t, env, command, "nobody")
			require.ErrorContains(t, err, `"nobody" of default`)
			_, err = once(t, env, command)
			require.EqualError(t, err, "name one user: hub "+command+" USER")
		}
		out, err = once(t, env, "audit")
		require.NoError(t, err)
		require.Contains(t, out, `"offline":true`)
		require.NotContains(t, out, token)
	})
}

func TestRetireKey(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		env := database(t, url)
		in := serving(t, env)
		setUp(t, in)
		login := call(t, "POST", in.URL+"/auth/login", "", fmt.Sprintf(`{"username":"admin","password":%q}`, password))
		userinfo := func(token string) int { return call(t, "GET", in.URL+"/auth/userinfo", token, "").status }
		require.Equal(t, http.StatusOK, userinfo(login.string(t, "access_token")))
		out, err := once(t, env, "retire-key") // while the hub runs
		require.NoError(t, err)
		require.Equal(t, "the token signing key was replaced\n", out)
		require.Eventually(t, func() bool { return userinfo(login.string(t, "access_token")) == http.StatusUnauthorized }, daemontest.Patience, 10*time.Millisecond)
		next := call(t, "POST", in.URL+"/auth/refresh", "", fmt.Sprintf(`{"refresh_token":%q}`, login.string(t, "refresh_token")))
		require.Equal(t, http.StatusOK, userinfo(next.string(t, "access_token")))
	})
}

// The log has the commands of the operator that read or replace every secret.
func TestCommandsAreRecorded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		env := database(t, url)
		in := serving(t, env)
		setUp(t, in)
		_, err := once(t, env, "retire-key") // while the hub runs
		require.NoError(t, err)
		_, err = once(t, env, "rekey")
		require.NoError(t, err)
		_, err = once(t, env, "backup", filepath.Join(t.TempDir(), "hub.backup"))
		require.NoError(t, err)
		login := call(t, "POST", in.URL+"/auth/login", "", fmt.Sprintf(`{"username":"admin","password":%q}`, password))
		for action, detail := range map[string]string{
			"auth.retire_key": `^\{"retired":\["[0-9a-f-]{36}"\]\}$`, "auth.rekey": `^\{"secrets":0\}$`, "auth.backup": `^\{"databaseSha256":"[0-9a-f]{64}","artifacts":0\}$`,
		} {
			list := call(t, "GET", in.URL+"/api/v1/admin/audit-logs?action="+action, login.string(t, "access_token"), "")
			var page struct {
				Items []auditlog.Entry `json:"items"`
			}
			require.NoError(t, json.Unmarshal([]byte(list.text), &page), list.text)
			require.Len(t, page.Items, 1, action)
			require.Equal(t, []string{"", "operator at the command line", "success"}, []string{page.Items[0].UserID, page.Items[0].UserName, string(page.Items[0].Status)})
			require.Regexp(t, detail, string(page.Items[0].Detail))
		}
	})
}

func TestAuditWritesNDJSON(t *testing.T) {
	t.Parallel()
	env := []string{"HUB_DATA_DIR", t.TempDir()}
	in := serving(t, env)
	token := setUp(t, in)
	out, err := once(t, env, "audit")
	require.NoError(t, err)
	require.Equal(t, call(t, "GET", in.URL+"/api/v1/admin/audit-logs/export", token, "").text, out)
	require.Contains(t, out, `"action":"auth.setup"`)
	out, err = once(t, env, "audit", "--tenant", "system")
	require.NoError(t, err)
	require.Empty(t, out)
}

// A request that is in progress when the signal arrives is completed, and the hub is not ready
// during that time.
func TestDrain(t *testing.T) {
	t.Parallel()
	p := spawn(t, binary(t), []string{"HUB_DATA_DIR", t.TempDir()})
	begun := make(chan struct{})
	trace := &httptrace.ClientTrace{Got100Continue: func() { close(begun) }} // the handler wants the body
	body, send := io.Pipe()
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodPost, p.URL+"/auth/login", body)
	require.NoError(t, err)
	req.Header = http.Header{"Content-Type": {"application/json"}, "Expect": {"100-continue"}}
	answered := make(chan response, 1)
	go func() { answered <- do(t, req) }()
	<-begun
	p.Signal(t, syscall.SIGTERM)
	require.Eventually(t, func() bool {
		res := call(t, "GET", p.URL+"/health/ready", "", "")
		return res.status == http.StatusServiceUnavailable && res.string(t, "status") == "draining"
	}, daemontest.Patience, 20*time.Millisecond)
	_, err = io.WriteString(send, `{"username":"admin","password":"whatever it is"}`)
	require.NoError(t, err)
	require.NoError(t, send.Close())
	require.Equal(t, http.StatusUnauthorized, (<-answered).status)
	require.Zero(t, p.Exit(t))
}
