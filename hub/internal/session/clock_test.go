package session_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
)

// Failures that were counted while the clock was years ahead do not lock an account for years once
// it is correct again.
func TestFailuresUnderAClockThatWasAhead(t *testing.T) {
	one(t, func(t *testing.T, c *cluster) {
		s := c.start(nil)
		s.setup()
		const ahead = 365 * day
		c.wait(ahead)
		for range 5 {
			s.login("root", "wrong password").wantError(http.StatusUnauthorized, code.InvalidCredentials)
		}
		s.exec(`UPDATE login_networks SET failures = 100`)
		s.login("root", password).wantError(http.StatusTooManyRequests, wire.RateLimited)

		c.wait(-time.Minute)
		res := s.login("root", password)
		res.wantError(http.StatusTooManyRequests, wire.RateLimited)
		require.Equal(t, "960", res.header.Get("Retry-After"), "a replica's clock may be a little behind")
		c.wait(time.Minute - ahead)
		s.login("root", "wrong password").wantError(http.StatusUnauthorized, code.InvalidCredentials)
		require.Equal(t, 1, s.count(`SELECT failures FROM login_networks`), "the count begins anew")
		s.signIn()
		for range 5 {
			s.login("root", "wrong password").wantError(http.StatusUnauthorized, code.InvalidCredentials)
		}
		s.login("root", password).wantError(http.StatusTooManyRequests, wire.RateLimited)
		c.wait(lockout)
		s.signIn()
	})
}
