package identity_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/identity"
)

// flood sends n calls and returns when one of them was rejected. The returned function waits for
// the responses.
func flood(n int, call func(i int) response) (wait func() map[string]int) {
	rejected, done := make(chan struct{}, n), make(chan map[string]int)
	go func() {
		done <- statuses(atOnce(n, func(i int) response {
			res := call(i)
			if res.status >= http.StatusTooManyRequests {
				rejected <- struct{}{}
			}
			return res
		}))
	}()
	<-rejected
	return func() map[string]int { return <-done }
}

// While one party floods the sign-in, that party is rate limited and all others can sign in.
func TestOthersSignInDuringAFlood(t *testing.T) { //nolint:paralleltest // it needs the hash slots of the machine
	const connections = 120
	registrations := func(s *server, root object) func(i int) response {
		token := s.post(root.access(), invitesPath, object{"role": "member"}).want(http.StatusCreated).text("token")
		return func(int) response {
			body := fmt.Sprintf(`{"token":%q,"username":"ROOT","password":%q}`, token, password) // the name is taken
			return s.from("192.0.2.1:1", http.MethodPost, "/auth/register", "", body)
		}
	}
	for _, row := range []struct {
		name  string
		flood func(s *server, root object) func(i int) response
	}{
		{"with one credential", func(s *server, _ object) func(int) response {
			return func(int) response { return s.loginFrom(context.Background(), "192.0.2.1:1", "mallory", password) }
		}},
		{"with one credential from the network of the others", func(s *server, _ object) func(int) response {
			s.loginFrom(t.Context(), "127.0.0.1:1", "mallory", password).want(http.StatusOK)
			return func(int) response { return s.loginFrom(context.Background(), "127.0.0.1:1", "mallory", password) }
		}},
		{"with one credential from many networks", func(s *server, _ object) func(int) response {
			return func(i int) response {
				return s.loginFrom(context.Background(), fmt.Sprintf("10.0.%d.1:1", i), "mallory", password)
			}
		}},
		{"with the change of one password", func(s *server, _ object) func(int) response {
			token := s.login("mallory", password).want(http.StatusOK).access()
			body := fmt.Sprintf(`{"old_password":%q,"new_password":%q}`, password, password)
			return func(int) response { return s.from("127.0.0.1:1", http.MethodPost, changePath, token, body) }
		}},
		{"with one invitation", registrations},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := onSQLite(t, identity.FullHashes)
			root := s.setup()
			for _, name := range []string{"mallory", "ada", "mia"} {
				s.post(root.access(), usersPath, object{"username": name, "password": password, "role": "member"}).want(http.StatusCreated)
			}
			wait := flood(connections, row.flood(s, root))
			begin := time.Now()
			for i, name := range []string{"root", "ada", "mia"} {
				s.loginFrom(t.Context(), fmt.Sprintf("127.0.0.%d:1", i), name, password).want(http.StatusOK)
			}
			require.Less(t, time.Since(begin), time.Minute)
			counts := wait()
			require.Positive(t, counts["rate_limited"], "%v", counts)
			require.Zero(t, counts["unavailable"], "%v", counts)
		})
	}
}
