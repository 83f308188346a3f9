package hub_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/secret"
	"github.com/seed93082962/agenthost/runtime/tool/js"
	"github.com/seed93082962/agenthost/runtime/tool/js/worker"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == js.WorkerArg { // this program checks tools
		_ = worker.Run(os.Stdin, os.Stdout) // the check reports the error
		return
	}
	if err := dbtest.Parallel(2); err != nil { // most of a test is waiting
		panic(err)
	}
	dbtest.Main(m)
}

// checked has the names of the tools that were checked, each in a process of its own.
var checked sync.Map

// checkTool checks a tool once, with time for a busy machine.
func checkTool(ctx context.Context, fileName, source string) (string, error) {
	if name, ok := checked.Load(source); ok {
		return name.(string), nil
	}
	name, err := js.Config{LoadTime: 2 * time.Minute}.NameOf(ctx, fileName, source)
	if err == nil {
		checked.Store(source, name)
	}
	return name, err
}

const (
	firstPassword = "a first password of some length" // that an admin set
	password      = "correct horse battery"
	setupToken    = "a setup token of some length"
)

// server is a hub that serves over HTTP.
type server struct {
	*hub.Hub
	t      *testing.T
	url    string
	client *http.Client
	log    *bytes.Buffer
	server *httptest.Server
}

// open serves a hub on the database until the test ends.
func open(t *testing.T, database string, change ...func(*hub.Config)) *server {
	t.Helper()
	s := &server{t: t, log: &bytes.Buffer{}}
	server := httptest.NewUnstartedServer(nil)
	cfg := hub.Config{
		DatabaseURL: database, EncryptionKeys: []string{secret.Generate()}, SetupToken: setupToken, Version: "1.2.3",
		CheckTool: checkTool,
		PublicURL: "http://" + server.Listener.Addr().String(),
		Logger:    slog.New(slog.NewJSONHandler(s.log, nil)), // read when the server is closed
	}
	hub.CheapPasswords(&cfg)
	for _, f := range change {
		f(&cfg)
	}
	var err error
	s.Hub, err = hub.New(t.Context(), cfg)
	require.NoError(t, err)
	server.Config.Handler = s
	server.Start()
	s.url, s.client, s.server = server.URL, server.Client(), server
	t.Cleanup(func() { s.close() })
	return s
}

// close stops the hub and its server, and returns what was logged.
func (s *server) close() string {
	s.t.Helper()
	s.server.Close()
	require.NoError(s.t, s.Close())
	return s.log.String()
}

// sqlite and postgres return the URL of a database with the migrations of the hub. The statements
// of the hub are the same on both engines, and the packages of its concerns run them on both.
func sqlite(t *testing.T) string   { return dbtest.SQLite(t, hub.Migrations()...) }
func postgres(t *testing.T) string { return dbtest.PostgreSQL(t, hub.Migrations()...) }

// started returns a hub that is set up, with the token of its first admin.
func started(t *testing.T) (s *server, admin string) {
	t.Helper()
	t.Parallel()
	s = open(t, sqlite(t))
	return s, s.setUp()
}

func (s *server) setUp() string {
	s.t.Helper()
	return s.call("POST", "/auth/setup", "", `{"password":"`+password+`","setup_token":"`+setupToken+`"}`).want(http.StatusCreated)["access_token"].(string)
}

// join makes a user of that role, signs it in and changes the password that the admin set.
func (s *server) join(admin, role, name string) string {
	s.t.Helper()
	s.call("POST", "/api/v1/admin/users", admin, `{"username":"`+name+`","password":"`+firstPassword+`","role":"`+role+`"}`).want(http.StatusCreated)
	access := s.call("POST", "/auth/login", "", `{"username":"`+name+`","password":"`+firstPassword+`"}`).want(http.StatusOK)["access_token"].(string)
	s.call("POST", "/auth/change-password", access, `{"old_password":"`+firstPassword+`","new_password":"`+password+`"}`).want(http.StatusNoContent)
	return access
}

// response is an HTTP response with its body.
type response struct {
	t      *testing.T
	status int
	header http.Header
	text   string
}

// call sends a request, with a bearer token and a JSON body unless these are empty.
func (s *server) call(method, path, token, body string) response {
	s.t.Helper()
	res, err := s.try(s.t.Context(), method, path, token, body)
	require.NoError(s.t, err)
	return res
}

func (s *server) try(ctx context.Context, method, path, token, body string) (response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return response{}, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := s.client.Do(req)
	if err != nil {
		return response{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return response{t: s.t, status: res.StatusCode, header: res.Header, text: string(text)}, err
}

// want checks the status, and returns the body.
func (res response) want(status int) (body map[string]any) {
	res.t.Helper()
	require.Equal(res.t, status, res.status, "%s", res.text)
	if res.text != "" {
		require.NoError(res.t, json.Unmarshal([]byte(res.text), &body), "%s", res.text)
	}
	return body
}

// wantError checks the status and the code of an error, and returns its message.
func (res response) wantError(status int, code string) string {
	res.t.Helper()
	body := res.want(status)
	require.Equal(res.t, code, body["code"], "%s", res.text)
	require.NotEmpty(res.t, body["message"], "%s", res.text)
	require.Equal(res.t, res.header.Get("X-Request-Id"), body["requestId"])
	return body["message"].(string)
}
