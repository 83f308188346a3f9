package identity_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/identity"
	"github.com/seed93082962/agenthost/hub/secret"
)

func TestRekey(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		under := func(keys string) (*identity.Service, error) {
			service, err := identity.New(t.Context(), identity.Config{Store: c.storeOf(c.db, c.audit, keys, nil)})
			if err == nil {
				t.Cleanup(func() { require.NoError(t, service.Close()) })
			}
			return service, err
		}
		s := c.start(nil)
		s.setup()
		c.wait(91 * day)
		token := s.signIn().access() // signed with the second key
		require.Equal(t, 2, s.count(`SELECT COUNT(*) FROM signing_keys`))
		former, next := c.keys, secret.Generate()
		_, err := under(next)
		require.ErrorIs(t, err, secret.ErrUnknownKey)

		both := c.storeOf(c.db, c.audit, next+","+former, nil)
		for _, want := range []int{2, 0} {
			n, err := both.Reseal(t.Context(), identity.Sealed()...)
			require.NoError(t, err)
			require.Equal(t, want, n)
		}
		_, err = under(former)
		require.ErrorIs(t, err, secret.ErrUnknownKey)
		_, err = s.store.Reseal(t.Context(), identity.Sealed()...)
		require.ErrorIs(t, err, secret.ErrUnknownKey, "nothing is sealed anew that did not open")
		c.keys = next
		alone := c.start(nil)
		alone.get(token, "/auth/userinfo").want(http.StatusOK)
		alone.get(alone.signIn().access(), "/auth/userinfo").want(http.StatusOK)
		n, err := alone.store.Reseal(t.Context(), identity.Sealed()...)
		require.NoError(t, err)
		require.Zero(t, n)
	})
}
