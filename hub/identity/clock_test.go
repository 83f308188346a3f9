package identity_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/api"
)

// Failures that were counted while the clock was years ahead do not lock an account for years once
// it is correct again.
func TestFailuresUnderAClockThatWasAhead(t *testing.T) {
	each(t, func(t *testing.T, o *office) {
		l := o.launch(nil)
		l.setup()
		const ahead = 365 * day
		o.wait(ahead)
		for range 5 {
			l.login("root", "wrong password").refused(http.StatusUnauthorized, api.InvalidCredentials)
		}
		l.exec(`UPDATE login_networks SET failures = 100`)
		l.login("root", password).refused(http.StatusTooManyRequests, api.RateLimited)

		o.wait(-time.Minute)
		a := l.login("root", password)
		a.refused(http.StatusTooManyRequests, api.RateLimited)
		require.Equal(t, "960", a.header.Get("Retry-After"), "a replica's clock may be a little behind")
		o.wait(time.Minute - ahead)
		l.login("root", "wrong password").refused(http.StatusUnauthorized, api.InvalidCredentials)
		require.Equal(t, 1, l.count(`SELECT failures FROM login_networks`), "the count begins anew")
		l.signIn()
		for range 5 {
			l.login("root", "wrong password").refused(http.StatusUnauthorized, api.InvalidCredentials)
		}
		l.login("root", password).refused(http.StatusTooManyRequests, api.RateLimited)
		o.wait(lockout)
		l.signIn()
	})
}
