package session_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
)

func (o object) device() string { return o.text("device_token") }

// loginOn signs in with a device token.
func (r *replica) loginOn(device, name, password string) response {
	return r.post("", "/auth/login", object{"username": name, "password": password, "device_token": device})
}

func (r *replica) addUser(root object, name string) object {
	r.cluster.t.Helper()
	return r.post(root.access(), usersPath, object{"username": name, "password": password, "role": "member"}).want(http.StatusCreated)
}

// Failures of a guest at the same address lock out nobody who has signed in on the device.
func TestADeviceHasABudgetOfItsOwn(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		s, other := c.start(nil), c.start(nil)
		root := s.setup()
		s.addUser(root, "mia")
		mia := s.login("mia", password).want(http.StatusOK)
		for i := range 95 {
			s.login(fmt.Sprintf("guest%d", i), "wrong password").wantError(http.StatusUnauthorized, code.InvalidCredentials)
		}
		for range 5 {
			s.login("ROOT", "wrong password").wantError(http.StatusUnauthorized, code.InvalidCredentials)
		}
		head := c.head()
		var waits []string
		for _, name := range []string{"root", "mia", "guest1", "nobody"} {
			for _, pass := range []string{password, "wrong password"} {
				for _, device := range []string{"", "~", "x.y", mia.device() + "x", strings.Repeat(mia.device()+"~", 100)} {
					res := s.loginOn(device, name, pass)
					res.wantError(http.StatusTooManyRequests, wire.RateLimited)
					waits = append(waits, res.header.Get("Retry-After"))
				}
			}
		}
		for _, wait := range waits {
			require.Equal(t, waits[0], wait)
		}
		s.loginOn(mia.device(), "root", password).wantError(http.StatusTooManyRequests, wire.RateLimited) // of another account
		require.Equal(t, head, c.head(), "nothing was compared")

		other.loginOn(root.device(), "Root", password).want(http.StatusOK)
		for range 10 {
			other.loginOn(root.device(), "root", "wrong password").wantError(http.StatusUnauthorized, code.InvalidCredentials)
		}
		again := s.loginOn(mia.device()+"~x", "mia", password).want(http.StatusOK)
		require.Equal(t, mia.device(), again.device(), "the budget of a device does not grow with its sign-ins")
		s.loginOn(root.device(), "root", password).wantError(http.StatusTooManyRequests, wire.RateLimited)
		require.Equal(t, 15, s.count(`SELECT failures FROM login_accounts WHERE account_fold = 'root'`))
		c.wait(lockout + time.Second)
		s.loginOn(root.device(), "root", password).want(http.StatusOK)
	})
}

// Of any number of concurrent attempts with a device, ten learn that they were incorrect, and all
// are counted and recorded.
func TestConcurrentAttemptsOfADevice(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		s, other := c.start(nil), c.start(nil)
		root := s.setup()
		head := c.head()
		results := statuses(atOnce(16, func(i int) response {
			return []*server{s, other}[i%2].loginOn(root.device(), "root", "wrong password")
		}))
		require.LessOrEqual(t, results["invalid_credentials"], 10)
		require.Equal(t, 16, results["invalid_credentials"]+results["rate_limited"])
		require.GreaterOrEqual(t, s.count(`SELECT failures FROM login_accounts WHERE account_fold = 'root'`), results["invalid_credentials"])
		require.NotEmpty(t, c.log(head))
		s.loginOn(root.device(), "root", password).wantError(http.StatusTooManyRequests, wire.RateLimited)
	})
}

// A new password, a reset and an administrator revoke device tokens. A refresh renews them.
func TestDeviceTokensAreRevoked(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		s := c.start(nil)
		root := s.setup()
		mia := s.addUser(root, "mia")
		lock := func() {
			for range 5 {
				s.login("mia", "wrong password").wantError(http.StatusUnauthorized, code.InvalidCredentials)
			}
		}
		first := s.login("mia", password).want(http.StatusOK)
		s.post(first.access(), changePath, object{"old_password": password, "new_password": password + "2"}).want(http.StatusNoContent)
		lock()
		s.loginOn(first.device(), "mia", password+"2").wantError(http.StatusTooManyRequests, wire.RateLimited)
		next := s.refresh(first["refresh_token"]).want(http.StatusOK)
		s.loginOn(next.device(), "mia", password+"2").want(http.StatusOK)

		s.delete(root.access(), usersPath+"/"+mia.text("id")+"/sessions").want(http.StatusNoContent)
		s.loginOn(next.device(), "mia", password+"2").wantError(http.StatusTooManyRequests, wire.RateLimited)
		c.wait(lockout + time.Second)
		root = s.signIn()
		third := s.login("mia", password+"2").want(http.StatusOK)
		reset := s.post(root.access(), usersPath+"/"+mia.text("id")+"/reset-password", nil).want(http.StatusOK).text("password")
		lock()
		s.loginOn(third.device(), "mia", reset).wantError(http.StatusTooManyRequests, wire.RateLimited)
	})
}

// A stolen session cannot find the password: five incorrect ones end it, and those that it began.
func TestFiveWrongPasswordsEndTheSession(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		s, other := c.start(nil), c.start(nil)
		root := s.setup()
		elsewhere := s.signIn()
		handed := s.post(root.access(), "/auth/sessions", object{"code_challenge": challengeOf(verifier)}).want(http.StatusCreated)["authorization_code"]
		program := s.post("", "/auth/refresh", object{"refresh_token": handed, "code_verifier": verifier}).want(http.StatusOK)
		guess := func(r *server, token string) response {
			return r.post(token, changePath, object{"old_password": "wrong password", "new_password": password + "2"})
		}
		head := c.head()
		guess(s, root.access()).wantError(http.StatusUnauthorized, code.InvalidCredentials)
		for i := range 4 {
			guess([]*server{s, other}[i%2], program.access()).wantError(http.StatusUnauthorized, code.InvalidCredentials)
		}
		guess(s, program.access()).wantError(http.StatusUnauthorized, wire.TokenRevoked) // with a cached state
		c.wait(2 * time.Second)
		for _, token := range []string{root.access(), program.access()} {
			guess(s, token).wantError(http.StatusUnauthorized, wire.TokenRevoked)
			s.get(token, "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenRevoked)
		}
		s.refresh(program["refresh_token"]).wantError(http.StatusUnauthorized, wire.TokenRevoked)
		require.Len(t, c.log(head), 6)
		require.Equal(t, 6, s.count(`SELECT failures FROM login_accounts WHERE account_fold = 'root'`))
		s.get(elsewhere.access(), "/auth/userinfo").want(http.StatusOK)
		s.post(elsewhere.access(), changePath, object{"old_password": password, "new_password": password + "2"}).want(http.StatusNoContent)
	})
}

// An attacker with many networks has 100 guesses for one account. They are recorded, above ten a
// minute as a sample. Then only its devices sign in.
func TestGuessesForOneAccountAreBoundedOverAllNetworks(t *testing.T) {
	oneServer(t, func(t *testing.T, s *server) {
		root := s.setup()
		head := s.cluster.head()
		for i := range 100 {
			s.loginFrom(t.Context(), fmt.Sprintf("10.0.%d.1:1", i), "ROOT", "wrong password").wantError(http.StatusUnauthorized, code.InvalidCredentials)
		}
		failures := 0
		for _, entry := range s.cluster.log(head) {
			n := 1
			_, _ = fmt.Sscanf(entry[strings.LastIndex(entry, ":")+1:], "%d", &n)
			failures += n
		}
		require.Equal(t, 100, failures)
		require.Len(t, s.cluster.log(head), 19)
		for _, pass := range []string{"wrong password", password} {
			s.loginFrom(t.Context(), "10.1.0.1:1", "root", pass).wantError(http.StatusTooManyRequests, wire.RateLimited)
		}
		s.loginFrom(t.Context(), "10.1.0.1:1", "other", "wrong password").wantError(http.StatusUnauthorized, code.InvalidCredentials)
		s.login("root", password).wantError(http.StatusTooManyRequests, wire.RateLimited)
		s.loginOn(root.device(), "root", password).want(http.StatusOK)
		s.exec(`UPDATE login_accounts SET began = began + 1000000000000 WHERE account_fold = 'root'`)
		s.loginFrom(t.Context(), "10.1.0.1:1", "root", password).want(http.StatusOK) // a time of an incorrect clock
	})
}

// A stranger who knows the id of a device, which is that of its first session, uses none of its
// budget. Nor is the name of the setup an account.
func TestNamesAreNotAccountsOfDevices(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		s := c.start(nil)
		root := s.setup()
		var id string
		require.NoError(t, s.db.Read().QueryRowContext(t.Context(), `SELECT device FROM sessions`).Scan(&id))
		for i, name := range []string{"/device/" + id, "/DEVICE/" + id, "/setup"} {
			for n := range 12 {
				s.loginFrom(t.Context(), fmt.Sprintf("192.0.%d.%d:443", i, n), name, "wrong password").wantError(http.StatusUnauthorized, code.InvalidCredentials)
			}
		}
		require.Zero(t, s.count(`SELECT COUNT(*) FROM login_accounts WHERE account_fold LIKE '/%'`))
		s.loginOn(root.device(), "root", password).want(http.StatusOK)
	})
}
