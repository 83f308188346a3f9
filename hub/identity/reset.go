package identity

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/auditlog"
)

// ErrNoUser is returned by ResetPassword if no user has the name.
var ErrNoUser = errors.New("no such user")

// ResetPassword sets and returns a new password of a user, ends all sessions and revokes the CLI
// tokens and invites. It is for the operator of the hub. It takes effect in running hubs within 2
// seconds. It fails in external mode, in which the user could not change the password.
func (s *Service) ResetPassword(ctx context.Context, username string) (password string, err error) {
	if s.cfg.External {
		return "", resetFault(username, errNoPasswords)
	}
	m, err := memberByName(ctx, s.store.Read(), DefaultTenant, username)
	if err != nil {
		return "", resetFault(username, err)
	}
	password = rand.Text() // 26 letters and digits, at least 128 bits
	hash, err := s.hashPassword(ctx, share{}, password)
	if err != nil {
		return "", err
	}
	err = s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		// No CLI token can be issued between the new password and the revocation of the tokens.
		if err := lockTenant(ctx, tx.Tx, m.TenantID); err != nil {
			return err
		}
		now, err := memberByID(ctx, tx, m.TenantID, m.ID)
		if err != nil {
			return err
		}
		e := auditlog.Event{TenantID: now.TenantID}
		return s.resetPasswordTx(ctx, tx, now, hash, e, resetPasswordDetail{Offline: true})
	})
	s.invalidateUser(m.ID)
	if err != nil {
		return "", resetFault(username, err)
	}
	return password, nil
}

func resetFault(username string, err error) error {
	if errors.Is(err, errNoMember) {
		err = ErrNoUser
	}
	return fmt.Errorf("reset password of %q: %w", username, err)
}
