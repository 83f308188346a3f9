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
func flood(n int, call func(i int) answer) (wait func() map[string]int) {
	rejected, done := make(chan struct{}, n), make(chan map[string]int)
	go func() {
		done <- statuses(atOnce(n, func(i int) answer {
			a := call(i)
			if a.status >= http.StatusTooManyRequests {
				rejected <- struct{}{}
			}
			return a
		}))
	}()
	<-rejected
	return func() map[string]int { return <-done }
}

// While one party floods the sign-in, that party is rate limited and all others can sign in.
func TestOthersSignInDuringAFlood(t *testing.T) { //nolint:paralleltest // it needs the hash slots of the machine
	const connections = 120
	registrations := func(l *launched, root object) func(i int) answer {
		token := l.post(root.access(), invitesPath, object{"role": "member"}).want(http.StatusCreated).text("token")
		return func(int) answer {
			body := fmt.Sprintf(`{"token":%q,"username":"ROOT","password":%q}`, token, password) // the name is taken
			return l.from("192.0.2.1:1", http.MethodPost, "/auth/register", "", body)
		}
	}
	for _, row := range []struct {
		name  string
		flood func(l *launched, root object) func(i int) answer
	}{
		{"with one credential", func(l *launched, _ object) func(int) answer {
			return func(int) answer { return l.loginFrom(context.Background(), "192.0.2.1:1", "mallory", password) }
		}},
		{"with one credential from the network of the others", func(l *launched, _ object) func(int) answer {
			l.loginFrom(t.Context(), "127.0.0.1:1", "mallory", password).want(http.StatusOK)
			return func(int) answer { return l.loginFrom(context.Background(), "127.0.0.1:1", "mallory", password) }
		}},
		{"with one credential from many networks", func(l *launched, _ object) func(int) answer {
			return func(i int) answer {
				return l.loginFrom(context.Background(), fmt.Sprintf("10.0.%d.1:1", i), "mallory", password)
			}
		}},
		{"with the change of one password", func(l *launched, _ object) func(int) answer {
			token := l.login("mallory", password).want(http.StatusOK).access()
			body := fmt.Sprintf(`{"old_password":%q,"new_password":%q}`, password, password)
			return func(int) answer { return l.from("127.0.0.1:1", http.MethodPost, changePath, token, body) }
		}},
		{"with one invitation", registrations},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := onSQLite(t, identity.FullHashes)
			root := l.setup()
			for _, name := range []string{"mallory", "ada", "mia"} {
				l.post(root.access(), usersPath, object{"username": name, "password": password, "role": "member"}).want(http.StatusCreated)
			}
			wait := flood(connections, row.flood(l, root))
			begin := time.Now()
			for i, name := range []string{"root", "ada", "mia"} {
				l.loginFrom(t.Context(), fmt.Sprintf("127.0.0.%d:1", i), name, password).want(http.StatusOK)
			}
			require.Less(t, time.Since(begin), time.Minute)
			counts := wait()
			require.Positive(t, counts["rate_limited"], "%v", counts)
			require.Zero(t, counts["unavailable"], "%v", counts)
		})
	}
}
