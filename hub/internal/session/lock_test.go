package session_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db/pgtest"
)

// Every transaction that changes a member and the failures of its name locks the member first, so
// that no deadlock is possible. SQLite has only one writer.
func TestOneOrderOfLocks(t *testing.T) {
	t.Parallel()
	s := newCluster(t, pgtest.URL(t)).start(nil)
	root := s.setup()
	reset := ""
	login := func(password string) response { return s.login("root", password) }
	change := func(from string) response {
		return s.post(root.access(), changePath, object{"old_password": from, "new_password": password + "2"})
	}
	for _, row := range []struct {
		name    string
		attempt func(password string) response
		call    func() response
	}{
		{"login", login, func() response { return login(password) }},
		{"change password", change, func() response {
			return change(password)
		}},
		{"reset of one's own", login, func() response {
			res := s.post(root.access(), usersPath+"/"+root.object("user").text("id")+"/reset-password", nil)
			reset = res.body.text("password")
			return res
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.attempt("wrong password").want(http.StatusUnauthorized)
			held, err := s.db.Write().BeginTx(t.Context(), nil)
			require.NoError(t, err)
			defer func() { _ = held.Rollback() }()
			_, err = held.ExecContext(t.Context(), `SELECT id FROM members FOR UPDATE`)
			require.NoError(t, err)
			done := make(chan response)
			go func() { done <- row.call() }()
			s.waiting(1) // for the member
			_, err = held.ExecContext(t.Context(), `SELECT at5 FROM login_attempts FOR UPDATE NOWAIT`)
			require.NoError(t, err, "it holds what is locked later")
			require.NoError(t, held.Commit())
			require.Less(t, (<-done).status, 300)
			require.Zero(t, s.count(`SELECT COUNT(*) FROM login_attempts`))
		})
	}
	s.login("root", reset).want(http.StatusOK)
}
