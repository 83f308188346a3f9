package identity_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/api"
)

const day = 24 * time.Hour

func TestRefresh(t *testing.T) {
	eachLaunch(t, func(t *testing.T, l *launched) {
		first := l.setup()
		l.o.wait(time.Minute)
		head := l.o.head()
		second := l.refresh(first["refresh_token"]).want(http.StatusOK)
		require.Equal(t, first.object("user"), second.object("user"))
		require.NotEqual(t, first["refresh_token"], second["refresh_token"])
		require.NotEqual(t, first["access_token"], second["access_token"])
		require.EqualValues(t, 900, second["expires_in"])
		l.get(first.access(), "/auth/userinfo").want(http.StatusOK)
		l.get(second.access(), "/auth/userinfo").want(http.StatusOK)
		l.refresh(first["refresh_token"]).refused(http.StatusUnauthorized, api.RefreshReused)
		l.refresh("rt_unknown").refused(http.StatusUnauthorized, api.Unauthenticated)
		l.refresh(second.access()).refused(http.StatusUnauthorized, api.Unauthenticated)
		l.refresh("").refused(http.StatusBadRequest, api.ValidationFailed)
		require.Equal(t, head, l.o.head(), "a bare 401 is not recorded")
		l.get(second["refresh_token"].(string), "/auth/userinfo").refused(http.StatusUnauthorized, api.Unauthenticated)
	})
}

func TestRaceForARefresh(t *testing.T) {
	each(t, func(t *testing.T, o *office) {
		l, other := o.launch(nil), o.launch(nil)
		token := l.setup()["refresh_token"]
		for range 5 {
			answers := atOnce(16, func(i int) answer { return []*launched{l, other}[i%2].refresh(token) })
			require.Equal(t, map[string]int{"OK": 1, "refresh_reused": 15}, statuses(answers))
			for _, a := range answers {
				if a.status == http.StatusOK {
					token = a.body["refresh_token"]
					l.get(a.body.access(), "/auth/userinfo").want(http.StatusOK)
				}
			}
		}
		require.Equal(t, 1, l.count(`SELECT COUNT(*) FROM refresh_tokens WHERE rotated_at IS NULL`))
	})
}

func TestRefreshReuse(t *testing.T) {
	eachLaunch(t, func(t *testing.T, l *launched) {
		l.setup()
		first, bystander := l.signIn(), l.signIn()
		second := l.refresh(first["refresh_token"]).want(http.StatusOK)
		head := l.o.head()
		l.o.wait(10 * time.Second)
		l.refresh(first["refresh_token"]).refused(http.StatusUnauthorized, api.RefreshReused)
		l.get(first.access(), "/auth/userinfo").want(http.StatusOK)
		require.Equal(t, head, l.o.head(), "within 10 s nothing else happens")

		l.o.wait(time.Microsecond)
		l.refresh(first["refresh_token"]).refused(http.StatusUnauthorized, api.RefreshReused)
		for _, access := range []string{first.access(), second.access()} {
			l.get(access, "/auth/userinfo").refused(http.StatusUnauthorized, api.TokenRevoked)
		}
		l.refresh(second["refresh_token"]).refused(http.StatusUnauthorized, api.TokenRevoked)
		lines := l.o.log(head)
		require.Len(t, lines, 1)
		require.True(t, strings.HasPrefix(lines[0], "auth.refresh_reuse root "), lines[0])

		l.refresh(first["refresh_token"]).refused(http.StatusUnauthorized, api.RefreshReused)
		require.Len(t, l.o.log(head), 1, "a family ends once")
		l.get(bystander.access(), "/auth/userinfo").want(http.StatusOK)
		l.refresh(bystander["refresh_token"]).want(http.StatusOK)
	})
}

func TestSessionsEndByTheirAge(t *testing.T) {
	eachLaunch(t, func(t *testing.T, l *launched) {
		l.setup()
		for _, row := range []struct {
			name string
			idle time.Duration
			want int
		}{
			{"a moment before 14 days", 14*day - time.Microsecond, http.StatusOK},
			{"after 14 days", 14 * day, http.StatusUnauthorized},
		} {
			t.Run(row.name, func(t *testing.T) {
				token := l.signIn()["refresh_token"]
				l.o.wait(row.idle)
				l.refresh(token).want(row.want)
			})
		}
		t.Run("after 90 days, however often it was refreshed", func(t *testing.T) {
			body := l.signIn()
			for range 6 {
				l.o.wait(13 * day)
				body = l.refresh(body["refresh_token"]).want(http.StatusOK)
			}
			l.o.wait(12*day - 10*time.Minute)
			body = l.refresh(body["refresh_token"]).want(http.StatusOK)
			require.EqualValues(t, 600, body["expires_in"], "no token outlives its session")
			require.EqualValues(t, 600, body["refresh_expires_in"])
			l.get(body.access(), "/auth/userinfo").want(http.StatusOK)
			l.o.wait(10 * time.Minute)
			l.refresh(body["refresh_token"]).refused(http.StatusUnauthorized, api.TokenExpired)
			l.get(body.access(), "/auth/userinfo").refused(http.StatusUnauthorized, api.TokenExpired)
		})
	})
}

func TestRefreshTellsTheRoleOfNow(t *testing.T) {
	eachLaunch(t, func(t *testing.T, l *launched) {
		root := l.setup()
		invite := l.post(root.access(), invitesPath, object{"role": "maintainer"}).want(http.StatusCreated)
		mia := l.register(invite["token"], "mia").want(http.StatusCreated)
		path := usersPath + "/" + mia.object("user").text("id")
		l.patch(root.access(), path, object{"role": "member"}).want(http.StatusOK)
		require.Equal(t, "member", l.get(mia.access(), "/auth/userinfo").want(http.StatusOK)["role"])
		mia = l.refresh(mia["refresh_token"]).want(http.StatusOK)
		require.Equal(t, "member", mia.object("user")["role"])
		l.patch(root.access(), path, object{"status": "disabled"}).want(http.StatusOK)
		l.get(mia.access(), "/auth/userinfo").refused(http.StatusForbidden, api.AccountDisabled)
		l.refresh(mia["refresh_token"]).refused(http.StatusForbidden, api.AccountDisabled)
		l.patch(root.access(), path, object{"status": "active"}).want(http.StatusOK)
		l.get(mia.access(), "/auth/userinfo").refused(http.StatusUnauthorized, api.TokenRevoked)
		l.refresh(mia["refresh_token"]).refused(http.StatusUnauthorized, api.TokenRevoked)
		l.delete(root.access(), path).want(http.StatusNoContent)
		l.get(mia.access(), "/auth/userinfo").refused(http.StatusUnauthorized, api.TokenRevoked)
		l.refresh(mia["refresh_token"]).refused(http.StatusUnauthorized, api.Unauthenticated)
	})
}
