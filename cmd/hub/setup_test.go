package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	main "github.com/seed93082962/agenthost/cmd/hub"
	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/cmd/internal/hubcmd/drivers"
	"github.com/seed93082962/agenthost/cmd/internal/runtimecmd"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

// scratch is the directory of the built command. It is removed after the tests.
var scratch string

func TestMain(m *testing.M) {
	if runtimecmd.IsChild() { // this program checks tools
		_ = runtimecmd.RunChild(drivers.All().Drivers) // the check reports the error
		return
	}
	// Most of a test is waiting for the processes that it started.
	err := dbtest.Parallel(2)
	if err == nil {
		scratch, err = os.MkdirTemp("", "agenthost-hub-")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	dbtest.Main(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(scratch)
		os.Exit(code)
	}))
}

// built builds the command as it is shipped.
var built = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "hub")
	return path, daemontest.Build(path)
})

// binary returns the path of the command for this test, which identifies its runtimes.
func binary(t testing.TB) string {
	t.Helper()
	file, err := built()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "hub")
	require.NoError(t, os.Link(file, path))
	return path
}

// serving runs the command in this process, on a free port and until the test ends.
func serving(t *testing.T, env []string) *daemontest.Instance {
	t.Helper()
	return daemontest.Serve(t, func(ctx context.Context, in *daemontest.Instance) error {
		return main.Run(ctx, []string{"--addr", "127.0.0.1:0"}, daemontest.Getenv(env), in.Stdout, in.Log)
	})
}

// spawn starts a binary on a free port.
func spawn(t testing.TB, binary string, env []string) *daemontest.Process {
	t.Helper()
	p := daemontest.Spawn(t, binary, filepath.Dir(binary), env, "--addr", "127.0.0.1:0")
	p.Started(t)
	return p
}

// file returns the path of a file of settings.
func file(t testing.TB, settings string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hub.yaml")
	require.NoError(t, os.WriteFile(path, []byte(settings), 0o600))
	return path
}

// once runs the command in this process until it ends by itself.
func once(t *testing.T, env []string, args ...string) (stdout string, err error) {
	t.Helper()
	var out bytes.Buffer
	err = main.Run(t.Context(), args, daemontest.Getenv(env), &out, io.Discard)
	return out.String(), err
}

// response is an HTTP response with its body.
type response struct {
	status int
	header http.Header
	text   string
	body   map[string]any // nil where it is not a JSON object
}

// call sends a request, with a JSON body unless that is empty, and with a bearer token unless that
// is.
func call(t testing.TB, method, url, token, body string) response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return do(t, req)
}

func do(t testing.TB, req *http.Request) response {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: daemontest.Patience}
	res, err := transport.RoundTrip(req)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	received := response{status: res.StatusCode, header: res.Header, text: string(text)}
	_ = json.Unmarshal(text, &received.body) // an export is not one JSON document
	return received
}

func (res response) string(t testing.TB, name string) string {
	t.Helper()
	require.IsType(t, "", res.body[name], "%d %s", res.status, res.text)
	return res.body[name].(string)
}

const password = "correct horse battery"

var printedToken = regexp.MustCompile(`"setup_token": "([^"]+)"`)

// setUp creates the first admin with the token that the hub printed, and returns an access token.
func setUp(t testing.TB, in *daemontest.Instance) string {
	t.Helper()
	token := in.Await(t, in.Stdout, printedToken)[1]
	res := call(t, "POST", in.URL+"/auth/setup", "", `{"password":"`+password+`","setup_token":"`+token+`"}`)
	require.Equal(t, http.StatusCreated, res.status, res.text)
	return res.string(t, "access_token")
}

// bump marks the database in the directory as migrated by a newer version.
func bump(t *testing.T, dir string) {
	t.Helper()
	database := dbtest.Open(t, "sqlite://"+filepath.Join(dir, "hub.db"))
	_, err := database.Write().ExecContext(t.Context(), `INSERT INTO agenthost_migrations (series, version, name, checksum, applied_at)
		SELECT series, version + 1, 'later', 'x', applied_at FROM agenthost_migrations WHERE series = 'identity' ORDER BY version DESC LIMIT 1`)
	require.NoError(t, err)
}
