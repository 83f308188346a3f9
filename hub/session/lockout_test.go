package session_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/api"
)

// Failures from an address where the account signed in today do not lock it out there: its correct
// password passes every 5 s. From another address of the same network it waits.
func TestAnAccountIsNotLockedWhereItIsKnown(t *testing.T) {
	oneServer(t, func(t *testing.T, s *server) {
		s.setup()
		for _, from := range []string{"127.0.0.1:1", "127.0.0.2:1"} {
			for range 5 {
				s.loginFrom(t.Context(), from, "root", "wrong password").wantError(http.StatusUnauthorized, api.InvalidCredentials)
			}
		}
		for range 3 {
			s.login("root", password).wantError(http.StatusTooManyRequests, api.RateLimited)
			s.cluster.wait(5 * time.Second)
			s.login("root", "wrong password").wantError(http.StatusTooManyRequests, api.RateLimited)
		}
		s.cluster.wait(5 * time.Second)
		results := atOnce(8, func(i int) response {
			if i == 0 {
				return s.login("root", password)
			}
			return s.login("root", "wrong password")
		})
		require.LessOrEqual(t, statuses(results)[http.StatusText(http.StatusOK)], 1)
		s.cluster.wait(5 * time.Second)
		s.loginFrom(t.Context(), "127.0.0.2:1", "root", password).wantError(http.StatusTooManyRequests, api.RateLimited)
		s.login("root", password).want(http.StatusOK)
		s.login("root", password).want(http.StatusOK) // without failures there is no limit
		s.exec(`UPDATE login_attempts SET at1 = at1 + 1000000000000, at5 = at5 + 1000000000000`)
		s.loginFrom(t.Context(), "127.0.0.2:1", "root", password).want(http.StatusOK) // times of an incorrect clock
	})
}

// An attacker with many networks has 100 guesses for one account. Its user signs in where it is
// known.
func TestGuessesForOneAccountAreBoundedOverAllNetworks(t *testing.T) {
	oneServer(t, func(t *testing.T, s *server) {
		s.setup()
		for i := range 100 {
			s.loginFrom(t.Context(), fmt.Sprintf("10.0.%d.1:1", i), "ROOT", "wrong password").wantError(http.StatusUnauthorized, api.InvalidCredentials)
		}
		for _, pass := range []string{"wrong password", password} {
			s.loginFrom(t.Context(), "10.1.0.1:1", "root", pass).wantError(http.StatusTooManyRequests, api.RateLimited)
		}
		s.loginFrom(t.Context(), "10.1.0.1:1", "other", "wrong password").wantError(http.StatusUnauthorized, api.InvalidCredentials)
		s.login("root", password).want(http.StatusOK)
		s.exec(`UPDATE login_accounts SET began = began + 1000000000000 WHERE account_fold = 'root'`)
		s.loginFrom(t.Context(), "10.1.0.1:1", "root", password).want(http.StatusOK) // a time of an incorrect clock
	})
}

func TestCommonPasswordsAreRejected(t *testing.T) {
	oneServer(t, func(t *testing.T, s *server) {
		root := s.setup().access()
		for _, word := range []string{"password", "Password1", "QWERTYUIOP", " football ", "11111111", "mia-the-member", "MIA-the-member "} {
			s.post(root, usersPath, object{"username": "mia-the-member", "password": word, "role": "member"}).wantError(http.StatusBadRequest, api.ValidationFailed)
		}
		for _, word := range []string{"password123", "root"} {
			s.post(root, changePath, object{"old_password": password, "new_password": word}).wantError(http.StatusBadRequest, api.ValidationFailed)
		}
		require.Equal(t, 1, s.count(`SELECT COUNT(*) FROM members`))
	})
}

// The password of a reset permits to sign in for a day.
func TestAResetPasswordExpires(t *testing.T) {
	oneServer(t, func(t *testing.T, s *server) {
		root := s.setup().access()
		id := s.post(root, usersPath, object{"username": "mia", "password": password, "role": "member"}).want(http.StatusCreated).text("id")
		s.cluster.wait(time.Minute)
		root = s.signIn().access()
		reset := s.post(root, usersPath+"/"+id+"/reset-password", nil).want(http.StatusOK).text("password")
		s.cluster.wait(day - time.Second)
		s.login("mia", reset).want(http.StatusOK)
		s.cluster.wait(2 * time.Second)
		s.login("mia", reset).wantError(http.StatusUnauthorized, api.InvalidCredentials)
		s.exec(`UPDATE members SET password_changed_at = password_changed_at + 1000000000000`)
		s.login("mia", reset).wantError(http.StatusUnauthorized, api.InvalidCredentials)
	})
}

// A CLI token issues none that outlives it, in any number of steps.
func TestACLITokenIssuesNoneThatOutlivesIt(t *testing.T) {
	oneServer(t, func(t *testing.T, s *server) {
		root := s.setup().access()
		first := s.post(root, "/api/v1/cli/issue-token", object{"name": "a", "expiresInDays": 2}).want(http.StatusCreated)
		s.cluster.wait(time.Hour)
		token := first.text("token")
		for _, days := range []any{365, nil, 2, 3} {
			next := s.post(token, "/api/v1/cli/issue-token", object{"name": "b", "expiresInDays": days}).want(http.StatusCreated)
			require.Equal(t, first["expiresAt"], next["expiresAt"])
			token = next.text("token")
		}
		short := s.post(token, "/api/v1/cli/issue-token", object{"name": "c", "expiresInDays": 1}).want(http.StatusCreated)
		require.Less(t, short.text("expiresAt"), first.text("expiresAt"))
		forever := s.post(s.signIn().access(), "/api/v1/cli/issue-token", object{"name": "d"}).want(http.StatusCreated)
		require.Nil(t, s.post(forever.text("token"), "/api/v1/cli/issue-token", object{"name": "e"}).want(http.StatusCreated)["expiresAt"])
	})
}
