package identity

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/http"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/rbac"
)

// oneTimePassword is what reset-password answers, and nobody can ask for again.
type oneTimePassword struct {
	Password string `json:"password"`
}

func (s *Service) resetUserPassword(w http.ResponseWriter, r *http.Request) error {
	named, err := s.userOf(r) // before the work of a hash
	if err != nil {
		return err
	}
	// Whoever has found a CLI token must not get the password of its owner, which outlives it.
	if caller := api.CallerOf(r); caller.Kind == api.CLI && caller.UserID == named.ID {
		return api.Forbidden.New("A CLI token cannot reset the password of its own user: sign in with it, or ask another administrator.")
	}
	password := rand.Text() // 26 letters and digits, at least 128 bits
	hash, err := s.hashPassword(r.Context(), password)
	if err != nil {
		return err
	}
	var m member
	err = s.change(r, rbac.AdminOnly, func(ctx context.Context, tx *sql.Tx) (err error) {
		if m, err = userIn(ctx, tx, r); err != nil {
			return err
		}
		return s.resetPasswordTx(ctx, tx, m, hash, userEvent(r, m), resetPasswordDetail{})
	})
	s.invalidateUser(m.ID)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, oneTimePassword{password})
}

// resetPasswordTx gives m a password that somebody else has made: whoever signed in or holds a token is out. The detail
// tells how many.
func (s *Service) resetPasswordTx(ctx context.Context, tx *sql.Tx, m member, hash string, e auditlog.Event, detail resetPasswordDetail) error {
	_, err := tx.ExecContext(ctx, `UPDATE members SET password_hash = $1, password_changed_at = $2, updated_at = $2 WHERE id = $3`,
		hash, db.Micros(s.now()), m.ID)
	if err != nil {
		return fault("update member", err)
	}
	ended, err := s.endSessions(ctx, tx, m.ID, "", endedByPassword)
	if err != nil {
		return err
	}
	detail.SessionsEnded = len(ended)
	if detail.TokensRevoked, err = s.revokeTokens(ctx, tx, m.ID); err != nil {
		return err
	}
	// Whoever locked the account with a password that is no more shall not keep its owner out.
	_, err = tx.ExecContext(ctx, `DELETE FROM login_attempts WHERE account_fold = $1`, foldUsername(m.Username))
	if err != nil {
		return fault("clear login attempts", err)
	}
	return s.record(ctx, tx, actionResetPassword.Record(e, detail))
}
