package session_test

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

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/pgtest"
)

// The helper holds a lock until call waits for it, changes something under it, and releases it.
func (s *server) meanwhile(lock string, call func() response, change func(*sql.Tx)) response {
	t := s.cluster.t
	t.Helper()
	held, err := s.db.Write().BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = held.Rollback() }()
	_, err = held.ExecContext(t.Context(), lock)
	require.NoError(t, err)
	done := make(chan response)
	go func() { done <- call() }()
	s.waiting(1)
	change(held)
	require.NoError(t, held.Commit())
	return <-done
}

// waiting returns when n statements of requests wait for locks. The worker that records uses and
// deletes sessions may wait too.
func (s *server) waiting(n int) {
	s.cluster.t.Helper()
	require.Eventually(s.cluster.t, func() bool {
		return s.count(`SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
			AND query NOT LIKE 'UPDATE sessions SET last_used_at%' AND query NOT LIKE 'DELETE FROM sessions WHERE expires_at%'`) == n
	}, time.Minute, 20*time.Millisecond)
}

// The password is verified, and then changed before the session begins.
func TestAPasswordThatChangesDuringTheLogin(t *testing.T) {
	t.Parallel()
	s := newCluster(t, pgtest.URL(t)).start(nil)
	s.setup()
	for _, change := range []string{
		`UPDATE members SET status = 'disabled'`,
		`UPDATE members SET status = 'active', password_hash = replace(password_hash, 'p=1$', 'p=1$AAAA')`,
	} {
		res := s.meanwhile(`SELECT id FROM members FOR UPDATE`, func() response { return s.login("root", password) }, func(tx *sql.Tx) {
			_, err := tx.ExecContext(t.Context(), change)
			require.NoError(t, err)
		})
		require.GreaterOrEqual(t, res.status, http.StatusUnauthorized, res.text)
		require.Equal(t, 1, s.count(`SELECT COUNT(*) FROM sessions`), "that of the setup alone")
		s.exec(`UPDATE members SET status = 'active'`)
	}
}

// If a network is locked while a password is verified, the sign-in fails, whatever was counted for
// the account before.
func TestANetworkThatIsLockedDuringTheLogin(t *testing.T) {
	t.Parallel()
	s := newCluster(t, pgtest.URL(t)).start(nil)
	s.setup()
	s.exec(`UPDATE sessions SET created_at = 0`) // the limit of the network applies to users who signed in long ago
	s.login("root", "wrong password").wantError(http.StatusUnauthorized, code.InvalidCredentials)
	for range 2 { // the first time with a failure of the account, the second without
		s.exec(`DELETE FROM login_networks`)
		s.meanwhile(`SELECT id FROM members FOR UPDATE`, func() response { return s.login("root", password) }, func(tx *sql.Tx) {
			_, err := tx.ExecContext(t.Context(), `INSERT INTO login_networks (network, began, failures) VALUES ('127.0.0.0/24', $1, 100)`, s.cluster.now().UnixMicro())
			require.NoError(t, err)
		}).wantError(http.StatusTooManyRequests, wire.RateLimited)
		s.exec(`DELETE FROM login_attempts`)
	}
	require.Equal(t, 1, s.count(`SELECT COUNT(*) FROM sessions`), "that of the setup alone")
}

// The command waits for a CLI token that is being issued, and revokes it.
func TestATokenThatIsIssuedDuringTheCommand(t *testing.T) {
	t.Parallel()
	s := newCluster(t, pgtest.URL(t)).start(nil)
	_, token := s.issue(s.cluster.signedIn(s.setup()))
	command := s.cluster.start(func(c *config) { c.Offline = true })
	s.exec(`UPDATE cli_tokens SET revoked_at = created_at`)
	s.meanwhile(`UPDATE tenants SET version = version + 1`, func() response {
		_, err := command.accounts.ResetPassword(t.Context(), "root")
		require.NoError(t, err)
		return response{}
	}, func(tx *sql.Tx) {
		_, err := tx.ExecContext(t.Context(), `UPDATE cli_tokens SET revoked_at = NULL`)
		require.NoError(t, err)
	})
	s.get(token, "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenRevoked)
}

// A session that is read while its user may change serves that request, and is not cached. The
// change is one of the password that waits too, is given up and so may have been made or not.
func TestAStateThatWasReadDuringAChange(t *testing.T) {
	t.Parallel()
	s := newCluster(t, pgtest.URL(t)).start(nil)
	root := s.cluster.signedIn(s.setup())
	token := s.signIn().access()
	s.get(root.token, "/auth/userinfo").want(http.StatusOK)
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	body := `{"old_password":"` + password + `","new_password":"another password"}`
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, changePath, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+root.token)
	s.meanwhile(`LOCK TABLE sessions IN ACCESS EXCLUSIVE MODE`, func() response { return s.get(token, "/auth/userinfo") }, func(*sql.Tx) {
		var wg sync.WaitGroup
		wg.Go(func() { s.handler.ServeHTTP(httptest.NewRecorder(), r) })
		s.waiting(2)
		giveUp()
		wg.Wait()
	}).want(http.StatusOK)
	s.exec(`UPDATE sessions SET revoked_at = 1`)
	s.get(token, "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenRevoked)
}
