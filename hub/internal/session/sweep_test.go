package session_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
)

func TestExpiredRowsAreRemoved(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		s.setup()
		ended, idle := s.signIn(), s.signIn()
		s.login("root", "wrong password").wantError(http.StatusUnauthorized, code.InvalidCredentials)
		s.post(ended.access(), "/auth/logout", nil).want(http.StatusNoContent)
		s.refresh(idle["refresh_token"]).want(http.StatusOK)
		s.cluster.wait(7*day + time.Second)
		s.cluster.start(nil)
		require.Eventually(t, func() bool {
			return s.count(`SELECT COUNT(*) FROM sessions`) == 2 && s.count(`SELECT COUNT(*) FROM login_attempts`) == 0
		}, time.Minute, 20*time.Millisecond, "the one that was ended is gone")
		require.Equal(t, 3, s.count(`SELECT COUNT(*) FROM refresh_tokens`))
		s.cluster.wait(14 * day)
		s.cluster.start(nil)
		require.Eventually(t, func() bool { return s.count(`SELECT COUNT(*) FROM sessions`) == 0 }, time.Minute, 20*time.Millisecond)
		require.Zero(t, s.count(`SELECT COUNT(*) FROM refresh_tokens`))
	})
}

func TestInvitesAndCLITokensAreRemoved(t *testing.T) {
	eachWithRoot(t, func(t *testing.T, c *cluster, root user) {
		invite := func(note string) object {
			return c.post(root.token, invitesPath, object{"role": "maintainer", "note": note}).want(http.StatusCreated)
		}
		issue := func(name string, days any) object {
			return c.post(root.token, issuePath, object{"name": name, "expiresInDays": days}).want(http.StatusCreated)
		}
		c.register(invite("used")["token"], "ada").want(http.StatusCreated)
		c.delete(root.token, invitesPath+"/"+invite("revoked").text("id")).want(http.StatusNoContent)
		invite("expires a week later")
		c.delete(root.token, tokensPath+"/"+issue("revoked", nil).text("id")).want(http.StatusNoContent)
		issue("expires a day later", 1)
		issue("expires after a year", 365)
		_, forever := c.issue(root)

		shown := func() []any {
			invites, tokens := c.get(root.token, invitesPath).want(http.StatusOK), c.get(root.token, tokensPath).want(http.StatusOK)
			return append(column(invites, "note"), column(tokens, "name")...)
		}
		// sweep lets time pass, and waits for the replica that starts then to have removed that
		// many rows.
		sweep := func(after time.Duration, invites, tokens int) {
			t.Helper()
			c.wait(after)
			c.start(nil)
			require.Eventually(t, func() bool {
				return c.count(`SELECT COUNT(*) FROM invites`) == invites && c.count(`SELECT COUNT(*) FROM cli_tokens`) == tokens
			}, time.Minute, 20*time.Millisecond)
			root = c.signedIn(c.signIn())
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
		c.get(forever, "/auth/userinfo").want(http.StatusOK)
		c.get(forever+"0", "/auth/userinfo").wantError(http.StatusUnauthorized, wire.Unauthenticated)
	})
}
