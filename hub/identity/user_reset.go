package identity

import (
	"context"
	"crypto/rand"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

// oneTimePassword is the response of reset-password, the only one with the password.
type oneTimePassword struct {
	Password string `json:"password"`
}

// ResetUserPassword returns a new password of a user, which the user must change. It ends the
// sessions of the user and revokes the CLI tokens and the open invitations that the user created.
func (s *Service) ResetUserPassword(ctx context.Context, caller api.Caller, id string) (password string, err error) {
	if s.cfg.External {
		return "", errNoPasswords
	}
	named, err := userOf(ctx, s.store.Read(), caller, id) // before a password is hashed
	if err != nil {
		return "", err
	}
	// The holder of a stolen CLI token must not get the password of its owner.
	if caller.Kind == api.CLI && caller.UserID == named.ID {
		return "", api.Forbidden.New("A CLI token cannot reset the password of its own user: sign in with it, or ask another administrator.")
	}
	password = rand.Text() // 26 letters and digits, at least 128 bits
	hash, err := s.hashPassword(ctx, knownShare("user "+caller.UserID, caller), password)
	if err != nil {
		return "", err
	}
	err = s.change(ctx, caller, rbac.AdminOnly, func(tx *store.Tx) error {
		m, err := userOf(ctx, tx, caller, id)
		if err != nil {
			return err
		}
		return s.resetPasswordTx(ctx, tx, m, hash, caller.Event(), resetPasswordDetail{})
	})
	s.invalidateUser(named.ID)
	return password, err
}

// resetPasswordTx stores a password that the user must change. It ends the sessions of the user and
// revokes the CLI tokens and the open invites that the user created: an intruder may have created
// one of them.
func (s *Service) resetPasswordTx(ctx context.Context, tx *store.Tx, m member, hash string, e auditlog.Event, detail resetPasswordDetail) error {
	if m.AuthSource != sourceBuiltin {
		return errNoPasswords
	}
	if err := setPassword(ctx, tx, m, hash, true, s.store.Now()); err != nil {
		return err
	}
	ended, err := s.endSessions(ctx, tx, m, "", endedByPassword)
	if err != nil {
		return err
	}
	detail.SessionsEnded = len(ended)
	if detail.TokensRevoked, err = s.revokeTokens(ctx, tx, m); err != nil {
		return err
	}
	invites, err := revokeInvitesOf(ctx, tx, m, tx.Now)
	if err != nil {
		return err
	}
	detail.InvitesRevoked = len(invites)
	tx.Record(actionResetPassword.Record(m.event(e), detail))
	for _, i := range invites {
		tx.Record(i.revoked(e))
	}
	// Failures with the former password must not lock out its owner.
	return deleteAttempts(ctx, tx, foldUsername(m.Username), changeAccount(m.ID))
}
