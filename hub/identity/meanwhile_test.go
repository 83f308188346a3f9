package identity_test

import (
	"context"
	"database/sql"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/internal/pgtest"
)

// The helper holds a lock until call waits for it, changes something under it, and releases it.
func (l *launched) meanwhile(lock string, call func() answer, change func(*sql.Tx)) answer {
	t := l.o.t
	t.Helper()
	held, err := l.db.Write().BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = held.Rollback() }()
	_, err = held.ExecContext(t.Context(), lock)
	require.NoError(t, err)
	done := make(chan answer)
	go func() { done <- call() }()
	l.waiting(1)
	change(held)
	require.NoError(t, held.Commit())
	return <-done
}

// waiting returns when n statements wait for locks.
func (l *launched) waiting(n int) {
	l.o.t.Helper()
	require.Eventually(l.o.t, func() bool {
		return l.count(`SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == n
	}, time.Minute, time.Millisecond)
}

// The password is verified, and then changed before the session begins.
func TestAPasswordThatChangesDuringTheLogin(t *testing.T) {
	t.Parallel()
	l := newOffice(t, pgtest.URL(t)).launch(nil)
	l.setup()
	for _, change := range []string{
		`UPDATE members SET status = 'disabled'`,
		`UPDATE members SET status = 'active', password_hash = replace(password_hash, 'p=1$', 'p=1$AAAA')`,
	} {
		a := l.meanwhile(`SELECT id FROM members FOR UPDATE`, func() answer { return l.login("root", password) }, func(tx *sql.Tx) {
			_, err := tx.ExecContext(t.Context(), change)
			require.NoError(t, err)
		})
		require.GreaterOrEqual(t, a.status, http.StatusUnauthorized, a.text)
		require.Equal(t, 1, l.count(`SELECT COUNT(*) FROM sessions`), "that of the setup alone")
		l.exec(`UPDATE members SET status = 'active'`)
	}
}

// If a network is locked while a password is verified, the sign-in fails, whatever was counted for
// the account before.
func TestANetworkThatIsLockedDuringTheLogin(t *testing.T) {
	t.Parallel()
	l := newOffice(t, pgtest.URL(t)).launch(nil)
	l.setup()
	l.exec(`UPDATE sessions SET created_at = 0`) // the limit of the network applies to users who signed in long ago
	l.login("root", "wrong password").refused(http.StatusUnauthorized, api.InvalidCredentials)
	for range 2 { // the first time with a failure of the account, the second without
		l.exec(`DELETE FROM login_networks`)
		l.meanwhile(`SELECT id FROM members FOR UPDATE`, func() answer { return l.login("root", password) }, func(tx *sql.Tx) {
			_, err := tx.ExecContext(t.Context(), `INSERT INTO login_networks (network, began, failures) VALUES ('127.0.0.0/24', $1, 100)`, l.o.now().UnixMicro())
			require.NoError(t, err)
		}).refused(http.StatusTooManyRequests, api.RateLimited)
		l.exec(`DELETE FROM login_attempts`)
	}
	require.Equal(t, 1, l.count(`SELECT COUNT(*) FROM sessions`), "that of the setup alone")
}

// A session that is read while its user may change serves that request, and is not cached. The
// change is one of the password that waits too, is given up and so may have been made or not.
func TestAStateThatWasReadDuringAChange(t *testing.T) {
	t.Parallel()
	l := newOffice(t, pgtest.URL(t)).launch(nil)
	root := l.o.signedIn(l.setup())
	token := l.signIn().access()
	l.get(root.token, "/auth/userinfo").want(http.StatusOK)
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	body := `{"old_password":"` + password + `","new_password":"another password"}`
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, changePath, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+root.token)
	l.meanwhile(`LOCK TABLE sessions IN ACCESS EXCLUSIVE MODE`, func() answer { return l.get(token, "/auth/userinfo") }, func(*sql.Tx) {
		var wg sync.WaitGroup
		wg.Go(func() { l.handler.ServeHTTP(httptest.NewRecorder(), r) })
		l.waiting(2)
		giveUp()
		wg.Wait()
	}).want(http.StatusOK)
	l.exec(`UPDATE sessions SET revoked_at = 1`)
	l.get(token, "/auth/userinfo").refused(http.StatusUnauthorized, api.TokenRevoked)
}
