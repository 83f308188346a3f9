package session_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/token"
	"github.com/seed93082962/agenthost/internal/secret"
)

func TestRekey(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		under := func(keys string) error {
			_, err := token.New(t.Context(), c.storeOf(c.db, c.audit, keys, nil))
			return err
		}
		s := c.start(nil)
		s.setup()
		c.wait(91 * day)
		bearer := s.signIn().access() // signed with the second key
		require.Equal(t, 2, s.count(`SELECT COUNT(*) FROM signing_keys`))
		former, next := c.keys, secret.Generate()
		err := under(next)
		require.ErrorIs(t, err, secret.ErrUnknownKey)

		both := c.storeOf(c.db, c.audit, next+","+former, nil)
		for _, want := range []int{2, 0} {
			n, err := both.Reseal(t.Context(), token.Sealed()...)
			require.NoError(t, err)
			require.Equal(t, want, n)
		}
		err = under(former)
		require.ErrorIs(t, err, secret.ErrUnknownKey)
		_, err = s.store.Reseal(t.Context(), token.Sealed()...)
		require.ErrorIs(t, err, secret.ErrUnknownKey, "nothing is sealed anew that did not open")
		c.keys = next
		alone := c.start(nil)
		alone.get(bearer, "/auth/userinfo").want(http.StatusOK)
		alone.get(alone.signIn().access(), "/auth/userinfo").want(http.StatusOK)
		n, err := alone.store.Reseal(t.Context(), token.Sealed()...)
		require.NoError(t, err)
		require.Zero(t, n)
	})
}
