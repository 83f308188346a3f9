package session_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
)

// After an administrator or the command set the password, nothing works but the change of the
// password.
func TestAPasswordSetByAnotherMustBeChanged(t *testing.T) {
	const newPassword = "another horse, another battery"
	for name, reset := range map[string]func(t *testing.T, s *server, root, ada user) string{
		"by an administrator": func(_ *testing.T, s *server, root, ada user) string {
			return s.post(root.token, usersPath+"/"+ada.id+"/reset-password", nil).want(http.StatusOK).text("password")
		},
		"by the command": func(t *testing.T, s *server, _, _ user) string {
			password, err := s.cluster.start(func(c *config) { c.Offline = true }).accounts.ResetPassword(t.Context(), "ada")
			require.NoError(t, err)
			return password
		},
		"of a new user, without expiry": func(_ *testing.T, s *server, root, ada user) string {
			const first = "a first password to change"
			s.delete(root.token, usersPath+"/"+ada.id).want(http.StatusNoContent)
			s.post(root.token, usersPath, object{"username": "ada", "password": first, "role": "admin"}).want(http.StatusCreated)
			s.cluster.wait(30 * day)
			return first
		},
	} {
		t.Run(name, func(t *testing.T) {
			oneServer(t, func(t *testing.T, s *server) {
				root := s.cluster.signedIn(s.setup())
				ada := s.cluster.join(root, "admin", "ada")
				for _, name := range []string{"root", "ada"} {
					require.NotContains(t, s.login(name, password).want(http.StatusOK), "must_change_password", "chosen by the user")
				}
				given := reset(t, s, root, ada)
				body := s.login("ada", given).want(http.StatusOK)
				require.Equal(t, true, body["must_change_password"])
				body = s.refresh(body["refresh_token"]).want(http.StatusOK)
				require.Equal(t, true, body["must_change_password"])
				head := s.cluster.head()
				for path, method := range map[string]string{
					usersPath: "GET", invitesPath: "POST", tokensPath: "GET", issuePath: "POST", "/auth/sessions": "GET", "/auth/sessions/x": "DELETE",
				} {
					s.call(body.access(), method, path, object{}).wantError(http.StatusForbidden, code.PasswordChangeRequired)
				}
				require.Equal(t, head, s.cluster.head(), "not recorded")
				s.get(body.access(), "/auth/userinfo").want(http.StatusOK)
				change := func(from, to string) response {
					return s.post(body.access(), changePath, object{"old_password": from, "new_password": to})
				}
				change("wrong password", newPassword).wantError(http.StatusUnauthorized, code.InvalidCredentials)
				change(given, given).wantError(http.StatusBadRequest, wire.ValidationFailed)
				s.get(body.access(), usersPath).wantError(http.StatusForbidden, code.PasswordChangeRequired)
				s.post(s.login("ada", given).want(http.StatusOK).access(), "/auth/logout", nil).want(http.StatusNoContent)
				change(given, newPassword).want(http.StatusNoContent)
				s.get(body.access(), usersPath).want(http.StatusOK)
				require.NotContains(t, s.login("ada", newPassword).want(http.StatusOK), "must_change_password")
				require.NotContains(t, s.refresh(body["refresh_token"]).want(http.StatusOK), "must_change_password")
			})
		})
	}
}

// An intruder who created invitations as the user cannot use them after the reset.
func TestAResetRevokesInvitations(t *testing.T) {
	oneServer(t, func(t *testing.T, s *server) {
		root := s.cluster.signedIn(s.setup())
		ada := s.cluster.join(root, "admin", "ada")
		invite := func(u user) object {
			return s.post(u.token, invitesPath, object{"role": "admin"}).want(http.StatusCreated)
		}
		own, others := invite(root), []object{invite(ada), invite(ada)}
		head := s.cluster.head()
		s.post(root.token, usersPath+"/"+ada.id+"/reset-password", nil).want(http.StatusOK)
		lines := s.cluster.log(head)
		require.Len(t, lines, 3)
		require.Equal(t, `user.reset_password ada {"sessionsEnded":1,"tokensRevoked":0,"invitesRevoked":2,"offline":false}`, lines[0])
		for _, line := range lines[1:] {
			require.True(t, strings.HasPrefix(line, "invite.revoke "), line)
		}
		for _, i := range others {
			s.register(i["token"], "eve").wantError(http.StatusNotFound, code.InviteInvalid)
		}
		_, err := s.accounts.ResetPassword(t.Context(), "root")
		require.NoError(t, err)
		s.register(own["token"], "eve").wantError(http.StatusNotFound, code.InviteInvalid)
	})
}
