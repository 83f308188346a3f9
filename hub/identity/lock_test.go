package identity_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/pgtest"
)

// Every transaction that changes a member and the failures of its name locks the member first, so
// that no deadlock is possible. SQLite has only one writer.
func TestOneOrderOfLocks(t *testing.T) { //nolint:tparallel // rows share an office and its clock
	t.Parallel()
	l := newOffice(t, pgtest.URL(t)).launch(nil)
	root := l.setup()
	reset := ""
	login := func(password string) answer { return l.login("root", password) }
	change := func(from string) answer {
		return l.post(root.access(), changePath, object{"old_password": from, "new_password": password + "2"})
	}
	for _, row := range []struct {
		name    string
		attempt func(password string) answer
		call    func() answer
	}{
		{"login", login, func() answer { return login(password) }},
		{"change password", change, func() answer {
			return change(password)
		}},
		{"reset of one's own", login, func() answer {
			a := l.post(root.access(), usersPath+"/"+root.object("user").text("id")+"/reset-password", nil)
			reset = a.body.text("password")
			return a
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.attempt("wrong password").want(http.StatusUnauthorized)
			held, err := l.db.Write().BeginTx(t.Context(), nil)
			require.NoError(t, err)
			defer func() { _ = held.Rollback() }()
			_, err = held.ExecContext(t.Context(), `SELECT id FROM members FOR UPDATE`)
			require.NoError(t, err)
			done := make(chan answer)
			go func() { done <- row.call() }()
			require.Eventually(t, func() bool {
				return l.count(`SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 1
			}, time.Minute, time.Millisecond, "it waits for the member")
			_, err = held.ExecContext(t.Context(), `SELECT at5 FROM login_attempts FOR UPDATE NOWAIT`)
			require.NoError(t, err, "it holds what is locked later")
			require.NoError(t, held.Commit())
			require.Less(t, (<-done).status, 300)
			require.Zero(t, l.count(`SELECT COUNT(*) FROM login_attempts`))
		})
	}
	l.login("root", reset).want(http.StatusOK)
}
