package session_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	users "github.com/seed93082962/agenthost/hub/internal/user"
	"github.com/seed93082962/agenthost/hub/wire"
)

const changePath = "/auth/change-password"

func TestLogout(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		root := user{token: s.setup().access()}
		for _, row := range []struct {
			name   string
			logout func(body object) response
		}{
			{"with the access token", func(b object) response { return s.post(b.access(), "/auth/logout", nil) }},
			{"with an empty object", func(b object) response { return s.post(b.access(), "/auth/logout", object{}) }},
			{"with both", func(b object) response {
				return s.post(b.access(), "/auth/logout", object{"refresh_token": b["refresh_token"]})
			}},
			{"with the refresh token alone", func(b object) response {
				return s.post("", "/auth/logout", object{"refresh_token": b["refresh_token"]})
			}},
			{"with an access token that is not valid, and the refresh token", func(b object) response {
				return s.post("a.b.c", "/auth/logout", object{"refresh_token": b["refresh_token"]})
			}},
		} {
			t.Run(row.name, func(t *testing.T) {
				body := s.signIn()
				s.get(body.access(), "/auth/userinfo").want(http.StatusOK)
				head := s.cluster.head()
				row.logout(body).want(http.StatusNoContent)
				s.get(body.access(), "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenRevoked)
				s.refresh(body["refresh_token"]).wantError(http.StatusUnauthorized, wire.TokenRevoked)
				row.logout(body).wantError(http.StatusUnauthorized, wire.TokenRevoked)
				require.Len(t, s.cluster.log(head), 1)
				require.True(t, strings.HasPrefix(s.cluster.log(head)[0], "auth.logout root "))
				s.get(root.token, "/auth/userinfo").want(http.StatusOK)
			})
		}
		t.Run("with a CLI token", func(t *testing.T) {
			_, token := s.issue(root)
			s.get(token, "/auth/userinfo").want(http.StatusOK)
			head := s.cluster.head()
			s.post(token, "/auth/logout", nil).want(http.StatusNoContent)
			s.get(token, "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenRevoked)
			require.True(t, strings.HasPrefix(s.cluster.log(head)[0], `token.revoke ci {"owner":"root",`))
			s.get(root.token, "/auth/userinfo").want(http.StatusOK)
		})
		t.Run("with nothing", func(t *testing.T) {
			s.post("", "/auth/logout", nil).wantError(http.StatusUnauthorized, wire.Unauthenticated)
			s.post("", "/auth/logout", object{"refresh_token": "rt_unknown"}).wantError(http.StatusUnauthorized, wire.Unauthenticated)
			s.post("", "/auth/logout", `{"refresh_token":1}`).wantError(http.StatusBadRequest, wire.InvalidRequest)
		})
	})
}

func TestUsersListAndEndTheirSessions(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		root := s.setup()
		mia := s.cluster.join(user{token: root.access()}, "member", "mia")
		s.cluster.wait(time.Second)
		laptop := s.send(http.MethodPost, "/auth/login", `{"username":"mia","password":"`+password+`"}`, func(r *http.Request) {
			r.Header.Set("User-Agent", "laptop")
		}).want(http.StatusOK)
		list := s.get(mia.token, "/auth/sessions").want(http.StatusOK)
		require.EqualValues(t, 2, list["total"])
		items := list.items()
		require.Equal(t, []any{"laptop", "Go-http-client/1.1"}, []any{items[0]["userAgent"], items[1]["userAgent"]})
		require.Equal(t, []any{false, true}, []any{items[0]["current"], items[1]["current"]})
		require.Equal(t, "127.0.0.1", items[0]["remoteIp"])
		require.Equal(t, "2026-03-01T12:00:01.123456Z", items[0]["createdAt"])
		require.Equal(t, items[0]["createdAt"], items[0]["lastUsedAt"])
		require.Len(t, items[0], 6)

		path := "/auth/sessions/" + items[0].text("id")
		s.delete(root.access(), path).wantError(http.StatusNotFound, wire.NotFound)
		s.delete(mia.token, "/auth/sessions/that-of-yesterday").wantError(http.StatusNotFound, wire.NotFound)
		s.get(laptop.access(), "/auth/userinfo").want(http.StatusOK)
		head := s.cluster.head()
		s.delete(mia.token, "/auth/sessions/"+strings.ToUpper(items[0].text("id"))).want(http.StatusNoContent)
		require.Equal(t, []string{`auth.revoke_session mia {"sessionId":"` + items[0].text("id") + `"}`}, s.cluster.log(head))
		s.get(laptop.access(), "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenRevoked)
		s.refresh(laptop["refresh_token"]).wantError(http.StatusUnauthorized, wire.TokenRevoked)
		s.delete(mia.token, path).wantError(http.StatusNotFound, wire.NotFound)
		require.EqualValues(t, 1, s.get(mia.token, "/auth/sessions").want(http.StatusOK)["total"])
		require.Empty(t, s.get(mia.token, "/auth/sessions?page=2").want(http.StatusOK).items())
		s.get(mia.token, "/auth/sessions?page=0").wantError(http.StatusBadRequest, wire.InvalidRequest)
		s.delete(mia.token, "/auth/sessions/"+items[1].text("id")).want(http.StatusNoContent)
		s.get(mia.token, "/auth/sessions").wantError(http.StatusUnauthorized, wire.TokenRevoked)
	})
}

func TestUseIsRecordedOnceAMinute(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		s, other := c.start(nil), c.start(nil)
		token := s.setup().access()
		used := func() int { return s.count(`SELECT last_used_at FROM sessions`) - int(c.epoch.UnixMicro()) }
		c.wait(59 * time.Second)
		s.get(token, "/auth/userinfo").want(http.StatusOK)
		c.wait(time.Second)
		s.get(token, "/auth/userinfo").want(http.StatusOK)
		written := func(want time.Duration) func() bool { return func() bool { return used() == int(want.Microseconds()) } }
		require.Eventually(t, written(time.Minute), time.Minute, 20*time.Millisecond)
		c.wait(59 * time.Second)
		other.get(token, "/auth/userinfo").want(http.StatusOK)
		c.wait(time.Second)
		other.get(token, "/auth/userinfo").want(http.StatusOK)
		require.Eventually(t, written(2*time.Minute), time.Minute, 20*time.Millisecond)
	})
}

// A use that could not be written is written later.
func TestUseIsRecordedInTheBackground(t *testing.T) {
	t.Parallel()
	s := onSQLite(t, nil)
	s.setup()
	a, b := s.signIn().access(), s.signIn().access()
	s.cluster.wait(time.Minute)
	s.exec(`CREATE TRIGGER full BEFORE UPDATE ON sessions BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`)
	s.get(a, "/auth/userinfo").want(http.StatusOK)
	require.Eventually(t, func() bool { return strings.Contains(s.logs.String(), "writing last use failed") }, time.Minute, 20*time.Millisecond)
	s.exec(`DROP TRIGGER full`)
	s.get(b, "/auth/userinfo").want(http.StatusOK)
	require.Eventually(t, func() bool {
		return s.count(`SELECT COUNT(*) FROM sessions WHERE last_used_at = $1`, s.cluster.now().UnixMicro()) == 2
	}, time.Minute, 20*time.Millisecond)
}

func TestChangePassword(t *testing.T) {
	const newPassword = "another horse, another battery"
	eachServer(t, func(t *testing.T, s *server) {
		own := s.setup()
		_, token := s.issue(user{token: own.access()})
		other := s.signIn()
		change := func(token, from, to string) response {
			return s.post(token, changePath, object{"old_password": from, "new_password": to})
		}
		head := s.cluster.head()
		change(own.access(), "wrong password", newPassword).wantError(http.StatusUnauthorized, code.InvalidCredentials)
		change(own.access(), password, "short").wantError(http.StatusBadRequest, wire.ValidationFailed)
		change(own.access(), "", newPassword).wantError(http.StatusBadRequest, wire.ValidationFailed)
		change(token, password, newPassword).wantError(http.StatusForbidden, wire.Forbidden)
		change("", password, newPassword).wantError(http.StatusUnauthorized, wire.Unauthenticated)
		s.get(other.access(), "/auth/userinfo").want(http.StatusOK)
		change(own.access(), password, newPassword).want(http.StatusNoContent)
		require.Equal(t, []string{
			`auth.change_password root {"reason":"invalid_credentials","sessionsEnded":0}`,
			`auth.change_password root {"sessionsEnded":1}`,
		}, s.cluster.log(head))

		s.get(own.access(), "/auth/userinfo").want(http.StatusOK)
		s.refresh(own["refresh_token"]).want(http.StatusOK)
		s.get(other.access(), "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenRevoked)
		s.refresh(other["refresh_token"]).wantError(http.StatusUnauthorized, wire.TokenRevoked)
		s.get(token, "/auth/userinfo").want(http.StatusOK)
		s.login("root", password).wantError(http.StatusUnauthorized, code.InvalidCredentials)
		s.login("root", newPassword).want(http.StatusOK)
	})
}

func TestRaceOfPasswordChangeAndLogins(t *testing.T) {
	const newPassword = "another horse, another battery"
	eachServer(t, func(t *testing.T, s *server) {
		own := s.setup()
		responses := atOnce(7, func(i int) response {
			if i == 3 {
				return s.post(own.access(), changePath, object{"old_password": password, "new_password": newPassword})
			}
			return s.login("root", password)
		})
		responses[3].want(http.StatusNoContent)
		for i, res := range responses {
			if i != 3 && res.status == http.StatusOK {
				s.get(res.body.access(), "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenRevoked)
			}
		}
		require.Equal(t, 1, s.count(`SELECT COUNT(*) FROM sessions WHERE revoked_at IS NULL`), "no session of the old password is left")
	})
}

func TestResetPassword(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		s := c.start(nil)
		root := s.setup()
		_, token := s.issue(user{token: root.access()})
		for range 5 {
			s.login("root", "wrong password").wantError(http.StatusUnauthorized, code.InvalidCredentials)
		}
		head := c.head()
		offline := c.start(nil).accounts
		given, err := offline.ResetPassword(t.Context(), "ROOT")
		require.NoError(t, err)
		require.Len(t, given, 26)
		c.wait(2 * time.Second)
		s.get(root.access(), "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenRevoked)
		s.get(token, "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenRevoked)
		s.refresh(root["refresh_token"]).wantError(http.StatusUnauthorized, wire.TokenRevoked)
		require.Equal(t, []string{`user.reset_password root {"sessionsEnded":1,"tokensRevoked":1,"invitesRevoked":0,"offline":true}`}, c.log(head))
		s.login("root", password).wantError(http.StatusUnauthorized, code.InvalidCredentials)
		s.login("root", given).want(http.StatusOK)
		_, err = offline.ResetPassword(t.Context(), "nobody")
		require.ErrorIs(t, err, users.ErrNoUser)
	})
}
