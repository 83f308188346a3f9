package identity_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/api"
)

// The replica that rotated a token may have a clock that is ahead, but not by any amount: a stolen
// token would be accepted as a retry until then.
func TestRefreshReuseUnderClocksThatDiffer(t *testing.T) {
	for _, row := range []struct {
		name  string
		ahead time.Duration // the clock of the replica that rotates
		ends  bool
	}{
		{"5 seconds", 5 * time.Second, false},
		{"more than 5 seconds", 5*time.Second + time.Microsecond, true},
		{"an hour", time.Hour, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			eachLaunch(t, func(t *testing.T, l *launched) {
				first := l.setup()
				l.o.wait(row.ahead)
				second := l.refresh(first["refresh_token"]).want(http.StatusOK)
				l.o.wait(-row.ahead)
				head := l.o.head()
				l.refresh(first["refresh_token"]).refused(http.StatusUnauthorized, api.RefreshReused)
				if !row.ends {
					require.Equal(t, head, l.o.head())
					l.refresh(second["refresh_token"]).want(http.StatusOK)
					return
				}
				lines := l.o.log(head)
				require.Len(t, lines, 1)
				require.True(t, strings.HasPrefix(lines[0], "auth.refresh_reuse root "), lines[0])
				l.refresh(second["refresh_token"]).refused(http.StatusUnauthorized, api.TokenRevoked)
			})
		})
	}
}

func TestLogoutWithARotatedToken(t *testing.T) {
	eachLaunch(t, func(t *testing.T, l *launched) {
		first := l.setup()
		second := l.refresh(first["refresh_token"]).want(http.StatusOK)
		head := l.o.head()
		logout := func() answer {
			return l.post("", "/auth/logout", object{"refresh_token": first["refresh_token"]})
		}
		l.o.wait(10 * time.Second)
		logout().refused(http.StatusUnauthorized, api.RefreshReused)
		l.get(second.access(), "/auth/userinfo").want(http.StatusOK)
		require.Equal(t, head, l.o.head(), "within 10 s it is a retry")

		l.o.wait(time.Microsecond)
		logout().refused(http.StatusUnauthorized, api.RefreshReused)
		l.get(second.access(), "/auth/userinfo").refused(http.StatusUnauthorized, api.TokenRevoked)
		lines := l.o.log(head)
		require.Len(t, lines, 1)
		require.True(t, strings.HasPrefix(lines[0], "auth.refresh_reuse root "), lines[0])
		logout().refused(http.StatusUnauthorized, api.RefreshReused)
		require.Len(t, l.o.log(head), 1)
	})
}

// Clients send both tokens. The bearer token must not hide that the refresh token is a copy.
func TestLogoutWithABearerAndARotatedToken(t *testing.T) {
	eachLaunch(t, func(t *testing.T, l *launched) {
		first := l.setup()
		logout := func(bearer, refresh object) answer {
			return l.post(bearer.access(), "/auth/logout", object{"refresh_token": refresh["refresh_token"]})
		}
		second := l.refresh(first["refresh_token"]).want(http.StatusOK)
		other := l.signIn()
		l.o.wait(10 * time.Second)
		head := l.o.head()
		logout(other, first).want(http.StatusNoContent)
		l.get(second.access(), "/auth/userinfo").want(http.StatusOK)
		require.Len(t, l.o.log(head), 1, "within 10 s it is a retry, and only the bearer token counts")

		l.o.wait(time.Microsecond)
		head = l.o.head()
		other = l.signIn()
		logout(second, object{"refresh_token": "rt_unknown"}).want(http.StatusNoContent)
		logout(other, first).want(http.StatusNoContent) // its session has ended
		require.Len(t, l.o.log(head), 3, "the sign-in and two sign-outs")

		first = l.signIn()
		second, other = l.refresh(first["refresh_token"]).want(http.StatusOK), l.signIn()
		l.o.wait(10*time.Second + time.Microsecond)
		head = l.o.head()
		logout(other, first).refused(http.StatusUnauthorized, api.RefreshReused)
		for _, ended := range []object{second, other} {
			l.get(ended.access(), "/auth/userinfo").refused(http.StatusUnauthorized, api.TokenRevoked)
		}
		require.Len(t, l.o.log(head), 2, "the reuse and the sign-out")

		first = l.signIn()
		second = l.refresh(first["refresh_token"]).want(http.StatusOK)
		l.o.wait(10*time.Second + time.Microsecond)
		head = l.o.head()
		logout(second, first).refused(http.StatusUnauthorized, api.RefreshReused)
		l.get(second.access(), "/auth/userinfo").refused(http.StatusUnauthorized, api.TokenRevoked)
		lines := l.o.log(head)
		require.Len(t, lines, 1)
		require.True(t, strings.HasPrefix(lines[0], "auth.refresh_reuse root "), lines[0])
	})
}

// Of several late uses of a rotated token, one ends the session and is recorded.
func TestRaceOfReuses(t *testing.T) {
	each(t, func(t *testing.T, o *office) {
		l, other := o.launch(nil), o.launch(nil)
		first := l.setup()
		l.refresh(first["refresh_token"]).want(http.StatusOK)
		o.wait(time.Minute)
		head := o.head()
		answers := atOnce(8, func(i int) answer { return []*launched{l, other}[i%2].refresh(first["refresh_token"]) })
		require.Equal(t, map[string]int{"refresh_reused": 8}, statuses(answers))
		require.Len(t, o.log(head), 1)
	})
}
