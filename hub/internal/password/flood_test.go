package password_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/clitoken"
	"github.com/seed93082962/agenthost/hub/internal/password"
	"github.com/seed93082962/agenthost/hub/internal/session"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/internal/token"
	"github.com/seed93082962/agenthost/hub/internal/user"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/secret"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

const right = "correct horse battery"

// site is a hub of only the sign-in.
type site struct {
	t         *testing.T
	db        *db.DB
	passwords *password.Service
	handler   http.Handler
	root      string // an access token
	devices   map[string]string
}

type response struct {
	status int
	code   string
	body   map[string]any
}

// newSite returns a site with the admin root and the users mallory, ada and mia.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, devices: map[string]string{}, db: dbtest.Open(t, dbtest.SQLite(t), apitest.Audit(), user.Migrations)}
	keyring, err := secret.Parse(secret.Generate())
	require.NoError(t, err)
	handle, err := store.New(store.Config{DB: s.db, Keyring: keyring, Audit: apitest.NewAudit(t, s.db)})
	require.NoError(t, err)
	keys, err := token.New(t.Context(), handle)
	require.NoError(t, err)
	s.passwords = password.New(password.Config{Store: handle, Cost: password.Cost{Memory: 64, Passes: 1, Threads: 1}})
	users, err := user.New(t.Context(), user.Config{Store: handle, Passwords: s.passwords, SetupToken: right})
	require.NoError(t, err)
	sessions, err := session.New(session.Config{
		Store: handle, Users: users, Passwords: s.passwords, CLITokens: clitoken.New(handle, users), Keys: keys,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sessions.Close()) })
	s.handler, err = api.New(api.Config{Authenticate: sessions.Authenticate}, slices.Concat(users.Routes(), sessions.Routes())...)
	require.NoError(t, err)
	made := s.send("127.0.0.1:1", "/auth/setup", "", `{"username":"root","password":"`+right+`","setup_token":"`+right+`"}`)
	require.Equal(t, http.StatusCreated, made.status, made.body)
	s.root = made.body["access_token"].(string)
	for _, name := range []string{"mallory", "ada", "mia"} {
		made := s.send("127.0.0.1:1", "/api/v1/admin/users", s.root, `{"username":"`+name+`","password":"`+right+`","role":"member"}`)
		require.Equal(t, http.StatusCreated, made.status, made.body)
	}
	return s
}

// send posts from an address. It may be called from any goroutine.
func (s *site) send(address, path, bearer, body string) (res response) {
	r := httptest.NewRequest(http.MethodPost, "http://localhost"+path, strings.NewReader(body))
	r.RemoteAddr = address
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	res.status = w.Code
	_ = json.Unmarshal(w.Body.Bytes(), &res.body)
	res.code, _ = res.body["code"].(string)
	return res
}

// login signs in with the device token of the name, if there is one.
func (s *site) login(address, name string) response {
	return s.send(address, "/auth/login", "", `{"username":"`+name+`","password":"`+right+`","device_token":"`+s.devices[name]+`"}`)
}

// signIn signs in from an address with a device, which is then known.
func (s *site) signIn(address, name string) string {
	s.t.Helper()
	res := s.login(address, name)
	require.Equal(s.t, http.StatusOK, res.status, res.body)
	s.devices[name] = res.body["device_token"].(string)
	return res.body["access_token"].(string)
}

// While one party floods the sign-in, that party is rejected and all others can sign in.
func TestOthersSignInDuringAFlood(t *testing.T) {
	t.Parallel()
	const connections = 120
	others := []string{"root", "ada", "mia"}
	addressOf := func(i int) string { return fmt.Sprintf("127.0.0.%d:1", i) }
	know := func(s *site) { // otherwise, the others are as unknown as the flood
		for i, name := range others {
			s.signIn(addressOf(i), name)
		}
	}
	knowAccounts := func(s *site) {
		for i := range connections {
			name := fmt.Sprintf("known%d", i)
			made := s.send("127.0.0.1:1", "/api/v1/admin/users", s.root, `{"username":"`+name+`","password":"`+right+`","role":"member"}`)
			require.Equal(t, http.StatusCreated, made.status, made.body)
			s.signIn("192.0.2.1:1", name)
		}
	}
	guess := func(address string) func(*site) func(int) response {
		return func(s *site) func(int) response {
			return func(i int) response { return s.login(fmt.Sprintf(address, i), fmt.Sprintf("nobody%d", i)) }
		}
	}
	for _, row := range []struct {
		name     string
		flood    func(s *site) func(i int) response
		rejected string // codes
	}{
		{"with many names", guess("192.0.2.%d:1"), "rate_limited"},
		{"with many names from the /64s of a network", guess("[2001:db8:1:%x::1]:1"), "rate_limited"},
		{"with many names from many networks", func(s *site) func(int) response {
			know(s)
			return guess("[2001:db8:%x::1]:1")(s)
		}, "unavailable"},
		{"with many known accounts of one network", func(s *site) func(int) response {
			know(s)
			knowAccounts(s)
			return func(i int) response { return s.login("192.0.2.1:1", fmt.Sprintf("known%d", i)) }
		}, "rate_limited"},
		{"with many names from many networks and many known accounts of one network", func(s *site) func(int) response {
			know(s)
			knowAccounts(s)
			return func(i int) response {
				if i%2 == 0 {
					return s.login("192.0.2.1:1", fmt.Sprintf("known%d", i))
				}
				return s.login(fmt.Sprintf("[2001:db8:%x::1]:1", i), fmt.Sprintf("nobody%d", i))
			}
		}, "rate_limited unavailable"},
		{"with one credential", func(s *site) func(int) response {
			return func(int) response { return s.login("192.0.2.1:1", "mallory") }
		}, "rate_limited"},
		{"with one credential from the network of the others", func(s *site) func(int) response {
			s.signIn("127.0.0.1:1", "mallory")
			return func(int) response { return s.login("127.0.0.1:1", "mallory") }
		}, "rate_limited"},
		{"with one credential from many networks", func(s *site) func(int) response {
			return func(i int) response { return s.login(fmt.Sprintf("10.0.%d.1:1", i), "mallory") }
		}, "rate_limited"},
		{"with the change of one password", func(s *site) func(int) response {
			const chosen = "another horse, another battery"
			bearer := s.signIn("127.0.0.1:1", "mallory")
			changed := s.send("127.0.0.1:1", "/auth/change-password", bearer, `{"old_password":"`+right+`","new_password":"`+chosen+`"}`)
			require.Equal(s.t, http.StatusNoContent, changed.status, changed.body)
			return func(int) response {
				return s.send("127.0.0.1:1", "/auth/change-password", bearer, `{"old_password":"`+chosen+`","new_password":"`+chosen+`"}`)
			}
		}, "rate_limited"},
		{"with one invitation", func(s *site) func(int) response {
			invited := s.send("127.0.0.1:1", "/api/v1/admin/invites", s.root, `{"role":"member"}`)
			require.Equal(s.t, http.StatusCreated, invited.status, invited.body)
			body := `{"token":"` + invited.body["token"].(string) + `","username":"ROOT","password":"` + right + `"}` // the name is taken
			return func(int) response { return s.send("192.0.2.1:1", "/auth/register", "", body) }
		}, "rate_limited"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t)
				call := row.flood(s)
				release := s.passwords.Hold()
				responses := make(chan response, connections)
				for i := range connections {
					go func() { responses <- call(i) }()
				}
				synctest.Wait()
				rejected := len(responses)
				require.Greater(t, rejected, connections/4)
				for range rejected {
					res := <-responses
					require.Contains(t, strings.Fields(row.rejected), res.code, res.body)
				}
				signedIn := make(chan response, len(others))
				for i, name := range others {
					go func() { signedIn <- s.login(addressOf(i), name) }()
				}
				synctest.Wait()
				require.Empty(t, signedIn, "none of the others is rejected")
				release()
				for range others {
					res := <-signedIn
					require.Equal(t, http.StatusOK, res.status, res.body)
				}
				for range connections - rejected {
					res := <-responses
					require.Less(t, res.status, http.StatusTooManyRequests, res.body)
				}
			})
		})
	}
}

// A hash waits for 10 s, and then is rejected. The places of the flood become free.
func TestAHashWaitsForATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		release := s.passwords.Hold()
		for range 3 {
			res := s.login("192.0.2.1:1", "mallory")
			require.Equal(t, "unavailable", res.code, res.body)
		}
		release()
		s.signIn("192.0.2.1:1", "mallory")
	})
}
