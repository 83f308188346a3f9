package identity_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/db/dbtest"
	"github.com/seed93082962/agenthost/hub/identity"
	"github.com/seed93082962/agenthost/hub/secret"
	"github.com/seed93082962/agenthost/internal/logtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// launched is a replica whose service and logs a test can access.
type launched struct {
	*replica
	service *identity.Service
	logs    *logtest.Buffer
	handler http.Handler
}

// newOffice returns an office without users.
func newOffice(t *testing.T, url string) *office {
	return &office{t: t, url: url, keys: secret.Generate(), start: time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)}
}

// each runs a test on both engines, in parallel with other tests.
func each(t *testing.T, test func(t *testing.T, o *office)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) { test(t, newOffice(t, url)) })
}

// eachLaunch is each with one replica and no user.
func eachLaunch(t *testing.T, test func(t *testing.T, l *launched)) {
	t.Helper()
	each(t, func(t *testing.T, o *office) { test(t, o.launch(nil)) })
}

// onSQLite runs a test that does not depend on the engine.
func onSQLite(t *testing.T, change func(*identity.Config)) *launched {
	t.Helper()
	return newOffice(t, dbtest.SQLite(t)).launch(change)
}

// launch starts a replica with a Config that a test may change.
func (o *office) launch(change func(*identity.Config)) *launched {
	t := o.t
	l := &launched{logs: &logtest.Buffer{}}
	d := dbtest.Open(t, o.url, identity.Migrations, db.Series{Name: "auditlog", Files: sqlaudit.Migrations()})
	audit, err := sqlaudit.New(sqlaudit.Config{Write: d.Write(), Read: d.Read(), Engine: string(d.Engine()), Now: o.now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, audit.Close()) })
	keyring, err := secret.Parse(strings.Split(o.keys, ",")...)
	require.NoError(t, err)
	logger := slog.New(slog.NewJSONHandler(l.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg := identity.Config{DB: d, Keyring: keyring, Audit: audit, PublicURL: publicURL, Now: o.now, Logger: logger}
	identity.CheapHashes(&cfg)
	if change != nil {
		change(&cfg)
	}
	l.service, err = identity.New(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.service.Close()) })
	l.handler, err = api.New(api.Config{
		Authenticate: l.service.Authenticate, Logger: logger,
		Translate: func(err error) *api.Error {
			if errors.Is(err, db.ErrUnavailable) {
				return &api.Error{Code: api.Unavailable, Cause: err}
			}
			return nil
		},
	}, l.service.Routes()...)
	require.NoError(t, err)
	server := httptest.NewServer(l.handler)
	t.Cleanup(server.Close)
	l.replica = &replica{o: o, db: d, audit: audit, base: server.URL, http: server.Client(), setupToken: cmp.Or(cfg.SetupToken, l.service.SetupToken())}
	if o.replica == nil {
		o.replica = l.replica
	}
	return l
}

// setup creates the first user, root, and returns the response of the login.
func (r *replica) setup() object {
	return r.post("", "/auth/setup", object{"username": "root", "password": password, "setup_token": r.setupToken}).want(http.StatusCreated)
}

// signIn returns the body of the response to a login of root.
func (r *replica) signIn() object { return r.login("root", password).want(http.StatusOK) }

func (r *replica) refresh(token any) answer {
	return r.post("", "/auth/refresh", object{"refresh_token": token})
}

func (o object) text(name string) string { return o[name].(string) }
func (o object) access() string          { return o.text("access_token") }

// ask sends a request that differs from those of the other helpers.
func (r *replica) ask(method, path, body string, change func(*http.Request)) answer {
	t := r.o.t
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.base+path, strings.NewReader(body))
	require.NoError(t, err)
	change(req)
	return r.do(req)
}

func (r *replica) do(req *http.Request) answer {
	t := r.o.t
	t.Helper()
	res, err := r.http.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	a := answer{t: t, status: res.StatusCode, header: res.Header, text: string(data)}
	if len(data) > 0 {
		require.NoError(t, json.Unmarshal(data, &a.body), "%s", data)
	}
	return a
}

// count runs a query that returns one number.
func (r *replica) count(query string, args ...any) (n int) {
	r.o.t.Helper()
	require.NoError(r.o.t, r.db.Read().QueryRowContext(r.o.t.Context(), query, args...).Scan(&n))
	return n
}

// exec changes the database directly, without the service.
func (r *replica) exec(query string, args ...any) {
	r.o.t.Helper()
	_, err := r.db.Write().ExecContext(r.o.t.Context(), query, args...)
	require.NoError(r.o.t, err)
}

// atOnce runs n calls concurrently and returns their results.
func atOnce(n int, call func(i int) answer) []answer {
	answers := make([]answer, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { answers[i] = call(i) })
	}
	wg.Wait()
	return answers
}

// statuses counts results by status and code, as "200" or "401 token_revoked".
func statuses(answers []answer) map[string]int {
	counts := map[string]int{}
	for _, a := range answers {
		key := http.StatusText(a.status)
		if code, ok := a.body["code"].(string); ok {
			key = code
		}
		counts[key]++
	}
	return counts
}

// entries returns all entries of the log.
func (r *replica) entries() iter.Seq2[auditlog.Entry, error] {
	return r.audit.Entries(r.o.t.Context(), identity.DefaultTenant, auditlog.Filter{}, nil)
}
