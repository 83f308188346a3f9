package session_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

func TestSetupMakesTheFirstAdmin(t *testing.T) {
	oneServer(t, func(t *testing.T, s *server) {
		require.Equal(t, object{"mode": "builtin", "setup_required": true}, s.get("", "/auth/mode").want(http.StatusOK))
		body := s.post("", "/auth/setup", object{"password": password, "setup_token": s.setupToken}).want(http.StatusCreated)
		require.Equal(t, "admin", body.object("user")["username"], "the name that is taken where none is given")
		require.Equal(t, "admin", body.object("user")["display_name"])
		require.Equal(t, "admin", body.object("user")["role"])
		require.Equal(t, "default", body.object("user")["tenant_id"])
		require.Equal(t, "default", body.object("user")["org_id"])
		require.Equal(t, object{"mode": "builtin", "setup_required": false}, s.get("", "/auth/mode").want(http.StatusOK))
		s.post("", "/auth/setup", object{"password": password}).wantError(http.StatusConflict, code.AlreadyInitialized)
		s.get(body.access(), "/auth/userinfo").want(http.StatusOK)
		require.Equal(t, []string{"auth.setup admin "}, s.cluster.log(0))
		require.Empty(t, s.cluster.start(nil).accounts.SetupToken(), "a replica that starts now needs none")
	})
}

func TestRaceForTheSetup(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		other := s.cluster.start(nil)
		responses := atOnce(8, func(i int) response {
			r := []*server{s, other}[i%2]
			return r.post("", "/auth/setup", object{"username": "admin" + string(rune('a'+i)), "password": password, "setup_token": s.setupToken})
		})
		require.Equal(t, map[string]int{"Created": 1, "already_initialized": 7}, statuses(responses))
		require.Equal(t, 1, s.count(`SELECT COUNT(*) FROM members`))
		require.Len(t, s.cluster.log(0), 1)
	})
}

func TestSetupToken(t *testing.T) {
	t.Parallel()
	const given = "a token that the operator chose"
	setUp := func(r *replica, token, password string, change func(*http.Request)) response {
		body := `{"password":"` + password + `","setup_token":"` + token + `"}`
		return r.send(http.MethodPost, "/auth/setup", body, change)
	}
	post := func(r *replica, token string, change func(*http.Request)) response {
		return setUp(r, token, password, change)
	}
	here := func(*http.Request) {}
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

	t.Run("required from every address", func(t *testing.T) {
		s := onSQLite(t, nil)
		for _, row := range []struct {
			name   string
			change func(*http.Request)
		}{
			{"through a proxy that adds no header", here},
			{"localhost", host("localhost:8080")},
			{"IPv6 loopback", host("[::1]:8080")},
			{"IPv6 loopback without port", host("[::1]")},
			{"a public host", host("hub.example.com")},
			{"X-Forwarded-For", header("X-Forwarded-For", "127.0.0.1")},
			{"X-Forwarded-Host", header("X-Forwarded-Host", "localhost")},
			{"X-Real-IP", header("X-Real-IP", "127.0.0.1")},
			{"Forwarded", header("Forwarded", "for=127.0.0.1")},
		} {
			t.Run(row.name, func(t *testing.T) {
				short := func(token string) response { return setUp(s.replica, token, "short", row.change) }
				short("").wantError(http.StatusUnauthorized, wire.Unauthenticated)
				short("wrong").wantError(http.StatusUnauthorized, code.InvalidCredentials)
				short(s.setupToken).wantError(http.StatusBadRequest, wire.ValidationFailed) // accepted, then validated
				s.cluster.wait(lockout)
				s.service.Sweep(t.Context())
			})
		}
		require.Zero(t, s.count(`SELECT COUNT(*) FROM members`))
	})
	t.Run("of any replica", func(t *testing.T) {
		dbtest.Each(t, func(t *testing.T, url string) {
			c := newCluster(t, url)
			first, second := c.start(nil), c.start(nil)
			require.NotEqual(t, first.accounts.SetupToken(), second.accounts.SetupToken())
			require.Len(t, first.accounts.SetupToken(), 64)
			post(second.replica, first.accounts.SetupToken(), here).want(http.StatusCreated)
			post(second.replica, second.accounts.SetupToken(), here).wantError(http.StatusConflict, code.AlreadyInitialized)
			require.Zero(t, first.count(`SELECT COUNT(*) FROM instance WHERE name LIKE 'setup_token/%'`))
		}, migrations...)
	})
	t.Run("that was given", func(t *testing.T) {
		s := onSQLite(t, func(c *config) { c.SetupToken = given })
		require.Empty(t, s.accounts.SetupToken(), "who gave it has it")
		post(s.replica, given, here).want(http.StatusCreated)
	})
	t.Run("for a day", func(t *testing.T) {
		dbtest.Each(t, func(t *testing.T, url string) {
			c := newCluster(t, url)
			short := func(r, of *server) response { return setUp(r.replica, of.accounts.SetupToken(), "short", here) }
			first, gone := c.start(nil), c.start(nil)
			require.NoError(t, gone.service.Close())
			c.wait(23 * time.Hour)
			first.service.Sweep(t.Context())
			c.wait(time.Hour - time.Microsecond)
			short(first, gone).wantError(http.StatusBadRequest, wire.ValidationFailed)
			c.wait(time.Microsecond)
			short(first, gone).wantError(http.StatusUnauthorized, code.InvalidCredentials)
			c.wait(time.Microsecond)
			short(first, gone).wantError(http.StatusUnauthorized, code.InvalidCredentials)
			short(gone, first).wantError(http.StatusBadRequest, wire.ValidationFailed)
			second := c.start(nil)
			short(first, second).wantError(http.StatusBadRequest, wire.ValidationFailed)
			second.service.Sweep(t.Context())
			require.Equal(t, 2, first.count(`SELECT COUNT(*) FROM instance WHERE name LIKE 'setup_token/%'`))
			gone.service.Sweep(t.Context())
			short(first, gone).wantError(http.StatusUnauthorized, code.InvalidCredentials)
		}, migrations...)
	})
	t.Run("instead of another that was given", func(t *testing.T) {
		c := newCluster(t, dbtest.SQLite(t, migrations...))
		config := func(token string) func(*config) {
			return func(c *config) { c.SetupToken = token }
		}
		former := c.start(config("the token that was chosen first"))
		setUp(former.replica, "the token that was chosen first", "short", here).wantError(http.StatusBadRequest, wire.ValidationFailed)
		printed, s := c.start(config("")), c.start(config(given))
		former.service.Sweep(t.Context())
		setUp(s.replica, "the token that was chosen first", "short", here).wantError(http.StatusUnauthorized, code.InvalidCredentials)
		setUp(s.replica, printed.accounts.SetupToken(), "short", here).wantError(http.StatusBadRequest, wire.ValidationFailed)
		setUp(former.replica, given, "short", here).wantError(http.StatusBadRequest, wire.ValidationFailed)
	})
	t.Run("wrong five times", func(t *testing.T) {
		s := onSQLite(t, func(c *config) { c.SetupToken = given })
		for range 5 {
			post(s.replica, "wrong", here).wantError(http.StatusUnauthorized, code.InvalidCredentials)
		}
		post(s.replica, given, here).wantError(http.StatusTooManyRequests, wire.RateLimited)
		s.cluster.wait(lockout)
		post(s.replica, given, here).want(http.StatusCreated)
	})
}

func TestSetupFaults(t *testing.T) {
	t.Parallel()
	s := onSQLite(t, nil)
	for _, row := range []struct {
		name  string
		body  object
		field string
	}{
		{"no password", object{}, "password"},
		{"password of seven characters", object{"password": "1234567"}, "password"},
		{"password of seven characters in 21 bytes", object{"password": strings.Repeat("口", 7)}, "password"},
		{"password of 129 characters", object{"password": strings.Repeat("a", 129)}, "password"},
		{"username with a space", object{"password": password, "username": "a b"}, "username"},
		{"username with a line break behind it", object{"password": password, "username": "ab\n"}, "username"},
		{"username of 65 characters", object{"password": password, "username": strings.Repeat("a", 65)}, "username"},
		{"username that begins with a dot", object{"password": password, "username": ".a"}, "username"},
		{"username with a Kelvin sign", object{"password": password, "username": "\u212aim"}, "username"},
		{"display name with a control character", object{"password": password, "display_name": "a\x07b"}, "display_name"},
		{"display name that turns the direction", object{"password": password, "display_name": "a\u202eb"}, "display_name"},
		{"display name that shows nothing", object{"password": password, "display_name": "\u200b\u200b"}, "display_name"},
		{"display name of 129 characters", object{"password": password, "display_name": strings.Repeat("a", 129)}, "display_name"},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.body["setup_token"] = s.setupToken
			body := s.post("", "/auth/setup", row.body).wantError(http.StatusBadRequest, wire.ValidationFailed)
			require.Contains(t, body.object("data").object("fields"), row.field)
		})
	}
	for name, body := range map[string]string{
		"empty": "", "no JSON": "{", "an array": "[]", "a number for the password": `{"password":12345678}`,
	} {
		t.Run(name, func(t *testing.T) {
			s.post("", "/auth/setup", body).wantError(http.StatusBadRequest, wire.InvalidRequest)
		})
	}
	require.Zero(t, s.count(`SELECT COUNT(*) FROM members`))
	longest := strings.Repeat("口", 128)
	s.post("", "/auth/setup", object{"username": "a", "password": longest, "setup_token": s.setupToken}).want(http.StatusCreated)
	s.login("a", longest).want(http.StatusOK)
}
