package identity_test

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

	"github.com/seed93082962/agenthost/hub/api"
)

// loginFrom signs in from an address. It may be called from any goroutine.
func (l *launched) loginFrom(ctx context.Context, address, name, password string) answer {
	body, _ := json.Marshal(object{"username": name, "password": password})
	return l.serve(httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/auth/login", bytes.NewReader(body)), address)
}

// from sends a request from an address. It may be called from any goroutine.
func (l *launched) from(address, method, path, token, body string) answer {
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return l.serve(r, address)
}

func (l *launched) serve(r *http.Request, address string) answer {
	r.RemoteAddr = address
	w := httptest.NewRecorder()
	l.handler.ServeHTTP(w, r)
	a := answer{t: l.o.t, status: w.Code, header: w.Header(), text: w.Body.String()}
	_ = json.Unmarshal(w.Body.Bytes(), &a.body)
	return a
}

func TestFailuresOfANetwork(t *testing.T) {
	const most = 100
	each(t, func(t *testing.T, o *office) {
		l, other := o.launch(nil), o.launch(nil)
		root := l.setup()
		l.post(root.access(), usersPath, object{"username": "mia", "password": password, "role": "member"}).want(http.StatusCreated)
		head := o.head()
		guess := func(i int) answer {
			return []*launched{l, other}[i%2].login(fmt.Sprintf("user%d", i), "wrong password")
		}
		for i := range most - 2 {
			guess(i).refused(http.StatusUnauthorized, api.InvalidCredentials)
		}
		o.wait(time.Minute)
		answers := atOnce(8, func(i int) answer { return guess(most + i) })
		require.Equal(t, map[string]int{"invalid_credentials": 2, "rate_limited": 6}, statuses(answers))
		for name, a := range map[string]answer{
			"another name":       guess(1000),
			"the right password": l.login("mia", password),
			"on another replica": other.login("mia", password),
			"another address":    l.loginFrom(t.Context(), "127.0.0.255:443", "mia", password),
		} {
			require.Equal(t, http.StatusTooManyRequests, a.status, "%s: %s", name, a.text)
			require.Equal(t, "840", a.header.Get("Retry-After"), "14 minutes remain of the window of the first failure")
		}
		require.Len(t, o.log(head), most, "a rate limited attempt is not recorded")
		l.loginFrom(t.Context(), "127.0.1.1:443", "mia", password).want(http.StatusOK)

		o.wait(lockout - time.Minute)
		guess(0).refused(http.StatusUnauthorized, api.InvalidCredentials)
		require.Equal(t, 1, l.count(`SELECT failures FROM login_networks`), "the count begins anew")
		l.signIn()
		require.Equal(t, 1, l.count(`SELECT failures FROM login_networks`), "a successful login does not clear it")
		o.wait(lockout + time.Microsecond)
		l.service.Sweep(t.Context())
		require.Zero(t, l.count(`SELECT COUNT(*) FROM login_networks`))
	})
}

// A disabled user who knows the password cannot fill the audit log, not even from the network of an
// earlier sign-in.
func TestLoginsOfADisabledUserAreLimited(t *testing.T) {
	eachLaunch(t, func(t *testing.T, l *launched) {
		root := l.setup()
		l.post(root.access(), usersPath, object{"username": "mia", "password": password, "role": "member"}).want(http.StatusCreated)
		mia := l.login("mia", password).want(http.StatusOK)
		id := mia.object("user").text("id")
		l.patch(root.access(), usersPath+"/"+id, object{"status": "disabled"}).want(http.StatusOK)
		l.login("mia", password).refused(http.StatusForbidden, api.AccountDisabled)
		l.exec(`UPDATE login_networks SET failures = 98`)
		head := l.o.head()
		for range 2 {
			l.login("mia", password).refused(http.StatusForbidden, api.AccountDisabled)
		}
		for range 3 {
			l.login("mia", password).refused(http.StatusTooManyRequests, api.RateLimited)
		}
		require.Len(t, l.o.log(head), 2)
		l.login("root", password).want(http.StatusOK) // still exempt
	})
}

// A guest behind the address of an office, who exhausts the failures of its network, locks out
// neither the accounts that signed in from there within a day nor a signed-in user who changes the
// password.
func TestAGuestDoesNotLockOutTheOffice(t *testing.T) {
	each(t, func(t *testing.T, o *office) {
		l, other := o.launch(nil), o.launch(nil)
		root := l.setup()
		for _, name := range []string{"ada", "mia"} {
			l.post(root.access(), usersPath, object{"username": name, "password": password, "role": "member"}).want(http.StatusCreated)
		}
		mia := l.login("mia", password).want(http.StatusOK)
		o.wait(day)
		l.login("ada", password).want(http.StatusOK)
		for i := range 100 {
			l.login(fmt.Sprintf("user%d", i), "wrong password").refused(http.StatusUnauthorized, api.InvalidCredentials)
		}
		change := func(from, to string) answer {
			return other.post(mia.access(), changePath, object{"old_password": from, "new_password": to})
		}
		mia = l.refresh(mia["refresh_token"]).want(http.StatusOK)
		l.login("guest", "wrong password").refused(http.StatusTooManyRequests, api.RateLimited)
		l.login("mia", password).refused(http.StatusTooManyRequests, api.RateLimited) // signed in a day ago
		for range 2 {
			other.login("ada", password).want(http.StatusOK)
		}
		l.loginFrom(t.Context(), "127.0.0.77:1", "ADA", password).want(http.StatusOK)
		change(password, password+"2").want(http.StatusNoContent)

		// Incorrect passwords count for the account as before.
		for range 5 {
			l.login("ada", "wrong password").refused(http.StatusUnauthorized, api.InvalidCredentials)
			change("wrong password", password).refused(http.StatusUnauthorized, api.InvalidCredentials)
		}
		l.login("ada", password).refused(http.StatusTooManyRequests, api.RateLimited)
		change(password+"2", password).refused(http.StatusTooManyRequests, api.RateLimited)
		require.Equal(t, 100, l.count(`SELECT failures FROM login_networks`))
	})
}

// Invalid tokens do not use the one connection for writes of SQLite.
func TestStrangersDoNotWrite(t *testing.T) {
	t.Parallel()
	l := onSQLite(t, nil)
	l.setup()
	held, err := l.db.Write().Conn(t.Context())
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
		l.handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(row.body)))
		require.Contains(t, w.Body.String(), `"`+row.code+`"`, path)
	}
}
