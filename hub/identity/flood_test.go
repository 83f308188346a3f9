package identity_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/api"
)

// loginFrom signs in from an address. It may be called beside the test.
func (l *launched) loginFrom(ctx context.Context, address, name, password string) answer {
	body, _ := json.Marshal(object{"username": name, "password": password})
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/auth/login", strings.NewReader(string(body)))
	r.RemoteAddr = address
	w := httptest.NewRecorder()
	l.handler.ServeHTTP(w, r)
	a := answer{t: l.o.t, status: w.Code, header: w.Header(), text: w.Body.String()}
	_ = json.Unmarshal(w.Body.Bytes(), &a.body)
	return a
}

// Hashes that take for ever hold all slots: 64 wait for 2 seconds, and all others are answered at once.
func TestTooManyAtOnceAreToldToComeAgain(t *testing.T) {
	const waiting, more = 64, 16
	l := onSQLite(t, nil)
	l.setup()
	head := l.o.head()
	const slow = "$argon2id$v=19$m=98304,t=100,p=1$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"
	l.exec(`UPDATE members SET password_hash = $1`, slow)
	slots := max(1, runtime.GOMAXPROCS(0)/2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var mu sync.Mutex // guards atOnce
	refusedAtOnce := 0
	answers := atOnce(slots+waiting+more, func(i int) answer {
		begin := time.Now()
		a := l.loginFrom(ctx, fmt.Sprintf("192.0.2.%d:443", i), "root", "wrong password")
		if a.status == http.StatusServiceUnavailable {
			mu.Lock()
			defer mu.Unlock()
			if time.Since(begin) < 2*time.Second {
				refusedAtOnce++
			}
		}
		return a
	})
	require.Equal(t, map[string]int{"invalid_credentials": slots, "unavailable": waiting + more}, statuses(answers))
	require.Equal(t, more, refusedAtOnce)
	for _, a := range answers {
		if a.status == http.StatusServiceUnavailable {
			require.Equal(t, "2", a.header.Get("Retry-After"))
		}
	}
	require.Len(t, l.o.log(head), slots, "who was not heard is not recorded")
}

func TestFailuresOfANetwork(t *testing.T) {
	const most = 100
	each(t, func(t *testing.T, o *office) {
		l, other := o.launch(nil), o.launch(nil)
		root := l.setup()
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
			"the right password": l.login("root", password),
			"on another replica": other.login("root", password),
			"a change":           l.post(root.access(), changePath, object{"old_password": password, "new_password": "another password"}),
		} {
			require.Equal(t, http.StatusTooManyRequests, a.status, "%s: %s", name, a.text)
			require.Equal(t, "840", a.header.Get("Retry-After"), "14 minutes are left of those that began with the first failure")
		}
		require.Len(t, o.log(head), most, "what is refused for too many failures is not recorded")
		l.loginFrom(t.Context(), "192.0.2.1:443", "root", password).want(http.StatusOK)

		o.wait(lockout - time.Minute)
		guess(0).refused(http.StatusUnauthorized, api.InvalidCredentials)
		require.Equal(t, 1, l.count(`SELECT failures FROM login_networks`), "the count begins anew")
		l.signIn()
		require.Equal(t, 1, l.count(`SELECT failures FROM login_networks`), "who knows one password does not clear it")
		o.wait(lockout + time.Microsecond)
		l.service.Sweep(t.Context())
		require.Zero(t, l.count(`SELECT COUNT(*) FROM login_networks`))
	})
}

// Tokens that are none take nothing that others need: with SQLite there is one writer.
func TestStrangersDoNotWrite(t *testing.T) {
	t.Parallel()
	l := onSQLite(t, nil)
	l.setup()
	held, err := l.db.Write().Conn(t.Context())
	require.NoError(t, err)
	defer held.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // of all
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
