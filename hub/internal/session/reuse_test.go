package session_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
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
			oneServer(t, func(t *testing.T, s *server) {
				first := s.setup()
				s.cluster.wait(row.ahead)
				second := s.refresh(first["refresh_token"]).want(http.StatusOK)
				s.cluster.wait(-row.ahead)
				head := s.cluster.head()
				s.refresh(first["refresh_token"]).wantError(http.StatusUnauthorized, code.RefreshReused)
				if !row.ends {
					require.Equal(t, head, s.cluster.head())
					s.refresh(second["refresh_token"]).want(http.StatusOK)
					return
				}
				lines := s.cluster.log(head)
				require.Len(t, lines, 1)
				require.True(t, strings.HasPrefix(lines[0], "auth.refresh_reuse root "), lines[0])
				s.refresh(second["refresh_token"]).wantError(http.StatusUnauthorized, wire.TokenRevoked)
			})
		})
	}
}

func TestLogoutWithARotatedToken(t *testing.T) {
	oneServer(t, func(t *testing.T, s *server) {
		first := s.setup()
		second := s.refresh(first["refresh_token"]).want(http.StatusOK)
		head := s.cluster.head()
		logout := func() response {
			return s.post("", "/auth/logout", object{"refresh_token": first["refresh_token"]})
		}
		s.cluster.wait(10 * time.Second)
		logout().wantError(http.StatusUnauthorized, code.RefreshReused)
		s.get(second.access(), "/auth/userinfo").want(http.StatusOK)
		require.Equal(t, head, s.cluster.head(), "within 10 s it is a retry")

		s.cluster.wait(time.Microsecond)
		logout().wantError(http.StatusUnauthorized, code.RefreshReused)
		s.get(second.access(), "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenRevoked)
		lines := s.cluster.log(head)
		require.Len(t, lines, 1)
		require.True(t, strings.HasPrefix(lines[0], "auth.refresh_reuse root "), lines[0])
		logout().wantError(http.StatusUnauthorized, code.RefreshReused)
		require.Len(t, s.cluster.log(head), 1)
	})
}

// Clients send both tokens. The bearer token must not hide that the refresh token is a copy.
func TestLogoutWithABearerAndARotatedToken(t *testing.T) {
	oneServer(t, func(t *testing.T, s *server) {
		first := s.setup()
		logout := func(bearer, refresh object) response {
			return s.post(bearer.access(), "/auth/logout", object{"refresh_token": refresh["refresh_token"]})
		}
		second := s.refresh(first["refresh_token"]).want(http.StatusOK)
		other := s.signIn()
		s.cluster.wait(10 * time.Second)
		head := s.cluster.head()
		logout(other, first).want(http.StatusNoContent)
		s.get(second.access(), "/auth/userinfo").want(http.StatusOK)
		require.Len(t, s.cluster.log(head), 1, "within 10 s it is a retry, and only the bearer token counts")

		s.cluster.wait(time.Microsecond)
		head = s.cluster.head()
		other = s.signIn()
		logout(second, object{"refresh_token": "rt_unknown"}).want(http.StatusNoContent)
		logout(other, first).want(http.StatusNoContent) // its session has ended
		require.Len(t, s.cluster.log(head), 3, "the sign-in and two sign-outs")

		first = s.signIn()
		second, other = s.refresh(first["refresh_token"]).want(http.StatusOK), s.signIn()
		s.cluster.wait(10*time.Second + time.Microsecond)
		head = s.cluster.head()
		logout(other, first).wantError(http.StatusUnauthorized, code.RefreshReused)
		for _, ended := range []object{second, other} {
			s.get(ended.access(), "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenRevoked)
		}
		require.Len(t, s.cluster.log(head), 2, "the reuse and the sign-out")

		first = s.signIn()
		second = s.refresh(first["refresh_token"]).want(http.StatusOK)
		s.cluster.wait(10*time.Second + time.Microsecond)
		head = s.cluster.head()
		logout(second, first).wantError(http.StatusUnauthorized, code.RefreshReused)
		s.get(second.access(), "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenRevoked)
		lines := s.cluster.log(head)
		require.Len(t, lines, 1)
		require.True(t, strings.HasPrefix(lines[0], "auth.refresh_reuse root "), lines[0])

		first = s.signIn()
		second = s.refresh(first["refresh_token"]).want(http.StatusOK)
		_, cli := s.issue(user{token: second.access()})
		s.cluster.wait(10*time.Second + time.Microsecond)
		logout(object{"access_token": cli}, first).wantError(http.StatusUnauthorized, code.RefreshReused)
		for _, ended := range []string{second.access(), cli} {
			s.get(ended, "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenRevoked)
		}
	})
}

// Of several late uses of a rotated token, one ends the session and is recorded.
func TestRaceOfReuses(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		s, other := c.start(nil), c.start(nil)
		first := s.setup()
		s.refresh(first["refresh_token"]).want(http.StatusOK)
		c.wait(time.Minute)
		head := c.head()
		responses := atOnce(8, func(i int) response { return []*server{s, other}[i%2].refresh(first["refresh_token"]) })
		require.Equal(t, map[string]int{"refresh_reused": 8}, statuses(responses))
		require.Len(t, c.log(head), 1)
	})
}
