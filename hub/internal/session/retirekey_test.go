package session_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/token"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/secret"
)

func TestRetireKey(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		s, other := c.start(nil), c.start(nil)
		by := auditlog.Event{TenantID: api.SystemTenant, UserName: "operator"}
		command := c.start(func(c *config) { c.Offline = true })
		body := s.setup()
		_, cli := s.issue(user{token: body.access()})
		kid := func() any {
			return other.get("", "/.well-known/jwks.json").want(http.StatusOK)["keys"].([]any)[0].(map[string]any)["kid"]
		}
		leaked := kid()
		replicas := []*server{s, other}
		for _, r := range replicas {
			r.get(body.access(), "/auth/userinfo").want(http.StatusOK)
		}
		require.NoError(t, token.Retire(t.Context(), command.store, by))
		c.wait(1500 * time.Millisecond) // in which the state of a session may be cached
		for _, r := range replicas {
			r.get(body.access(), "/auth/userinfo").wantError(http.StatusUnauthorized, wire.Unauthenticated)
			r.get(cli, "/auth/userinfo").want(http.StatusOK)
		}
		require.NotEqual(t, leaked, kid())
		require.Len(t, s.get("", "/.well-known/jwks.json").want(http.StatusOK)["keys"], 1)
		next := other.refresh(body["refresh_token"]).want(http.StatusOK)
		for _, r := range replicas {
			r.get(next.access(), "/auth/userinfo").want(http.StatusOK)
		}

		// A replica signs with the new key even if this is its first request.
		require.NoError(t, token.Retire(t.Context(), command.store, by))
		login := other.signIn()
		s.get(login.access(), "/auth/userinfo").want(http.StatusOK)
		require.NoError(t, s.keys.Retire(t.Context(), by))
		s.get(login.access(), "/auth/userinfo").wantError(http.StatusUnauthorized, wire.Unauthenticated)

		// A command with another encryption key does not take the signing key from the hubs.
		keys := c.keys
		c.keys = secret.Generate()
		foreign := c.start(func(c *config) { c.Offline = true })
		c.keys = keys
		require.ErrorIs(t, token.Retire(t.Context(), foreign.store, by), secret.ErrUnknownKey)
		require.NoError(t, s.service.Ready(t.Context()))
		login = s.signIn()
		other.get(login.access(), "/auth/userinfo").want(http.StatusOK)

		var actions []string
		for e, err := range s.audit.Entries(t.Context(), api.SystemTenant, auditlog.Filter{}, nil) {
			require.NoError(t, err)
			actions = append(actions, e.Action)
			require.Regexp(t, `^\{"retired":\["[0-9a-f-]{36}"\]\}$`, string(e.Detail))
		}
		require.Equal(t, []string{"auth.retire_key", "auth.retire_key", "auth.retire_key"}, actions)
	})
}
