package identity

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"

	"github.com/seed93082962/agenthost/auditlog"
)

// ErrNoUser is what ResetPassword answers where there is no user of that name.
var ErrNoUser = errors.New("no such user")

// ResetPassword gives a user a new password, which it answers, ends all their sessions and revokes their CLI tokens. It is
// for whoever has the hub's machine: a running hub follows within 2 seconds.
func (s *Service) ResetPassword(ctx context.Context, username string) (password string, err error) {
	m, err := memberByName(ctx, s.db.Read(), DefaultTenant, username)
	if err != nil {
		return "", resetFault(username, err)
	}
	password = rand.Text() // 26 letters and digits, at least 128 bits
	hash, err := s.hashPassword(ctx, password)
	if err != nil {
		return "", err
	}
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		// No CLI token can be issued between the password's end and that of the tokens.
		if err := lockTenant(ctx, tx, m.TenantID); err != nil {
			return err
		}
		now, err := memberByID(ctx, tx, m.TenantID, m.ID)
		if err != nil {
			return err
		}
		e := auditlog.Event{TenantID: now.TenantID, TargetType: targetUser, TargetID: now.ID, TargetName: now.Username}
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
