package session_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/clitoken"
	passwords "github.com/seed93082962/agenthost/hub/internal/password"
	"github.com/seed93082962/agenthost/hub/internal/session"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/internal/token"
	users "github.com/seed93082962/agenthost/hub/internal/user"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/internal/secret"
	"github.com/seed93082962/agenthost/rbac"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

var migrations = []db.Series{users.Migrations, {Name: "auditlog", Files: sqlaudit.Migrations()}}

// server is a replica whose service and logs a test can access.
type server struct {
	*replica
	rooms
	logs    *logtest.Buffer
	handler http.Handler
}

// newCluster returns a cluster without users.
func newCluster(t *testing.T, url string) *cluster {
	return &cluster{t: t, url: url, keys: secret.Generate(), epoch: time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)}
}

// each runs a test on both engines, in parallel with other tests.
func each(t *testing.T, test func(t *testing.T, c *cluster)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) { test(t, newCluster(t, url)) }, migrations...)
}

// eachServer is each with one replica and no user.
func eachServer(t *testing.T, test func(t *testing.T, s *server)) {
	t.Helper()
	each(t, func(t *testing.T, c *cluster) { test(t, c.start(nil)) })
}

// one runs a test on SQLite, in parallel with other tests. It is for rules whose statements a test
// of both engines runs too.
func one(t *testing.T, test func(t *testing.T, c *cluster)) {
	t.Helper()
	t.Parallel()
	test(t, newCluster(t, dbtest.SQLite(t, migrations...)))
}

// oneServer is one with one replica and no user.
func oneServer(t *testing.T, test func(t *testing.T, s *server)) {
	t.Helper()
	one(t, func(t *testing.T, c *cluster) { test(t, c.start(nil)) })
}

// onSQLite returns a replica for a test that does not depend on the engine.
func onSQLite(t *testing.T, change func(*config)) *server {
	t.Helper()
	return newCluster(t, dbtest.SQLite(t, migrations...)).start(change)
}

// start starts a replica with a Config that a test may change.
func (c *cluster) start(change func(*config)) *server {
	t := c.t
	s := &server{logs: &logtest.Buffer{}}
	d := dbtest.Open(t, c.url, migrations...)
	audit, err := sqlaudit.New(sqlaudit.Config{Write: d.Write(), Read: d.Read(), Engine: string(d.Engine()), Now: c.now})
	require.NoError(t, err)
	logger := slog.New(slog.NewJSONHandler(s.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg := config{Store: c.storeOf(d, audit, c.keys, logger), cost: passwords.Cost{Memory: 64, Passes: 1, Threads: 1}}
	if change != nil {
		change(&cfg)
	}
	s.rooms = cfg.open(t)
	s.handler, err = api.New(api.Config{
		Authenticate: s.service.Authenticate, Logger: logger,
		Translate: func(err error) *wire.Error {
			if errors.Is(err, db.ErrUnavailable) {
				return &wire.Error{Code: wire.Unavailable, Cause: err}
			}
			return nil
		},
	}, s.routes()...)
	require.NoError(t, err)
	server := httptest.NewServer(s.handler)
	t.Cleanup(server.Close)
	s.replica = &replica{store: cfg.Store, cluster: c, db: d, audit: audit, base: server.URL, http: server.Client(), setupToken: cmp.Or(cfg.SetupToken, s.accounts.SetupToken())}
	if c.replica == nil {
		c.replica = s.replica
	}
	return s
}

// config configures the packages of sign-in.
type config struct {
	Store      *store.Store
	SetupToken string
	External   bool
	Offline    bool
	Withdraw   func(ctx context.Context, tx *store.Tx, caller api.Caller, tenantID, userID string, role rbac.Role) error

	cost passwords.Cost
}

func fullHashes(c *config) { c.cost = passwords.Cost{} }

// rooms are the packages of sign-in.
type rooms struct {
	keys      *token.Keys
	accounts  *users.Service
	cliTokens *clitoken.Service
	service   *session.Service
}

func (cfg config) open(t testing.TB) (r rooms) {
	t.Helper()
	var err error
	if !cfg.Offline {
		r.keys, err = token.New(t.Context(), cfg.Store)
		require.NoError(t, err)
	}
	hashes := passwords.New(passwords.Config{Store: cfg.Store, Cost: cfg.cost})
	r.accounts, err = users.New(t.Context(), users.Config{
		Store: cfg.Store, Passwords: hashes, Withdraw: cfg.Withdraw, PublicURL: publicURL, SetupToken: cfg.SetupToken, External: cfg.External, Offline: cfg.Offline,
	})
	require.NoError(t, err)
	r.cliTokens = clitoken.New(cfg.Store, r.accounts)
	r.service, err = session.New(session.Config{
		Store: cfg.Store, Users: r.accounts, Passwords: hashes, CLITokens: r.cliTokens, Keys: r.keys, External: cfg.External, Offline: cfg.Offline,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.service.Close()) })
	return r
}

func (r rooms) routes() []api.Route {
	return slices.Concat(r.keys.Routes(), r.accounts.Routes(), r.service.Routes(), r.cliTokens.Routes())
}

// storeOf returns a store with the keys.
func (c *cluster) storeOf(d *db.DB, audit store.Audit, keys string, logger *slog.Logger) *store.Store {
	c.t.Helper()
	keyring, err := secret.Parse(strings.Split(keys, ",")...)
	require.NoError(c.t, err)
	s, err := store.New(store.Config{DB: d, Keyring: keyring, Audit: audit, Now: c.now, Logger: logger})
	require.NoError(c.t, err)
	return s
}

// setup creates the first user, root, and returns the response of the login.
func (r *replica) setup() object {
	return r.post("", "/auth/setup", object{"username": "root", "password": password, "setup_token": r.setupToken}).want(http.StatusCreated)
}

// signIn returns the body of the response to a login of root.
func (r *replica) signIn() object { return r.login("root", password).want(http.StatusOK) }

func (r *replica) refresh(token any) response {
	return r.post("", "/auth/refresh", object{"refresh_token": token})
}

func (o object) text(name string) string { return o[name].(string) }
func (o object) access() string          { return o.text("access_token") }

// send sends a request that differs from those of the other helpers.
func (r *replica) send(method, path, body string, change func(*http.Request)) response {
	t := r.cluster.t
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.base+path, strings.NewReader(body))
	require.NoError(t, err)
	change(req)
	return r.do(req)
}

func (r *replica) do(req *http.Request) response {
	t := r.cluster.t
	t.Helper()
	received, err := r.http.Do(req)
	require.NoError(t, err)
	defer received.Body.Close()
	data, err := io.ReadAll(received.Body)
	require.NoError(t, err)
	res := response{t: t, status: received.StatusCode, header: received.Header, text: string(data)}
	if len(data) > 0 {
		require.NoError(t, json.Unmarshal(data, &res.body), "%s", data)
	}
	return res
}

// count runs a query that returns one number.
func (r *replica) count(query string, args ...any) (n int) {
	r.cluster.t.Helper()
	require.NoError(r.cluster.t, r.db.Read().QueryRowContext(r.cluster.t.Context(), query, args...).Scan(&n))
	return n
}

// exec changes the database directly, without the service.
func (r *replica) exec(query string, args ...any) {
	r.cluster.t.Helper()
	_, err := r.db.Write().ExecContext(r.cluster.t.Context(), query, args...)
	require.NoError(r.cluster.t, err)
}

// atOnce runs n calls concurrently and returns their results.
func atOnce(n int, call func(i int) response) []response {
	responses := make([]response, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { responses[i] = call(i) })
	}
	wg.Wait()
	return responses
}

// statuses counts results by status and code, as "200" or "401 token_revoked".
func statuses(responses []response) map[string]int {
	counts := map[string]int{}
	for _, res := range responses {
		key := http.StatusText(res.status)
		if code, ok := res.body["code"].(string); ok {
			key = code
		}
		counts[key]++
	}
	return counts
}

// entries returns all entries of the log.
func (r *replica) entries() iter.Seq2[auditlog.Entry, error] {
	return r.audit.Entries(r.cluster.t.Context(), api.DefaultTenant, auditlog.Filter{}, nil)
}
