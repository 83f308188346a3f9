package identity_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// While one party floods the sign-in, that party is rate limited and all others can sign in, before
// the hashes of the flood that wait already.
func TestOthersSignInDuringAFlood(t *testing.T) {
	t.Parallel()
	const connections, queue = 120, 64
	others := []string{"root", "ada", "mia"}
	signIn := func(s *server) { // others are as unknown as the flood
		for i, name := range others {
			s.loginFrom(s.cluster.t.Context(), fmt.Sprintf("127.0.0.%d:1", i), name, password).want(http.StatusOK)
		}
	}
	guess := func(network string) func(s *server, _ object) func(int) response {
		return func(s *server, _ object) func(int) response {
			return func(i int) response {
				return s.loginFrom(context.Background(), fmt.Sprintf(network, i), fmt.Sprintf("nobody%d", i), password)
			}
		}
	}
	registrations := func(s *server, root object) func(i int) response {
		token := s.post(root.access(), invitesPath, object{"role": "member"}).want(http.StatusCreated).text("token")
		return func(int) response {
			body := fmt.Sprintf(`{"token":%q,"username":"ROOT","password":%q}`, token, password) // the name is taken
			return s.from("192.0.2.1:1", http.MethodPost, "/auth/register", "", body)
		}
	}
	for _, row := range []struct {
		name     string
		flood    func(s *server, root object) func(i int) response
		rejected string
	}{
		{"with many names", guess("192.0.2.%d:1"), "rate_limited"},
		{"with many names from the /64s of a network", guess("[2001:db8:1:%x::1]:1"), "rate_limited"},
		{"with many names from many networks", func(s *server, root object) func(int) response {
			signIn(s)
			return guess("[2001:db8:%x::1]:1")(s, root)
		}, "unavailable"},
		{"with many known accounts of one network", func(s *server, _ object) func(int) response {
			signIn(s)
			s.exec(`WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 119)
				INSERT INTO members (id, tenant_id, username, username_fold, display_name, role, status, auth_source, password_hash, created_at, updated_at)
				SELECT 'known' || i, tenant_id, 'known' || i, 'known' || i, '', role, status, auth_source, password_hash, created_at, updated_at
				FROM members, n WHERE username = 'mallory'`)
			s.exec(`INSERT INTO sessions (id, tenant_id, user_id, created_at, last_used_at, idle_until, expires_at, remote_ip, network, user_agent)
				SELECT m.id, m.tenant_id, m.id, s.created_at, s.last_used_at, s.idle_until, s.expires_at, '192.0.2.1', '192.0.2.0/24', ''
				FROM members m JOIN sessions s ON m.id LIKE 'known%' AND s.id = (SELECT id FROM sessions LIMIT 1)`)
			return func(i int) response {
				return s.loginFrom(context.Background(), "192.0.2.1:1", fmt.Sprintf("known%d", i), password)
			}
		}, "rate_limited"},
		{"with one credential", func(s *server, _ object) func(int) response {
			return func(int) response { return s.loginFrom(context.Background(), "192.0.2.1:1", "mallory", password) }
		}, "rate_limited"},
		{"with one credential from the network of the others", func(s *server, _ object) func(int) response {
			s.loginFrom(s.cluster.t.Context(), "127.0.0.1:1", "mallory", password).want(http.StatusOK)
			return func(int) response { return s.loginFrom(context.Background(), "127.0.0.1:1", "mallory", password) }
		}, "rate_limited"},
		{"with one credential from many networks", func(s *server, _ object) func(int) response {
			return func(i int) response {
				return s.loginFrom(context.Background(), fmt.Sprintf("10.0.%d.1:1", i), "mallory", password)
			}
		}, "rate_limited"},
		{"with the change of one password", func(s *server, _ object) func(int) response {
			const chosen = "another horse, another battery"
			token := s.login("mallory", password).want(http.StatusOK).access()
			s.post(token, changePath, object{"old_password": password, "new_password": chosen}).want(http.StatusNoContent)
			body := fmt.Sprintf(`{"old_password":%q,"new_password":%q}`, chosen, chosen)
			return func(int) response { return s.from("127.0.0.1:1", http.MethodPost, changePath, token, body) }
		}, "rate_limited"},
		{"with one invitation", registrations, "rate_limited"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // its clock stands still while the server listens
				s := onSQLite(t, nil)
				root := s.setup()
				for _, name := range []string{"mallory", "ada", "mia"} {
					s.post(root.access(), usersPath, object{"username": name, "password": password, "role": "member"}).want(http.StatusCreated)
				}
				call := row.flood(s, root)
				pass := s.service.HoldHashes()
				responses := make(chan response, connections)
				for i := range connections {
					go func() { responses <- call(i) }()
				}
				signedIn, rejected := make(chan response, len(others)), map[string]int{}
				reject := func() {
					select {
					case res := <-responses:
						rejected[res.body.text("code")]++
					case res := <-signedIn:
						require.Fail(t, "one of the others is rejected", "%s", res.text)
					}
				}
				for range connections - queue {
					reject()
				}
				for i, name := range others { // each takes the place of a hash of the flood
					go func() { signedIn <- s.loginFrom(t.Context(), fmt.Sprintf("127.0.0.%d:1", i), name, password) }()
					reject()
				}
				require.Equal(t, map[string]int{row.rejected: connections - queue + len(others)}, rejected)
				order := pass()
				require.Len(t, order, queue)
				first := strings.Join(order[:16], "\n")
				for _, name := range others {
					require.Regexp(t, `(?m)account `+name+`\b`, first)
				}
				for range others {
					(<-signedIn).want(http.StatusOK)
				}
				for range queue - len(others) {
					res := <-responses
					require.Less(t, res.status, http.StatusTooManyRequests, res.text)
				}
			})
		})
	}
}
