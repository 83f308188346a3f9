package hub_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/db/pgtest"
	"github.com/seed93082962/agenthost/internal/secret"
)

// A time limit of a query is not an internal error.
func TestUnavailableErrors(t *testing.T) {
	for name, row := range map[string]struct {
		err         error
		unavailable bool
	}{
		"a lost database":    {fmt.Errorf("read: %w", db.ErrUnavailable), true},
		"no time left":       {fmt.Errorf("record: %w", context.DeadlineExceeded), true},
		"a client that left": {fmt.Errorf("read: %w", context.Canceled), false},
		"anything else":      {errors.New("no such column"), false},
	} {
		t.Run(name, func(t *testing.T) {
			e := hub.Translate(row.err)
			require.Equal(t, row.unavailable, e != nil && e.Code == wire.Unavailable)
		})
	}
}

// With a server that takes no writes, such as a former primary, sign-in is impossible: the hub must
// not receive requests.
func TestAReadOnlyDatabaseIsNotReady(t *testing.T) {
	address := pgtest.Start(t).URL(t)
	s := open(t, address)
	admin := dbtest.Open(t, address).Write()
	readOnly := func(value string) {
		for _, statement := range []string{
			"SET default_transaction_read_only = off", "ALTER SYSTEM SET default_transaction_read_only = " + value, "SELECT pg_reload_conf()",
		} {
			_, err := admin.ExecContext(t.Context(), statement)
			require.NoError(t, err)
		}
	}
	status := func(want int) func() bool {
		return func() bool { return s.call("GET", "/health/ready", "", "").status == want }
	}
	require.True(t, status(http.StatusOK)())
	readOnly("on")
	require.Eventually(t, status(http.StatusServiceUnavailable), time.Minute, 20*time.Millisecond)
	s.call("POST", "/auth/setup", "", `{"password":"`+password+`","setup_token":"`+setupToken+`"}`).wantError(http.StatusServiceUnavailable, "unavailable")
	readOnly("off")
	require.Eventually(t, status(http.StatusOK), time.Minute, 20*time.Millisecond)
}

// Nothing can connect to the database any more: every route that needs it responds with 503, and
// none with 401 or 500.
func TestAnyFailureToConnectIsUnavailable(t *testing.T) {
	server := pgtest.Start(t)
	admin := dbtest.Open(t, server.URL(t))
	for name, statement := range map[string]string{
		"the database accepts no connections (55000)": `ALTER DATABASE "$" ALLOW_CONNECTIONS false`,
		"the database is gone (3D000)":                `ALTER DATABASE "$" RENAME TO "former $"`,
	} {
		t.Run(name, func(t *testing.T) {
			database := server.URL(t)
			u, err := url.Parse(database)
			require.NoError(t, err)
			s := open(t, database)
			token := s.setUp()
			require.Eventually(t, func() bool { // connections are made again until the statement succeeds
				for _, query := range []string{
					`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '$'`, statement,
					`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname IN ('$', 'former $')`,
				} {
					if _, err := admin.Write().ExecContext(t.Context(), strings.ReplaceAll(query, "$", u.Path[1:])); err != nil {
						return false
					}
				}
				return true
			}, time.Minute, 5*time.Millisecond)
			require.Equal(t, "unavailable", s.call("GET", "/health/ready", "", "").want(http.StatusServiceUnavailable)["status"])
			s.call("POST", "/auth/login", "", `{"username":"admin","password":"`+password+`"}`).wantError(http.StatusServiceUnavailable, "unavailable")
			s.call("POST", "/auth/refresh", "", `{"refresh_token":"any"}`).wantError(http.StatusServiceUnavailable, "unavailable")
			s.call("GET", "/auth/userinfo", "cli_any", "").wantError(http.StatusServiceUnavailable, "unavailable")
			s.call("GET", "/api/v1/admin/audit-logs", token, "").wantError(http.StatusServiceUnavailable, "unavailable")
			s.call("GET", "/api/v1/admin/users", token, "").wantError(http.StatusServiceUnavailable, "unavailable")
			s.call("GET", "/health", "", "").want(http.StatusOK)
		})
	}
}

// A secret that an earlier version sealed is bound when a hub starts, or by `hub rekey`; no other
// function opens it.
func TestSecretsOfAnEarlierVersion(t *testing.T) {
	address := sqlite(t)
	own := secret.Generate()
	start := func() *server { return open(t, address, func(c *hub.Config) { c.EncryptionKeys = []string{own} }) }
	s := start()
	admin := s.setUp()
	made := s.call("POST", "/api/v1/admin/providers", admin, `{"name":"p","protocol":"openai","apiKey":"sk-new"}`).want(http.StatusCreated)
	path := "/api/v1/admin/providers/" + made["id"].(string) + "/reveal-key"
	keyring, err := secret.Parse(own)
	require.NoError(t, err)
	d, err := db.Open(t.Context(), db.Config{URL: address})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	request := func(bound ...string) []byte { return secret.AAD("deployments", "sealed", "default-a", bound...) }
	_, err = d.Write().ExecContext(t.Context(), `INSERT INTO deployments (key, tenant_id, agent_name, desired, edition, revision, spec_hash, sealed,
			linked_at, deployed_at, deployed_by, state) VALUES ('default-a', 'default', 'a', 'stopped', 1, 1, '', $1, 0, 0, '', 'stopped')`, []byte{})
	require.NoError(t, err)
	for _, restart := range []bool{true, false} {
		_, err = d.Write().ExecContext(t.Context(), `UPDATE deployments SET sealed = $1`, keyring.Seal([]byte("{}"), request()))
		require.NoError(t, err)
		former := keyring.Seal([]byte("sk-former"), secret.AAD("providers", "api_key_enc", made["id"].(string)))
		_, err = d.Write().ExecContext(t.Context(), `UPDATE providers SET api_key_enc = $1`, former)
		require.NoError(t, err)
		s.call("POST", path, admin, "").wantError(http.StatusConflict, "conflict")
		if restart {
			s = start()
		} else {
			h, err := hub.New(t.Context(), hub.Config{DatabaseURL: address, EncryptionKeys: []string{own}, Offline: true})
			require.NoError(t, err)
			n, err := h.Rekey(t.Context())
			require.NoError(t, errors.Join(err, h.Close()))
			require.Equal(t, 2, n)
		}
		var sealed []byte
		require.NoError(t, d.Read().QueryRowContext(t.Context(), `SELECT sealed FROM deployments`).Scan(&sealed))
		_, err = keyring.Open(sealed, request("default"))
		require.NoError(t, err)
		require.Equal(t, "sk-former", s.call("POST", path, admin, "").want(http.StatusOK)["apiKey"])
	}
}

// An operator encrypts the keys anew with a key that this replica does not have, and later with
// both.
func TestAHubThatCannotOpenItsKeysIsNotReady(t *testing.T) {
	address := sqlite(t)
	own, next := secret.Generate(), secret.Generate()
	var ahead atomic.Int64
	s := open(t, address, func(c *hub.Config) {
		c.EncryptionKeys, c.Now = []string{own}, func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	s.setUp()
	rekey := func(keys ...string) {
		h, err := hub.New(t.Context(), hub.Config{DatabaseURL: address, EncryptionKeys: keys, Offline: true})
		require.NoError(t, err)
		_, err = h.Rekey(t.Context())
		require.NoError(t, errors.Join(err, h.Close()))
		ahead.Add(int64(time.Minute)) // a replica reads the keys once a minute
	}
	require.Equal(t, "ready", s.call("GET", "/health/ready", "", "").want(http.StatusOK)["status"])
	rekey(next, own)
	require.Equal(t, "unavailable", s.call("GET", "/health/ready", "", "").want(http.StatusServiceUnavailable)["status"])
	require.ErrorIs(t, s.Ready(t.Context()), secret.ErrUnknownKey)
	rekey(own, next)
	require.Equal(t, "ready", s.call("GET", "/health/ready", "", "").want(http.StatusOK)["status"])

	// The row is damaged.
	_, err := dbtest.Open(t, address).Write().ExecContext(t.Context(), `UPDATE signing_keys SET private_sealed = public_key`)
	require.NoError(t, err)
	ahead.Add(int64(time.Minute))
	s.call("GET", "/health/ready", "", "").want(http.StatusServiceUnavailable)
}

// Anyone can send probes: they share results, and the server that logs every statement has few.
func TestProbesShareTheirResult(t *testing.T) {
	address := pgtest.Start(t, "log_statement=all").URL(t)
	u, err := url.Parse(address)
	require.NoError(t, err)
	statements := func() int {
		log, err := os.ReadFile(filepath.Join(u.Query().Get("host"), "log"))
		require.NoError(t, err)
		return bytes.Count(log, []byte("SHOW transaction_read_only"))
	}
	var clock atomic.Int64
	clock.Store(time.Now().UnixNano())
	s := open(t, address, func(c *hub.Config) { c.Now = func() time.Time { return time.Unix(0, clock.Load()) } })
	probe := func(want int) {
		t.Helper()
		const clients, each = 20, 50
		var all sync.WaitGroup
		statuses := make(chan int, clients*each)
		for range clients {
			all.Go(func() {
				for range each {
					res, err := s.try(t.Context(), "GET", "/health/ready", "", "")
					if err == nil {
						statuses <- res.status
					}
				}
			})
		}
		all.Wait()
		close(statuses)
		count := 0
		for status := range statuses {
			require.Equal(t, want, status)
			count++
		}
		require.Equal(t, clients*each, count)
	}
	before := statements()
	probe(http.StatusOK)
	require.Equal(t, before+1, statements())
	clock.Add(int64(time.Second))
	probe(http.StatusOK)
	require.Equal(t, before+2, statements())

	clock.Add(int64(time.Second))
	require.NoError(t, s.Close())
	probe(http.StatusServiceUnavailable)
	require.Equal(t, 1, strings.Count(s.close(), `"msg":"not ready"`), "one warning for each check")
}

// Clients without a credential cause no change, however old the signing key is.
func TestProbesChangeNothing(t *testing.T) {
	address := sqlite(t)
	var ahead atomic.Int64
	s := open(t, address, func(c *hub.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	s.setUp()
	d := dbtest.Open(t, address)
	keys := func() (n int) {
		require.NoError(t, d.Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM signing_keys`).Scan(&n))
		return n
	}
	ahead.Store(int64(91 * day))
	for range 3 {
		s.call("GET", "/health/ready", "", "").want(http.StatusOK)
		s.call("GET", "/.well-known/jwks.json", "", "").want(http.StatusOK)
		ahead.Add(int64(time.Minute))
	}
	require.Equal(t, 1, keys())
	s.call("POST", "/auth/login", "", `{"username":"admin","password":"`+password+`"}`).want(http.StatusOK)
	require.Equal(t, 2, keys(), "a token is signed with the next key")
}

func TestAuthBodiesAreBounded(t *testing.T) {
	s, admin := started(t)
	const most = 16 << 10
	body := func(size int) string { return `{"` + strings.Repeat("x", size-6) + `":1}` }
	bounded := 0
	for _, route := range s.Routes() {
		if !strings.HasPrefix(route.Path, "/auth/") {
			continue
		}
		require.EqualValues(t, most, route.BodyLimit, route.Path)
		if route.Method != http.MethodPost || route.Path == "/auth/logout" {
			continue // a logout would end the session of the other rows
		}
		bounded++
		s.call("POST", route.Path, admin, body(most+1)).wantError(http.StatusRequestEntityTooLarge, "payload_too_large")
		require.NotEqual(t, http.StatusRequestEntityTooLarge, s.call("POST", route.Path, admin, body(most)).status, route.Path)
		// Without a Content-Length.
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+route.Path, io.MultiReader(strings.NewReader(body(most+1))))
		require.NoError(t, err)
		req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + admin}}
		res, err := s.client.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusRequestEntityTooLarge, res.StatusCode, route.Path)
	}
	require.GreaterOrEqual(t, bounded, 5)
	s.call("POST", "/auth/logout", admin, body(most+1)).wantError(http.StatusRequestEntityTooLarge, "payload_too_large")
	s.call("POST", "/api/v1/cli/issue-token", admin, `{"name":"n","x":"`+strings.Repeat("x", most)+`"}`).want(http.StatusCreated)
}

func TestACancelledDrainReportsRequestsInProgress(t *testing.T) {
	s := open(t, sqlite(t))
	body, send := io.Pipe()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/auth/login", body))
	}()
	_, err := io.WriteString(send, "{") // it is being read
	require.NoError(t, err)
	ctx, giveUp := context.WithCancel(t.Context())
	giveUp()
	err = s.Drain(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "1 of which are in progress")
	require.NoError(t, send.Close())
	<-answered
	require.NoError(t, s.Drain(t.Context()))
}
