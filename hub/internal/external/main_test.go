package external_test

import (
	"cmp"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/clitoken"
	"github.com/seed93082962/agenthost/hub/internal/password"
	"github.com/seed93082962/agenthost/hub/internal/session"
	"github.com/seed93082962/agenthost/hub/internal/token"
	"github.com/seed93082962/agenthost/hub/internal/user"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/external"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/internal/secret"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

const opsKey = "an operations key of 32 characters"

type object = map[string]any

// site is a hub of only the sign-in, which several replicas may serve.
type site struct {
	t      testing.TB
	db     *db.DB
	audit  *sqlaudit.Store
	ring   *secret.Keyring
	logs   *logtest.Buffer
	passed atomic.Int64 // by how much the clock is ahead
	global external.GlobalClient
	admins []string
	*replica
}

// replica is one process of the hub.
type replica struct {
	url      string
	store    *store.Store
	service  *external.Service
	sessions *session.Service
}

var migrations = []db.Series{apitest.Audit(), user.Migrations, external.Migrations}

func each(t *testing.T, test func(t *testing.T, s *site)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, address string) { test(t, open(t, address, nil)) }, migrations...)
}

// onSQLite opens a site for a test that does not depend on the engine.
func onSQLite(t testing.TB, change func(*site)) *site {
	t.Helper()
	return open(t, dbtest.SQLite(t, migrations...), change)
}

func open(t testing.TB, address string, change func(*site)) *site {
	t.Helper()
	s := &site{t: t, logs: &logtest.Buffer{}}
	if change != nil {
		change(s)
	}
	s.db = dbtest.Open(t, address, migrations...)
	s.audit = apitest.NewAudit(t, s.db)
	var err error
	s.ring, err = secret.Parse(secret.Generate())
	require.NoError(t, err)
	s.replica = s.launch()
	return s
}

func (s *site) now() time.Time           { return time.Now().Add(time.Duration(s.passed.Load())) }
func (s *site) wait(after time.Duration) { s.passed.Add(int64(after)) }

// launch starts one more replica.
func (s *site) launch() *replica {
	s.t.Helper()
	server := httptest.NewUnstartedServer(nil)
	public := "http://" + server.Listener.Addr().String()
	if s.replica != nil {
		public = s.url // a proxy in front of both has one address
	}
	logger := slog.New(slog.NewJSONHandler(s.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	handle, err := store.New(store.Config{DB: s.db, Keyring: s.ring, Audit: s.audit, Now: s.now, Logger: logger})
	require.NoError(s.t, err)
	keys, err := token.New(s.t.Context(), handle)
	require.NoError(s.t, err)
	passwords := password.New(password.Config{Store: handle})
	users, err := user.New(s.t.Context(), user.Config{Store: handle, Passwords: passwords, PublicURL: public, External: true})
	require.NoError(s.t, err)
	cliTokens := clitoken.New(handle, users)
	sessions, err := session.New(session.Config{Store: handle, Users: users, Passwords: passwords, CLITokens: cliTokens, Keys: keys, External: true})
	require.NoError(s.t, err)
	service, err := external.New(external.Config{
		Store: handle, Sessions: sessions, PublicURL: public, Logins: true, Global: s.global, BootstrapAdmins: s.admins, OpsKey: opsKey,
	})
	require.NoError(s.t, err)
	server.Config.Handler, err = api.New(api.Config{
		Authenticate: sessions.Authenticate, PublicURL: public, Logger: logger,
		Translate: func(err error) *wire.Error {
			if db.Unavailable(err) {
				return &wire.Error{Code: wire.Unavailable, Cause: err}
			}
			return nil
		},
	}, slices.Concat(users.Routes(), sessions.Routes(), cliTokens.Routes(), service.Routes())...)
	require.NoError(s.t, err)
	server.Start()
	s.t.Cleanup(func() {
		server.Close()
		require.NoError(s.t, service.Close())
		require.NoError(s.t, sessions.Close())
	})
	return &replica{url: server.URL, store: handle, service: service, sessions: sessions}
}

// register registers the client of an organization at an identity provider.
func (s *site) register(org string, p *standIn, more ...object) {
	s.t.Helper()
	in := object{"org": org, "clientId": "hub-" + org, "clientSecret": "secret-" + org, "issuer": p.URL}
	for _, o := range more {
		maps.Copy(in, o)
	}
	a := s.ops(http.MethodPost, "", in)
	require.Contains(s.t, []int{200, 201}, a.status, a.text)
}

func (s *site) ops(method, path string, body any) answer {
	s.t.Helper()
	return newBrowser(s.t).send(method, s.url+"/api/v1/ops/tenant-clients"+path, body, "X-Ops-Key", opsKey)
}

// log returns the entries of a tenant, oldest first.
func (s *site) log(tenant string) (all []string) {
	s.t.Helper()
	for e, err := range s.audit.Entries(s.t.Context(), tenant, auditlog.Filter{}, nil) {
		require.NoError(s.t, err)
		all = append(all, e.Action+" "+e.TargetName+" "+string(e.Status)+" "+string(e.Detail))
	}
	return all
}

// browser keeps cookies, and follows redirects only on request.
type browser struct {
	t      testing.TB
	client *http.Client
	token  string
}

func newBrowser(t testing.TB) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &browser{t: t, client: &http.Client{Transport: transport, Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}}
}

type answer struct {
	t      testing.TB
	status int
	header http.Header
	text   string
}

func (a answer) want(status int) object {
	a.t.Helper()
	require.Equal(a.t, status, a.status, a.text)
	var body object
	if a.text != "" {
		require.NoError(a.t, json.Unmarshal([]byte(a.text), &body), a.text)
	}
	return body
}

func (a answer) refused(status int, code wire.Code) object {
	a.t.Helper()
	body := a.want(status)
	require.Equal(a.t, string(code), body["code"], a.text)
	return body
}

func (a answer) location() *url.URL {
	a.t.Helper()
	require.Contains(a.t, []int{302, 303}, a.status, a.text)
	u, err := url.Parse(a.header.Get("Location"))
	require.NoError(a.t, err)
	return u
}

func (b *browser) get(address string) answer {
	b.t.Helper()
	return b.send(http.MethodGet, address, nil)
}

func (b *browser) send(method, address string, body any, headers ...string) answer {
	b.t.Helper()
	var content io.Reader
	kind := ""
	switch body := body.(type) {
	case nil:
	case string:
		content, kind = strings.NewReader(body), "application/x-www-form-urlencoded"
	default:
		text, err := json.Marshal(body)
		require.NoError(b.t, err)
		content, kind = strings.NewReader(string(text)), "application/json"
	}
	req, err := http.NewRequestWithContext(b.t.Context(), method, address, content)
	require.NoError(b.t, err)
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if method == http.MethodGet { // the user typed the address
		req.Header.Set("Sec-Fetch-Site", "none")
	}
	if b.token != "" {
		req.Header.Set("Authorization", "Bearer "+b.token)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
		}
	}
	res, err := b.client.Do(req)
	require.NoError(b.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(b.t, err)
	return answer{b.t, res.StatusCode, res.Header, string(text)}
}

// start starts a login and returns the address at the identity provider.
func (b *browser) start(hub, query string) *url.URL {
	b.t.Helper()
	return b.get(hub + "/auth/login?" + query).location()
}

// login signs in at the hub as the current user of the identity provider.
func (b *browser) login(hub, org string) answer {
	b.t.Helper()
	at := b.start(hub, "org="+org)
	return b.get(b.get(at.String()).location().String())
}

// enter is a login that succeeds. The browser then sends the access token.
func (b *browser) enter(hub, org string) object {
	b.t.Helper()
	body := b.login(hub, org).want(http.StatusOK)
	b.token = cmp.Or(body["access_token"].(string), b.token)
	return body
}

// serve sends a request to a handler.
func serve(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}
