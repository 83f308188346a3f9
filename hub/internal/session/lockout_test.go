package session_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
)

func TestCommonPasswordsAreRejected(t *testing.T) {
	oneServer(t, func(t *testing.T, s *server) {
		root := s.setup().access()
		for _, word := range []string{"password", "Password1", "QWERTYUIOP", " football ", "11111111", "mia-the-member", "MIA-the-member "} {
			s.post(root, usersPath, object{"username": "mia-the-member", "password": word, "role": "member"}).wantError(http.StatusBadRequest, wire.ValidationFailed)
		}
		for _, word := range []string{"password123", "root"} {
			s.post(root, changePath, object{"old_password": password, "new_password": word}).wantError(http.StatusBadRequest, wire.ValidationFailed)
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
		s.login("mia", reset).wantError(http.StatusUnauthorized, code.InvalidCredentials)
		s.exec(`UPDATE members SET password_changed_at = password_changed_at + 1000000000000`)
		s.login("mia", reset).wantError(http.StatusUnauthorized, code.InvalidCredentials)
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
