package identity_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/identity"
)

func TestRetireKey(t *testing.T) {
	each(t, func(t *testing.T, o *office) {
		l, other := o.launch(nil), o.launch(nil)
		command := o.launch(func(c *identity.Config) { c.Offline = true })
		body := l.setup()
		_, cli := l.issue(person{token: body.access()})
		kid := func() any {
			return other.get("", "/.well-known/jwks.json").want(http.StatusOK)["keys"].([]any)[0].(map[string]any)["kid"]
		}
		leaked := kid()
		replicas := []*launched{l, other}
		for _, r := range replicas {
			r.get(body.access(), "/auth/userinfo").want(http.StatusOK)
		}
		require.NoError(t, command.service.RetireKey(t.Context()))
		o.wait(1500 * time.Millisecond) // in which the state of a session may be cached
		for _, r := range replicas {
			r.get(body.access(), "/auth/userinfo").refused(http.StatusUnauthorized, api.Unauthenticated)
			r.get(cli, "/auth/userinfo").want(http.StatusOK)
		}
		require.NotEqual(t, leaked, kid())
		require.Len(t, l.get("", "/.well-known/jwks.json").want(http.StatusOK)["keys"], 1)
		next := other.refresh(body["refresh_token"]).want(http.StatusOK)
		for _, r := range replicas {
			r.get(next.access(), "/auth/userinfo").want(http.StatusOK)
		}

		// A replica signs with the new key without having been asked for anything else.
		require.NoError(t, command.service.RetireKey(t.Context()))
		login := other.signIn()
		l.get(login.access(), "/auth/userinfo").want(http.StatusOK)
		require.NoError(t, l.service.RetireKey(t.Context()))
		l.get(login.access(), "/auth/userinfo").refused(http.StatusUnauthorized, api.Unauthenticated)

		var actions []string
		for e, err := range l.audit.Entries(t.Context(), identity.SystemTenant, auditlog.Filter{}, nil) {
			require.NoError(t, err)
			actions = append(actions, e.Action)
			require.Regexp(t, `^\{"retired":\["[0-9a-f-]{36}"\]\}$`, string(e.Detail))
		}
		require.Equal(t, []string{"auth.retire_key", "auth.retire_key", "auth.retire_key"}, actions)
	})
}
