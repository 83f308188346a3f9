package identity_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/identity"
)

const changePath = "/auth/change-password"

func TestLogout(t *testing.T) {
	eachLaunch(t, func(t *testing.T, l *launched) {
		root := person{token: l.setup().access()}
		for _, row := range []struct {
			name   string
			logout func(body object) answer
		}{
			{"with the access token", func(b object) answer { return l.post(b.access(), "/auth/logout", nil) }},
			{"with an empty object", func(b object) answer { return l.post(b.access(), "/auth/logout", object{}) }},
			{"with both", func(b object) answer {
				return l.post(b.access(), "/auth/logout", object{"refresh_token": b["refresh_token"]})
			}},
			{"with the refresh token alone", func(b object) answer {
				return l.post("", "/auth/logout", object{"refresh_token": b["refresh_token"]})
			}},
			{"with an access token that is not valid, and the refresh token", func(b object) answer {
				return l.post("a.b.c", "/auth/logout", object{"refresh_token": b["refresh_token"]})
			}},
		} {
			t.Run(row.name, func(t *testing.T) {
				body := l.signIn()
				l.get(body.access(), "/auth/userinfo").want(http.StatusOK)
				head := l.o.head()
				row.logout(body).want(http.StatusNoContent)
				l.get(body.access(), "/auth/userinfo").refused(http.StatusUnauthorized, api.TokenRevoked)
				l.refresh(body["refresh_token"]).refused(http.StatusUnauthorized, api.TokenRevoked)
				row.logout(body).refused(http.StatusUnauthorized, api.TokenRevoked)
				require.Len(t, l.o.log(head), 1)
				require.True(t, strings.HasPrefix(l.o.log(head)[0], "auth.logout root "))
				l.get(root.token, "/auth/userinfo").want(http.StatusOK)
			})
		}
		t.Run("with a CLI token", func(t *testing.T) {
			_, token := l.issue(root)
			l.get(token, "/auth/userinfo").want(http.StatusOK)
			head := l.o.head()
			l.post(token, "/auth/logout", nil).want(http.StatusNoContent)
			l.get(token, "/auth/userinfo").refused(http.StatusUnauthorized, api.TokenRevoked)
			require.True(t, strings.HasPrefix(l.o.log(head)[0], `token.revoke ci {"owner":"root",`))
			l.get(root.token, "/auth/userinfo").want(http.StatusOK)
		})
		t.Run("with nothing", func(t *testing.T) {
			l.post("", "/auth/logout", nil).refused(http.StatusUnauthorized, api.Unauthenticated)
			l.post("", "/auth/logout", object{"refresh_token": "rt_unknown"}).refused(http.StatusUnauthorized, api.Unauthenticated)
			l.post("", "/auth/logout", `{"refresh_token":1}`).refused(http.StatusBadRequest, api.InvalidRequest)
		})
	})
}

func TestSessionsOfOnesOwn(t *testing.T) {
	eachLaunch(t, func(t *testing.T, l *launched) {
		root := l.setup()
		mia := l.o.join(person{token: root.access()}, "member", "mia")
		l.o.wait(time.Second)
		laptop := l.ask(http.MethodPost, "/auth/login", `{"username":"mia","password":"`+password+`"}`, func(r *http.Request) {
			r.Header.Set("User-Agent", "laptop")
		}).want(http.StatusOK)
		list := l.get(mia.token, "/auth/sessions").want(http.StatusOK)
		require.EqualValues(t, 2, list["total"])
		items := list.items()
		require.Equal(t, []any{"laptop", "Go-http-client/1.1"}, []any{items[0]["userAgent"], items[1]["userAgent"]})
		require.Equal(t, []any{false, true}, []any{items[0]["current"], items[1]["current"]})
		require.Equal(t, "127.0.0.1", items[0]["remoteIp"])
		require.Equal(t, "2026-03-01T12:00:01.123456Z", items[0]["createdAt"])
		require.Equal(t, items[0]["createdAt"], items[0]["lastUsedAt"])
		require.Len(t, items[0], 6)

		path := "/auth/sessions/" + items[0].text("id")
		l.delete(root.access(), path).refused(http.StatusNotFound, api.NotFound)
		l.delete(mia.token, "/auth/sessions/that-of-yesterday").refused(http.StatusNotFound, api.NotFound)
		l.get(laptop.access(), "/auth/userinfo").want(http.StatusOK)
		head := l.o.head()
		l.delete(mia.token, "/auth/sessions/"+strings.ToUpper(items[0].text("id"))).want(http.StatusNoContent)
		require.Equal(t, []string{`auth.revoke_session mia {"sessionId":"` + items[0].text("id") + `"}`}, l.o.log(head))
		l.get(laptop.access(), "/auth/userinfo").refused(http.StatusUnauthorized, api.TokenRevoked)
		l.refresh(laptop["refresh_token"]).refused(http.StatusUnauthorized, api.TokenRevoked)
		l.delete(mia.token, path).refused(http.StatusNotFound, api.NotFound)
		require.EqualValues(t, 1, l.get(mia.token, "/auth/sessions").want(http.StatusOK)["total"])
		require.Empty(t, l.get(mia.token, "/auth/sessions?page=2").want(http.StatusOK).items())
		l.get(mia.token, "/auth/sessions?page=0").refused(http.StatusBadRequest, api.InvalidRequest)
		l.delete(mia.token, "/auth/sessions/"+items[1].text("id")).want(http.StatusNoContent)
		l.get(mia.token, "/auth/sessions").refused(http.StatusUnauthorized, api.TokenRevoked)
	})
}

func TestUseIsWrittenDownOnceAMinute(t *testing.T) {
	each(t, func(t *testing.T, o *office) {
		l, other := o.launch(nil), o.launch(nil)
		token := l.setup().access()
		used := func() int { return l.count(`SELECT last_used_at FROM sessions`) - int(o.start.UnixMicro()) }
		o.wait(59 * time.Second)
		l.get(token, "/auth/userinfo").want(http.StatusOK)
		o.wait(time.Second)
		l.get(token, "/auth/userinfo").want(http.StatusOK)
		written := func(want time.Duration) func() bool { return func() bool { return used() == int(want.Microseconds()) } }
		require.Eventually(t, written(time.Minute), time.Minute, time.Millisecond)
		o.wait(59 * time.Second)
		other.get(token, "/auth/userinfo").want(http.StatusOK)
		o.wait(time.Second)
		other.get(token, "/auth/userinfo").want(http.StatusOK)
		require.Eventually(t, written(2*time.Minute), time.Minute, time.Millisecond)
	})
}

// A use that could not be written is written later.
func TestUseIsWrittenDownLater(t *testing.T) {
	t.Parallel()
	l := onSQLite(t, nil)
	l.setup()
	a, b := l.signIn().access(), l.signIn().access()
	l.o.wait(time.Minute)
	l.exec(`CREATE TRIGGER full BEFORE UPDATE ON sessions BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`)
	l.get(a, "/auth/userinfo").want(http.StatusOK)
	require.Eventually(t, func() bool { return strings.Contains(l.logs.String(), "writing last use failed") }, time.Minute, time.Millisecond)
	l.exec(`DROP TRIGGER full`)
	l.get(b, "/auth/userinfo").want(http.StatusOK)
	require.Eventually(t, func() bool {
		return l.count(`SELECT COUNT(*) FROM sessions WHERE last_used_at = $1`, l.o.now().UnixMicro()) == 2
	}, time.Minute, time.Millisecond)
}

func TestChangePassword(t *testing.T) {
	const newPassword = "another horse, another battery"
	eachLaunch(t, func(t *testing.T, l *launched) {
		own := l.setup()
		_, token := l.issue(person{token: own.access()})
		other := l.signIn()
		change := func(token, from, to string) answer {
			return l.post(token, changePath, object{"old_password": from, "new_password": to})
		}
		head := l.o.head()
		change(own.access(), "wrong password", newPassword).refused(http.StatusUnauthorized, api.InvalidCredentials)
		change(own.access(), password, "short").refused(http.StatusBadRequest, api.ValidationFailed)
		change(own.access(), "", newPassword).refused(http.StatusBadRequest, api.ValidationFailed)
		change(token, password, newPassword).refused(http.StatusForbidden, api.Forbidden)
		change("", password, newPassword).refused(http.StatusUnauthorized, api.Unauthenticated)
		l.get(other.access(), "/auth/userinfo").want(http.StatusOK)
		change(own.access(), password, newPassword).want(http.StatusNoContent)
		require.Equal(t, []string{
			`auth.change_password root {"reason":"invalid_credentials","sessionsEnded":0}`,
			`auth.change_password root {"sessionsEnded":1}`,
		}, l.o.log(head))

		l.get(own.access(), "/auth/userinfo").want(http.StatusOK)
		l.refresh(own["refresh_token"]).want(http.StatusOK)
		l.get(other.access(), "/auth/userinfo").refused(http.StatusUnauthorized, api.TokenRevoked)
		l.refresh(other["refresh_token"]).refused(http.StatusUnauthorized, api.TokenRevoked)
		l.get(token, "/auth/userinfo").want(http.StatusOK)
		l.login("root", password).refused(http.StatusUnauthorized, api.InvalidCredentials)
		l.login("root", newPassword).want(http.StatusOK)
		for range 5 {
			change(own.access(), "wrong password", newPassword).refused(http.StatusUnauthorized, api.InvalidCredentials)
		}
		change(own.access(), newPassword, password).refused(http.StatusTooManyRequests, api.RateLimited)
		l.login("root", newPassword).want(http.StatusOK) // counted separately
	})
}

func TestRaceOfPasswordChangeAndLogins(t *testing.T) {
	const newPassword = "another horse, another battery"
	eachLaunch(t, func(t *testing.T, l *launched) {
		own := l.setup()
		answers := atOnce(7, func(i int) answer {
			if i == 3 {
				return l.post(own.access(), changePath, object{"old_password": password, "new_password": newPassword})
			}
			return l.login("root", password)
		})
		answers[3].want(http.StatusNoContent)
		for i, a := range answers {
			if i != 3 && a.status == http.StatusOK {
				l.get(a.body.access(), "/auth/userinfo").refused(http.StatusUnauthorized, api.TokenRevoked)
			}
		}
		require.Equal(t, 1, l.count(`SELECT COUNT(*) FROM sessions WHERE revoked_at IS NULL`), "no session of the old password is left")
	})
}

func TestResetPassword(t *testing.T) {
	each(t, func(t *testing.T, o *office) {
		l := o.launch(nil)
		root := l.setup()
		_, token := l.issue(person{token: root.access()})
		for range 5 {
			l.login("root", "wrong password").refused(http.StatusUnauthorized, api.InvalidCredentials)
		}
		head := o.head()
		offline := o.launch(nil).service
		given, err := offline.ResetPassword(t.Context(), "ROOT")
		require.NoError(t, err)
		require.Len(t, given, 26)
		o.wait(2 * time.Second)
		l.get(root.access(), "/auth/userinfo").refused(http.StatusUnauthorized, api.TokenRevoked)
		l.get(token, "/auth/userinfo").refused(http.StatusUnauthorized, api.TokenRevoked)
		l.refresh(root["refresh_token"]).refused(http.StatusUnauthorized, api.TokenRevoked)
		require.Equal(t, []string{`user.reset_password root {"sessionsEnded":1,"tokensRevoked":1,"invitesRevoked":0,"offline":true}`}, o.log(head))
		l.login("root", password).refused(http.StatusUnauthorized, api.InvalidCredentials)
		l.login("root", given).want(http.StatusOK)
		_, err = offline.ResetPassword(t.Context(), "nobody")
		require.ErrorIs(t, err, identity.ErrNoUser)
	})
}
