package identity_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/identity"
)

// After a reset of the password, by an administrator or by the command, nothing works but the
// change of the password.
func TestAResetPasswordMustBeChanged(t *testing.T) {
	const newPassword = "another horse, another battery"
	for name, reset := range map[string]func(t *testing.T, l *launched, root, ada person) string{
		"by an administrator": func(_ *testing.T, l *launched, root, ada person) string {
			return l.post(root.token, usersPath+"/"+ada.id+"/reset-password", nil).want(http.StatusOK).text("password")
		},
		"by the command": func(t *testing.T, l *launched, _, _ person) string {
			password, err := l.o.launch(func(c *identity.Config) { c.Offline = true }).service.ResetPassword(t.Context(), "ada")
			require.NoError(t, err)
			return password
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachLaunch(t, func(t *testing.T, l *launched) {
				root := l.o.signedIn(l.setup())
				ada := l.o.join(root, "admin", "ada")
				given := reset(t, l, root, ada)
				body := l.login("ada", given).want(http.StatusOK)
				require.Equal(t, true, body["must_change_password"])
				body = l.refresh(body["refresh_token"]).want(http.StatusOK)
				require.Equal(t, true, body["must_change_password"])
				head := l.o.head()
				for path, method := range map[string]string{
					usersPath: "GET", invitesPath: "POST", tokensPath: "GET", issuePath: "POST", "/auth/sessions": "GET", "/auth/sessions/x": "DELETE",
				} {
					l.call(body.access(), method, path, object{}).refused(http.StatusForbidden, api.PasswordChangeRequired)
				}
				require.Equal(t, head, l.o.head(), "not recorded")
				l.get(body.access(), "/auth/userinfo").want(http.StatusOK)
				change := func(from, to string) answer {
					return l.post(body.access(), changePath, object{"old_password": from, "new_password": to})
				}
				change("wrong password", newPassword).refused(http.StatusUnauthorized, api.InvalidCredentials)
				change(given, given).refused(http.StatusBadRequest, api.ValidationFailed)
				l.get(body.access(), usersPath).refused(http.StatusForbidden, api.PasswordChangeRequired)
				l.post(l.login("ada", given).want(http.StatusOK).access(), "/auth/logout", nil).want(http.StatusNoContent)
				change(given, newPassword).want(http.StatusNoContent)
				l.get(body.access(), usersPath).want(http.StatusOK)
				require.NotContains(t, l.login("ada", newPassword).want(http.StatusOK), "must_change_password")
				require.NotContains(t, l.refresh(body["refresh_token"]).want(http.StatusOK), "must_change_password")
			})
		})
	}
}

// An intruder who created invitations as the user cannot use them after the reset.
func TestAResetRevokesInvitations(t *testing.T) {
	eachLaunch(t, func(t *testing.T, l *launched) {
		root := l.o.signedIn(l.setup())
		ada := l.o.join(root, "admin", "ada")
		invite := func(p person) object {
			return l.post(p.token, invitesPath, object{"role": "admin"}).want(http.StatusCreated)
		}
		own, others := invite(root), []object{invite(ada), invite(ada)}
		head := l.o.head()
		l.post(root.token, usersPath+"/"+ada.id+"/reset-password", nil).want(http.StatusOK)
		lines := l.o.log(head)
		require.Len(t, lines, 3)
		require.Equal(t, `user.reset_password ada {"sessionsEnded":1,"tokensRevoked":0,"invitesRevoked":2,"offline":false}`, lines[0])
		for _, line := range lines[1:] {
			require.True(t, strings.HasPrefix(line, "invite.revoke "), line)
		}
		for _, i := range others {
			l.register(i["token"], "eve").refused(http.StatusNotFound, api.InviteInvalid)
		}
		_, err := l.service.ResetPassword(t.Context(), "root")
		require.NoError(t, err)
		l.register(own["token"], "eve").refused(http.StatusNotFound, api.InviteInvalid)
	})
}
