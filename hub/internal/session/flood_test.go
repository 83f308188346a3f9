package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
)

// loginFrom signs in from an address. It may be called from any goroutine.
func (s *server) loginFrom(ctx context.Context, address, name, password string) response {
	body, _ := json.Marshal(object{"username": name, "password": password})
	return s.serve(httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/auth/login", bytes.NewReader(body)), address)
}

func (s *server) serve(r *http.Request, address string) response {
	r.RemoteAddr = address
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	res := response{t: s.cluster.t, status: w.Code, header: w.Header(), text: w.Body.String()}
	_ = json.Unmarshal(w.Body.Bytes(), &res.body)
	return res
}

func TestFailuresOfANetwork(t *testing.T) {
	const most = 100
	each(t, func(t *testing.T, c *cluster) {
		s, other := c.start(nil), c.start(nil)
		root := s.setup()
		s.post(root.access(), usersPath, object{"username": "mia", "password": password, "role": "member"}).want(http.StatusCreated)
		head := c.head()
		guess := func(i int) response {
			return []*server{s, other}[i%2].login(fmt.Sprintf("user%d", i), "wrong password")
		}
		for i := range most - 2 {
			guess(i).wantError(http.StatusUnauthorized, code.InvalidCredentials)
		}
		c.wait(time.Minute)
		responses := atOnce(8, func(i int) response { return guess(most + i) })
		require.Equal(t, map[string]int{"invalid_credentials": 2, "rate_limited": 6}, statuses(responses))
		for name, res := range map[string]response{
			"another name":       guess(1000),
			"the right password": s.login("mia", password),
			"on another replica": other.login("mia", password),
			"another address":    s.loginFrom(t.Context(), "127.0.0.255:443", "mia", password),
		} {
			require.Equal(t, http.StatusTooManyRequests, res.status, "%s: %s", name, res.text)
			require.Equal(t, "840", res.header.Get("Retry-After"), "14 minutes remain of the window of the first failure")
		}
		recorded := len(c.log(head))
		require.Equal(t, recorded, s.count(`SELECT failures FROM login_networks`), "all that were compared")
		require.GreaterOrEqual(t, recorded, most)
		s.loginFrom(t.Context(), "127.0.1.1:443", "mia", password).want(http.StatusOK)

		c.wait(lockout - time.Minute)
		guess(0).wantError(http.StatusUnauthorized, code.InvalidCredentials)
		require.Equal(t, 1, s.count(`SELECT failures FROM login_networks`), "the count begins anew")
		s.signIn()
		require.Equal(t, 1, s.count(`SELECT failures FROM login_networks`), "a successful login does not clear it")
		c.wait(lockout + time.Microsecond)
		s.service.Sweep(t.Context())
		require.Zero(t, s.count(`SELECT COUNT(*) FROM login_networks`))
	})
}

// A disabled user who knows the password cannot fill the audit log.
func TestLoginsOfADisabledUserAreLimited(t *testing.T) {
	oneServer(t, func(t *testing.T, s *server) {
		root := s.setup()
		s.post(root.access(), usersPath, object{"username": "mia", "password": password, "role": "member"}).want(http.StatusCreated)
		mia := s.login("mia", password).want(http.StatusOK)
		id := mia.object("user").text("id")
		s.patch(root.access(), usersPath+"/"+id, object{"status": "disabled"}).want(http.StatusOK)
		head := s.cluster.head()
		for range 5 {
			s.login("mia", password).wantError(http.StatusForbidden, code.AccountDisabled)
		}
		for range 3 {
			s.login("mia", password).wantError(http.StatusTooManyRequests, wire.RateLimited)
		}
		require.Len(t, s.cluster.log(head), 5)
		s.login("root", password).want(http.StatusOK)
	})
}

// Invalid tokens do not use the one connection for writes of SQLite.
func TestUnauthenticatedRequestsDoNotWrite(t *testing.T) {
	t.Parallel()
	s := onSQLite(t, nil)
	s.setup()
	held, err := s.db.Write().Conn(t.Context())
	require.NoError(t, err)
	defer held.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // of all
	defer cancel()
	for path, row := range map[string]struct{ body, code string }{
		"/auth/refresh":  {`{"refresh_token":"rt_unknown"}`, "unauthenticated"},
		"/auth/logout":   {`{"refresh_token":"rt_unknown"}`, "unauthenticated"},
		"/auth/register": {`{"token":"inv_unknown","username":"mia","password":"` + password + `"}`, "invite_invalid"},
		"/auth/setup":    {`{"password":"` + password + `"}`, "already_initialized"},
	} {
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(row.body)))
		require.Contains(t, w.Body.String(), `"`+row.code+`"`, path)
	}
}
