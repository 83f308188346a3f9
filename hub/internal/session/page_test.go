package session_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/session"
	"github.com/seed93082962/agenthost/hub/wire"
)

// The pages of a browser share a refresh token, which is rotated when it is older than five
// minutes. A session has 120 of these refreshes a minute.
func TestRefreshesOfPages(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		token := s.setup().text("refresh_token")
		refresh := func() session.SignIn {
			t.Helper()
			page, err := s.service.RefreshPage(t.Context(), api.Caller{}, token)
			require.NoError(t, err)
			s.get(page.AccessToken, "/auth/userinfo").want(http.StatusOK)
			return page
		}
		s.cluster.wait(5 * time.Minute)
		for range 120 {
			require.Empty(t, refresh().RefreshToken)
		}
		_, err := s.service.RefreshPage(t.Context(), api.Caller{}, token)
		limited := &wire.Error{}
		require.ErrorAs(t, err, &limited)
		require.Equal(t, wire.RateLimited, limited.Code)
		require.Equal(t, time.Minute, limited.RetryAfter)
		s.cluster.wait(time.Minute)
		former := token
		token = refresh().RefreshToken
		require.NotEmpty(t, token)
		require.Empty(t, refresh().RefreshToken)
		_, err = s.service.RefreshPage(t.Context(), api.Caller{}, former)
		require.ErrorIs(t, err, code.RefreshReused)
		refresh()
		s.cluster.wait(11 * time.Second)
		_, err = s.service.RefreshPage(t.Context(), api.Caller{}, former)
		require.ErrorIs(t, err, code.RefreshReused)
		_, err = s.service.RefreshPage(t.Context(), api.Caller{}, token)
		require.ErrorIs(t, err, wire.TokenRevoked, "a copy of the token is in other hands")
	})
}
