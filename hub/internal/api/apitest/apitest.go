// Package apitest serves the routes of a concern over HTTP for its tests, with callers of any
// tenant and role, and a real audit log on the concern's database.
//
//	s := apitest.Serve(t, apitest.Config{Audit: audit}, service.Routes())
//	ada := s.As("acme", "ada", rbac.Maintainer)
//	agent := ada.Post("/api/v1/admin/agents", apitest.Object{"name": "a"}).Want(http.StatusCreated)
//	ada.Get("/api/v1/admin/agents/b").Error(http.StatusNotFound, wire.NotFound)
//	require.Equal(t, []string{`agent.create a {...}`}, s.Audit("acme"))
package apitest

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/internal/secret"
	"github.com/seed93082962/agenthost/rbac"
)

// Object is a JSON object.
type Object = map[string]any

// Audit returns the migrations of the audit log, which a concern's database needs.
func Audit() db.Series { return db.Series{Name: "audit", Files: sqlaudit.Migrations()} }

// NewAudit returns the audit log of a database.
func NewAudit(t testing.TB, d *db.DB) *sqlaudit.Store {
	t.Helper()
	store, err := sqlaudit.New(sqlaudit.Config{Write: d.Write(), Read: d.Read(), Engine: string(d.Engine())})
	require.NoError(t, err)
	return store
}

// NewStore returns the store of a database, with an audit log and a key of its own unless cfg has
// them.
func NewStore(t testing.TB, d *db.DB, cfg store.Config) *store.Store {
	t.Helper()
	cfg.DB = d
	if cfg.Audit == nil {
		cfg.Audit = NewAudit(t, d)
	}

	if cfg.Keyring == nil {
		cfg.Keyring = Keyring(t, secret.Generate())
	}

	s, err := store.New(cfg)
	require.NoError(t, err)
	return s
}

// Join makes the hub of a store a member until the test ends. Hubs that have joined before remain,
// also those on SQLite, as if they had joined again.
func Join(t testing.TB, s *store.Store) {
	t.Helper()
	former, err := db.Values[string](t.Context(), s.Read(), "read hubs", `SELECT id FROM hubs`)
	require.NoError(t, err)
	require.NoError(t, s.Join(t.Context()))
	t.Cleanup(s.Leave)
	for _, id := range former {
		require.NoError(t, db.Exec(t.Context(), s.DB.Write(), "insert hub", `INSERT INTO hubs (id, beat) VALUES ($1, -1) ON CONFLICT DO NOTHING`, id))
	}
}

// Keyring returns the keyring of the keys.
func Keyring(t testing.TB, keys ...string) *secret.Keyring {
	t.Helper()
	ring, err := secret.Parse(keys...)
	require.NoError(t, err)
	return ring
}

// Config configures [Serve].
type Config struct {
	Audit     store.Audit                     // for Server.Audit, which needs an auditlog.Store. Optional.
	Translate func(error) *wire.Error         // of errors of other packages, after that of the database. Optional.
	Wrap      func(http.Handler) http.Handler // Optional.
	UserRate  int                             // as in api.Config
}

// Server serves routes until the test ends.
type Server struct {
	URL    string
	Log    *logtest.Buffer // everything that was logged
	t      testing.TB
	client *http.Client
	audit  store.Audit
}

// Serve starts a server of the routes.
func Serve(t testing.TB, cfg Config, routes []api.Route) *Server {
	t.Helper()
	s := &Server{t: t, Log: &logtest.Buffer{}, audit: cfg.Audit}
	handler, err := api.New(api.Config{
		Logger:       slog.New(slog.NewJSONHandler(s.Log, nil)),
		Authenticate: authenticate,
		UserRate:     cfg.UserRate,
		Translate: func(err error) *wire.Error {
			if db.Unavailable(err) {
				return &wire.Error{Code: wire.Unavailable, RetryAfter: time.Second, Cause: err}
			}

			if cfg.Translate != nil {
				return cfg.Translate(err)
			}

			return nil
		},
	}, routes...)
	require.NoError(t, err)
	if cfg.Wrap != nil {
		handler = cfg.Wrap(handler)
	}

	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	s.URL, s.client = server.URL, server.Client()
	return s
}

// authenticate reads the caller from the token that As makes.
func authenticate(r *http.Request) (api.Caller, error) {
	part := strings.Split(api.Bearer(r), "/")
	if len(part) != 3 {
		return api.Caller{}, wire.Unauthenticated
	}

	return api.Caller{
		TenantID: part[0], OrgID: part[0], UserID: "id-" + part[1], UserName: part[1], RoleNow: rbac.Role(part[2]), Kind: api.Session, SessionID: "session-" + part[1],
		RemoteIP: api.RemoteIP(r), UserAgent: api.UserAgent(r),
	}, nil
}

// Audit returns the audit entries of a tenant, oldest first, each as "action target detail".
func (s *Server) Audit(tenant string) []string {
	s.t.Helper()
	var all []string
	for e, err := range s.audit.(auditlog.Store).Entries(s.t.Context(), tenant, auditlog.Filter{}, nil) {
		require.NoError(s.t, err)
		all = append(all, strings.TrimSpace(e.Action+" "+e.TargetName+" "+string(e.Detail)))
	}

	return all
}

// Client sends requests as one caller.
type Client struct {
	*Server
	Caller api.Caller
	token  string
}

// As returns a client that is that user. Without a role it has no credential.
func (s *Server) As(tenant, user string, role rbac.Role) *Client {
	c := &Client{Server: s, Caller: api.Caller{TenantID: tenant, OrgID: tenant, UserID: "id-" + user, UserName: user, RoleNow: role, Kind: api.Session, SessionID: "session-" + user}}
	if role != "" {
		c.token = tenant + "/" + user + "/" + string(role)
	}

	return c
}

// Get sends a GET request.
func (c *Client) Get(path string) Response { c.t.Helper(); return c.Do(http.MethodGet, path, nil) }

// Post sends a POST request with a JSON body, or without one.
func (c *Client) Post(path string, body any) Response {
	c.t.Helper()
	return c.Do(http.MethodPost, path, body)
}

// Put sends a PUT request. The headers are names and values.
func (c *Client) Put(path string, body any, headers ...string) Response {
	c.t.Helper()
	return c.Do(http.MethodPut, path, body, headers...)
}

// Delete sends a DELETE request.
func (c *Client) Delete(path string) Response {
	c.t.Helper()
	return c.Do(http.MethodDelete, path, nil)
}

// Do sends a request. The body is an io.Reader, or a value that is sent as JSON, or nil. The
// headers are names and values.
func (c *Client) Do(method, path string, body any, headers ...string) Response {
	c.t.Helper()
	res, err := c.client.Do(c.Request(method, path, body, headers...))
	require.NoError(c.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(c.t, err)
	return Response{t: c.t, Status: res.StatusCode, Header: res.Header, Text: string(text)}
}

// Request returns the request that Do sends.
func (c *Client) Request(method, path string, body any, headers ...string) *http.Request {
	c.t.Helper()
	var content io.Reader
	isJSON := false
	switch b := body.(type) {
	case nil:
	case io.Reader:
		content = b
	default:
		text, err := json.Marshal(b)
		require.NoError(c.t, err)
		content, isJSON = bytes.NewReader(text), true
	}

	req, err := http.NewRequestWithContext(c.t.Context(), method, c.URL+path, content)
	require.NoError(c.t, err)
	if isJSON {
		req.Header.Set("Content-Type", "application/json")
	}

	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}

	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}

	return req
}

// Response is a response whose body was read.
type Response struct {
	t      testing.TB
	Status int
	Header http.Header
	Text   string
}

// Want requires the status, and returns the body if it is a JSON object.
func (r Response) Want(status int) Object {
	r.t.Helper()
	require.Equal(r.t, status, r.Status, "%s", r.Text)
	var body Object
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		require.NoError(r.t, json.Unmarshal([]byte(r.Text), &body), "%s", r.Text)
	}

	return body
}

// Items requires status 200 and returns the items of a list.
func (r Response) Items() []Object {
	r.t.Helper()
	body := r.Want(http.StatusOK)
	items, ok := body["items"].([]any)
	require.True(r.t, ok, "%s", r.Text)
	all := make([]Object, len(items))
	for i, item := range items {
		all[i] = item.(Object)
	}

	return all
}

// Error requires an error with that status and code, and returns its body.
func (r Response) Error(status int, code wire.Code) Object {
	r.t.Helper()
	body := r.Want(status)
	require.Equal(r.t, string(code), body["code"], "%s", r.Text)
	require.NotEmpty(r.t, body["message"], "%s", r.Text)
	return body
}
