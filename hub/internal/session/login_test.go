package session_test

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/argon2"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
)

const lockout = 15 * time.Minute

func TestLogin(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		s.setup()
		s.cluster.wait(time.Hour)
		body := s.login("ROOT", password).want(http.StatusOK)
		require.Equal(t, "Bearer", body["token_type"])
		require.EqualValues(t, 900, body["expires_in"])
		require.EqualValues(t, 14*24*3600, body["refresh_expires_in"])
		user := body.object("user")
		require.Len(t, user.text("id"), 36)
		delete(user, "id")
		require.Equal(t, object{"username": "root", "display_name": "root", "role": "admin", "tenant_id": "default", "org_id": "default"}, user)
		info := s.get(body.access(), "/auth/userinfo").want(http.StatusOK)
		delete(info, "id")
		require.Equal(t, object{"username": "root", "display_name": "root", "role": "admin", "tenant_id": "default", "org_id": "default",
			"auth_mode": "builtin", "token_type": "session"}, info)
		lines := s.cluster.log(1)
		require.Len(t, lines, 1)
		require.Regexp(t, `^auth\.login root \{"sessionId":"[0-9a-f-]{36}"\}$`, lines[0])
		users := s.get(body.access(), usersPath).want(http.StatusOK)
		require.Equal(t, "2026-03-01T13:00:00.123456Z", users.items()[0]["lastLoginAt"])
	})
}

// hashes is how many argon2id hashes were made by call: each takes 19 MiB, and nothing else does.
// No other test may run.
func hashes(call func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	const one = 19 << 20
	return int((after.TotalAlloc - before.TotalAlloc + one/2) / one)
}

func TestAnUnknownUserIsRejectedLikeAWrongPassword(t *testing.T) {
	s := onSQLite(t, fullHashes)
	root := s.setup()
	s.cluster.join(user{token: root.access()}, "member", "gone")
	id := s.get(root.access(), usersPath).want(http.StatusOK)
	for _, item := range id.items() {
		if item["username"] == "gone" {
			s.patch(root.access(), usersPath+"/"+item.text("id"), object{"status": "disabled"}).want(http.StatusOK)
		}
	}
	var first object
	for _, row := range []struct{ name, user, password string }{
		{"wrong password", "root", "not the password"},
		{"unknown user", "nobody", "not the password"},
		{"wrong password of a disabled account", "gone", "not the password"},
		{"a name that nobody can have", "no body\n", "not the password"},
		{"a name of 10,000 characters", strings.Repeat("a", 10000), "not the password"},
		{"a password that nobody can have", "root", "short"},
		{"a password of 10,000 characters", "root", strings.Repeat("a", 10000)},
	} {
		t.Run(row.name, func(t *testing.T) {
			var res response
			require.Equal(t, 1, hashes(func() { res = s.login(row.user, row.password) }), "the same work")
			body := res.wantError(http.StatusUnauthorized, code.InvalidCredentials)
			delete(body, "requestId")
			if first == nil {
				first = body
			}
			require.Equal(t, first, body, "the same response")
		})
	}
	require.Equal(t, 1, hashes(func() { s.signIn() }), "a login that works")
}

func TestLockout(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		s, other := c.start(nil), c.start(nil)
		s.setup()
		for i := range 5 {
			c.wait(time.Minute)
			[]*server{s, other}[i%2].login("Root", "wrong password").wantError(http.StatusUnauthorized, code.InvalidCredentials)
		}
		head := c.head()
		for _, r := range []*server{s, other} {
			res := r.login("root", password)
			res.wantError(http.StatusTooManyRequests, wire.RateLimited)
			require.Equal(t, "660", res.header.Get("Retry-After"), "11 minutes are left of those that began with the first failure")
			require.Empty(t, res.header.Get("WWW-Authenticate"))
		}
		require.Equal(t, head, c.head(), "a 429 is not recorded")
		other.login("somebody", "wrong password").wantError(http.StatusUnauthorized, code.InvalidCredentials)
		c.wait(11 * time.Minute)
		s.login("root", "wrong password").wantError(http.StatusUnauthorized, code.InvalidCredentials)
		s.login("root", password).wantError(http.StatusTooManyRequests, wire.RateLimited)
		c.wait(time.Minute)
		s.signIn()
		for range 4 {
			s.login("root", "wrong password").wantError(http.StatusUnauthorized, code.InvalidCredentials)
		}
		s.signIn()
		for range 5 {
			s.login("root", "wrong password").wantError(http.StatusUnauthorized, code.InvalidCredentials)
		}
		s.login("root", password).wantError(http.StatusTooManyRequests, wire.RateLimited)
	})
}

// It does not run in parallel, because it counts hashes.
func TestALockedAccountIsNotHashed(t *testing.T) {
	s := onSQLite(t, nil)
	s.setup()
	for range 5 {
		s.login("root", "wrong password").wantError(http.StatusUnauthorized, code.InvalidCredentials)
	}
	require.Zero(t, hashes(func() { s.login("root", password).wantError(http.StatusTooManyRequests, wire.RateLimited) }))
}

func TestLockoutOfANetwork(t *testing.T) {
	t.Parallel()
	s := onSQLite(t, nil)
	s.setup()
	from := func(address, password string) int {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/auth/login", strings.NewReader(`{"username":"root","password":"`+password+`"}`))
		r.RemoteAddr = address
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		return w.Code
	}
	for _, host := range []string{":1", ":2", ":3", ":4", "ffff:ffff:ffff:ffff"} {
		require.Equal(t, http.StatusUnauthorized, from("[2001:db8:1:2:"+host+"]:443", "wrong password"))
	}
	for _, row := range []struct {
		name, address string
		status        int
	}{
		{"another address of the /64", "[2001:db8:1:2:3::4]:443", http.StatusTooManyRequests},
		{"the next /64", "[2001:db8:1:3::1]:443", http.StatusOK},
		{"IPv4", "192.0.2.1:443", http.StatusOK},
	} {
		t.Run(row.name, func(t *testing.T) { require.Equal(t, row.status, from(row.address, password)) })
	}
	for range 5 {
		require.Equal(t, http.StatusUnauthorized, from("[::ffff:192.0.2.1]:443", "wrong password"))
	}
	require.Equal(t, http.StatusTooManyRequests, from("192.0.2.1:443", password), "IPv4 written as IPv6 is the same")
	require.Equal(t, http.StatusOK, from("192.0.2.2:443", password), "of IPv4 each address is one")
}

func TestNetworksThatAreLocked(t *testing.T) {
	t.Parallel()
	s := onSQLite(t, nil)
	s.setup()
	from := func(address, password string) int { return s.loginFrom(t.Context(), address, "root", password).status }
	for _, address := range []string{"[2001:db8:1:2::1]:443", "192.0.2.1:443"} {
		require.Equal(t, http.StatusUnauthorized, from(address, "wrong password"))
	}
	s.exec(`UPDATE login_networks SET failures = 100`)
	for _, row := range []struct {
		name, address string
		status        int
	}{
		{"the next /64", "[2001:db8:1:3::1]:443", http.StatusTooManyRequests},
		{"the last /64 of the /48", "[2001:db8:1:ffff:ffff::1]:443", http.StatusTooManyRequests},
		{"the next /48", "[2001:db8:2:2::1]:443", http.StatusOK},
		{"another address of the /24", "192.0.2.255:443", http.StatusTooManyRequests},
		{"IPv4 written as IPv6", "[::ffff:192.0.2.7]:443", http.StatusTooManyRequests},
		{"the next /24", "192.0.3.1:443", http.StatusOK},
	} {
		t.Run(row.name, func(t *testing.T) { require.Equal(t, row.status, from(row.address, password)) })
	}
}

func TestRaceOfGuesses(t *testing.T) {
	each(t, func(t *testing.T, c *cluster) {
		s, other := c.start(nil), c.start(nil)
		s.setup()
		right := atOnce(6, func(i int) response { return []*server{s, other}[i%2].login("root", password) })
		require.Equal(t, map[string]int{"OK": 6}, statuses(right), "who knows the password may come in at many doors at once")
		wrong := atOnce(10, func(i int) response { return []*server{s, other}[i%2].login("root", "wrong password") })
		require.Equal(t, map[string]int{"invalid_credentials": 5, "rate_limited": 5}, statuses(wrong))
		failed := 0
		for _, line := range c.log(0) {
			if strings.HasPrefix(line, "auth.login_failed ") {
				failed++
			}
		}
		require.Equal(t, s.count(`SELECT failures FROM login_accounts`), failed, "all that were compared")
		require.GreaterOrEqual(t, failed, 5)
	})
}

func TestFailedLoginsAreRecorded(t *testing.T) {
	oneServer(t, func(t *testing.T, s *server) {
		root := s.setup()
		member := s.cluster.join(user{token: root.access()}, "member", "Mia")
		s.patch(root.access(), usersPath+"/"+member.id, object{"status": "disabled"}).want(http.StatusOK)
		head := s.cluster.head()
		s.login("mia", password).wantError(http.StatusForbidden, code.AccountDisabled)
		s.login("mia", "wrong password").wantError(http.StatusUnauthorized, code.InvalidCredentials)
		s.login(strings.Repeat("口", 200)+"\n", "wrong password").wantError(http.StatusUnauthorized, code.InvalidCredentials)
		s.login("a\nb", "wrong password").wantError(http.StatusUnauthorized, code.InvalidCredentials)
		require.Equal(t, []string{
			`auth.login_failed Mia {"reason":"account_disabled"}`,
			`auth.login_failed Mia {"reason":"invalid_credentials"}`,
			`auth.login_failed  {"reason":"invalid_credentials"}`,
			`auth.login_failed  {"reason":"invalid_credentials"}`,
		}, s.cluster.log(head))
		require.Equal(t, 4, s.count(`SELECT failures FROM login_networks`), "each is counted for the network")
		require.Equal(t, []string{"mia", "mia", strings.Repeat("口", 128), "a\uFFFDb"}, s.users(head))
	})
}

// users returns the names in the log since the entry after.
func (s *server) users(after uint64) (names []string) {
	for e, err := range s.entries() {
		require.NoError(s.cluster.t, err)
		if e.ID > after {
			names = append(names, e.UserName)
		}
	}
	return names
}

func TestLoginFaults(t *testing.T) {
	t.Parallel()
	s := onSQLite(t, nil)
	s.setup()
	fields := s.post("", "/auth/login", object{}).wantError(http.StatusBadRequest, wire.ValidationFailed).object("data").object("fields")
	require.Contains(t, fields, "username")
	require.Contains(t, fields, "password")
	for name, body := range map[string]string{
		"empty": "", "null": "null", "a string": `"a"`,
		"username of another type": `{"username":["a"],"password":"b"}`, "NUL": `{"username":"\u0000","password":"b"}`,
	} {
		t.Run(name, func(t *testing.T) {
			s.post("", "/auth/login", body).wantError(http.StatusBadRequest, wire.InvalidRequest)
		})
	}
	s.post("", "/auth/login", `{"username":"`+strings.Repeat("a", 1<<20)+`"}`).wantError(http.StatusRequestEntityTooLarge, code.PayloadTooLarge)
	res := s.call("", http.MethodPut, "/auth/login", nil)
	res.wantError(http.StatusMethodNotAllowed, code.MethodNotAllowed)
	require.Equal(t, "POST", res.header.Get("Allow"), "GET is of the external mode")
	for _, path := range []string{"/auth/login", "/auth/login?org=a", "/auth/org-check", "/auth/org-check?org=a", "/auth/callback"} {
		s.get("", path).wantError(http.StatusNotFound, wire.NotFound)
	}
}

func TestPasswordsAreRehashedWhenTheCostChanges(t *testing.T) {
	t.Parallel()
	s := onSQLite(t, fullHashes)
	s.setup()
	read := func() (hash string) {
		require.NoError(t, s.db.Read().QueryRowContext(t.Context(), `SELECT password_hash FROM members`).Scan(&hash))
		return hash
	}
	const now = `^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$`
	require.Regexp(t, now, read())
	salt := []byte("0123456789abcdef")
	b64 := base64.RawStdEncoding.EncodeToString
	old := argon2.IDKey([]byte(password), salt, 1, 1024, 1, 32)
	s.exec(`UPDATE members SET password_hash = $1`, "$argon2id$v=19$m=1024,t=1,p=1$"+b64(salt)+"$"+b64(old))
	s.login("root", "wrong password").wantError(http.StatusUnauthorized, code.InvalidCredentials)
	require.Contains(t, read(), "m=1024")
	require.Equal(t, map[string]int{"OK": 4}, statuses(atOnce(4, func(int) response { return s.login("root", password) })))
	require.Regexp(t, now, read())
	s.signIn()

	s.exec(`UPDATE members SET password_hash = $1`, "$argon2id$damaged")
	s.login("root", password).wantError(http.StatusInternalServerError, code.InternalError)
}
