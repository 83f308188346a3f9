package identity_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/api"
)

func TestWhatHasEndedIsRemoved(t *testing.T) {
	eachLaunch(t, func(t *testing.T, l *launched) {
		l.setup()
		ended, idle := l.signIn(), l.signIn()
		l.login("root", "wrong password").refused(http.StatusUnauthorized, api.InvalidCredentials)
		l.post(ended.access(), "/auth/logout", nil).want(http.StatusNoContent)
		l.refresh(idle["refresh_token"]).want(http.StatusOK)
		l.o.wait(7*day + time.Second)
		l.o.launch(nil)
		require.Eventually(t, func() bool {
			return l.count(`SELECT COUNT(*) FROM sessions`) == 2 && l.count(`SELECT COUNT(*) FROM login_attempts`) == 0
		}, time.Minute, time.Millisecond, "the one that was ended is gone")
		require.Equal(t, 3, l.count(`SELECT COUNT(*) FROM refresh_tokens`))
		l.o.wait(14 * day)
		l.o.launch(nil)
		require.Eventually(t, func() bool { return l.count(`SELECT COUNT(*) FROM sessions`) == 0 }, time.Minute, time.Millisecond)
		require.Zero(t, l.count(`SELECT COUNT(*) FROM refresh_tokens`))
	})
}

func TestInvitesAndCLITokensAreRemoved(t *testing.T) {
	eachOffice(t, func(t *testing.T, o *office, root person) {
		invite := func(note string) object {
			return o.post(root.token, invitesPath, object{"role": "maintainer", "note": note}).want(http.StatusCreated)
		}
		issue := func(name string, days any) object {
			return o.post(root.token, issuePath, object{"name": name, "expiresInDays": days}).want(http.StatusCreated)
		}
		o.register(invite("used")["token"], "ada").want(http.StatusCreated)
		o.delete(root.token, invitesPath+"/"+invite("revoked").text("id")).want(http.StatusNoContent)
		invite("expires a week later")
		o.delete(root.token, tokensPath+"/"+issue("revoked", nil).text("id")).want(http.StatusNoContent)
		issue("expires a day later", 1)
		issue("expires after a year", 365)
		_, forever := o.issue(root)

		shown := func() []any {
			invites, tokens := o.get(root.token, invitesPath).want(http.StatusOK), o.get(root.token, tokensPath).want(http.StatusOK)
			return append(column(invites, "note"), column(tokens, "name")...)
		}
		// sweep lets time pass, and waits for the replica that starts then to have removed that
		// many rows.
		sweep := func(after time.Duration, invites, tokens int) {
			t.Helper()
			o.wait(after)
			o.launch(nil)
			require.Eventually(t, func() bool {
				return o.count(`SELECT COUNT(*) FROM invites`) == invites && o.count(`SELECT COUNT(*) FROM cli_tokens`) == tokens
			}, time.Minute, time.Millisecond)
			root = o.signedIn(o.signIn())
		}
		invite("a bystander")
		sweep(90*day, 4, 4)
		require.Equal(t, []any{"a bystander", "expires a week later", "revoked", "used", "ci", "expires after a year", "expires a day later"}, shown())
		sweep(time.Microsecond, 2, 3)
		require.Equal(t, []any{"a bystander", "expires a week later", "ci", "expires after a year", "expires a day later"}, shown())
		sweep(day, 2, 2)
		sweep(6*day, 0, 2)
		require.Equal(t, []any{"ci", "expires after a year"}, shown())
		sweep(400*day, 0, 1)
		o.get(forever, "/auth/userinfo").want(http.StatusOK)
		o.get(forever+"0", "/auth/userinfo").refused(http.StatusUnauthorized, api.Unauthenticated)
	})
}
