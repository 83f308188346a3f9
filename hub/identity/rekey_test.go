package identity_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/identity"
	"github.com/seed93082962/agenthost/hub/secret"
)

func TestRekey(t *testing.T) {
	each(t, func(t *testing.T, o *office) {
		under := func(keys string) (*identity.Service, error) {
			keyring, err := secret.Parse(strings.Split(keys, ",")...)
			require.NoError(t, err)
			service, err := identity.New(t.Context(), identity.Config{DB: o.db, Keyring: keyring, Audit: o.audit, Now: o.now})
			if err == nil {
				t.Cleanup(func() { require.NoError(t, service.Close()) })
			}
			return service, err
		}
		l := o.launch(nil)
		l.setup()
		o.wait(91 * day)
		token := l.signIn().access() // signed with the second key
		require.Equal(t, 2, l.count(`SELECT COUNT(*) FROM signing_keys`))
		former, next := o.keys, secret.Generate()
		_, err := under(next)
		require.ErrorIs(t, err, secret.ErrUnknownKey)

		both, err := under(strings.Join([]string{next, former}, ","))
		require.NoError(t, err)
		for _, want := range []int{2, 0} {
			n, err := both.Rekey(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, n)
		}
		_, err = under(former)
		require.ErrorIs(t, err, secret.ErrUnknownKey)
		_, err = l.service.Rekey(t.Context())
		require.ErrorIs(t, err, secret.ErrUnknownKey, "nothing is sealed anew that did not open")
		o.keys = next
		alone := o.launch(nil)
		alone.get(token, "/auth/userinfo").want(http.StatusOK)
		alone.get(alone.signIn().access(), "/auth/userinfo").want(http.StatusOK)
		n, err := alone.service.Rekey(t.Context())
		require.NoError(t, err)
		require.Zero(t, n)
	})
}
