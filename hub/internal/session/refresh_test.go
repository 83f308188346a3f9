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

const day = 24 * time.Hour

func TestRefresh(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		first := s.setup()
		s.cluster.wait(time.Minute)
		head := s.cluster.head()
		second := s.refresh(first["refresh_token"]).want(http.StatusOK)
		require.Equal(t, first.object("user"), second.object("user"))
		require.NotEqual(t, first["refresh_token"], second["refresh_token"])
		require.NotEqual(t, first["access_token"], second["access_token"])
		require.EqualValues(t, 900, second["expires_in"])
		s.get(first.access(), "/auth/userinfo").want(http.StatusOK)
		s.get(second.access(), "/auth/userinfo").want(http.StatusOK)
		s.refresh(first["refresh_token"]).wantError(http.StatusUnauthorized, code.RefreshReused)
		s.refresh("rt_unknown").wantError(http.StatusUnauthorized, wire.Unauthenticated)
		s.refresh(second.access()).wantError(http.StatusUnauthorized, wire.Unauthenticated)
		s.refresh("").wantError(http.StatusBadRequest, wire.ValidationFailed)
		require.Equal(t, head, s.cluster.head(), "a bare 401 is not recorded")
		s.get(second["refresh_token"].(string), "/auth/userinfo").wantError(http.StatusUnauthorized, wire.Unauthenticated)
	})
}

func TestRaceForARefresh(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		s, other := c.start(nil), c.start(nil)
		token := s.setup()["refresh_token"]
		for range 5 {
			responses := atOnce(16, func(i int) response { return []*server{s, other}[i%2].refresh(token) })
			require.Equal(t, map[string]int{"OK": 1, "refresh_reused": 15}, statuses(responses))
			for _, res := range responses {
				if res.status == http.StatusOK {
					token = res.body["refresh_token"]
					s.get(res.body.access(), "/auth/userinfo").want(http.StatusOK)
				}
			}
		}
		require.Equal(t, 1, s.count(`SELECT COUNT(*) FROM refresh_tokens WHERE rotated_at IS NULL`))
	})
}

func TestRefreshReuse(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		s.setup()
		first, bystander := s.signIn(), s.signIn()
		second := s.refresh(first["refresh_token"]).want(http.StatusOK)
		head := s.cluster.head()
		s.cluster.wait(10 * time.Second)
		s.refresh(first["refresh_token"]).wantError(http.StatusUnauthorized, code.RefreshReused)
		s.get(first.access(), "/auth/userinfo").want(http.StatusOK)
		require.Equal(t, head, s.cluster.head(), "within 10 s nothing else happens")

		s.cluster.wait(time.Microsecond)
		s.refresh(first["refresh_token"]).wantError(http.StatusUnauthorized, code.RefreshReused)
		for _, access := range []string{first.access(), second.access()} {
			s.get(access, "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenRevoked)
		}
		s.refresh(second["refresh_token"]).wantError(http.StatusUnauthorized, wire.TokenRevoked)
		lines := s.cluster.log(head)
		require.Len(t, lines, 1)
		require.True(t, strings.HasPrefix(lines[0], "auth.refresh_reuse root "), lines[0])

		s.refresh(first["refresh_token"]).wantError(http.StatusUnauthorized, code.RefreshReused)
		require.Len(t, s.cluster.log(head), 1, "a family ends once")
		s.get(bystander.access(), "/auth/userinfo").want(http.StatusOK)
		s.refresh(bystander["refresh_token"]).want(http.StatusOK)
	})
}

func TestSessionsEndByTheirAge(t *testing.T) {
	oneServer(t, func(t *testing.T, s *server) {
		s.setup()
		for _, row := range []struct {
			name string
			idle time.Duration
			want int
		}{
			{"a moment before 14 days", 14*day - time.Microsecond, http.StatusOK},
			{"after 14 days", 14 * day, http.StatusUnauthorized},
		} {
			t.Run(row.name, func(t *testing.T) {
				token := s.signIn()["refresh_token"]
				s.cluster.wait(row.idle)
				s.refresh(token).want(row.want)
			})
		}
		t.Run("after 90 days, however often it was refreshed", func(t *testing.T) {
			body := s.signIn()
			for range 6 {
				s.cluster.wait(13 * day)
				body = s.refresh(body["refresh_token"]).want(http.StatusOK)
			}
			s.cluster.wait(12*day - 10*time.Minute)
			body = s.refresh(body["refresh_token"]).want(http.StatusOK)
			require.EqualValues(t, 600, body["expires_in"], "no token outlives its session")
			require.EqualValues(t, 600, body["refresh_expires_in"])
			s.get(body.access(), "/auth/userinfo").want(http.StatusOK)
			s.cluster.wait(10 * time.Minute)
			s.refresh(body["refresh_token"]).wantError(http.StatusUnauthorized, wire.TokenExpired)
			s.get(body.access(), "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenExpired)
		})
	})
}

func TestRefreshReturnsTheCurrentRole(t *testing.T) {
	oneServer(t, func(t *testing.T, s *server) {
		root := s.setup()
		invite := s.post(root.access(), invitesPath, object{"role": "maintainer"}).want(http.StatusCreated)
		mia := s.register(invite["token"], "mia").want(http.StatusCreated)
		path := usersPath + "/" + mia.object("user").text("id")
		s.patch(root.access(), path, object{"role": "member"}).want(http.StatusOK)
		require.Equal(t, "member", s.get(mia.access(), "/auth/userinfo").want(http.StatusOK)["role"])
		mia = s.refresh(mia["refresh_token"]).want(http.StatusOK)
		require.Equal(t, "member", mia.object("user")["role"])
		s.patch(root.access(), path, object{"status": "disabled"}).want(http.StatusOK)
		s.get(mia.access(), "/auth/userinfo").wantError(http.StatusForbidden, code.AccountDisabled)
		s.refresh(mia["refresh_token"]).wantError(http.StatusForbidden, code.AccountDisabled)
		s.patch(root.access(), path, object{"status": "active"}).want(http.StatusOK)
		s.get(mia.access(), "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenRevoked)
		s.refresh(mia["refresh_token"]).wantError(http.StatusUnauthorized, wire.TokenRevoked)
		s.delete(root.access(), path).want(http.StatusNoContent)
		s.get(mia.access(), "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenRevoked)
		s.refresh(mia["refresh_token"]).wantError(http.StatusUnauthorized, wire.Unauthenticated)
	})
}
