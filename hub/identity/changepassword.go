package identity

import (
	"context"
	"errors"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

// ChangePasswordInput is the current password and the new one.
type ChangePasswordInput struct {
	OldPassword string `json:"old_password"`
	NewPassword string `json:"new_password"`
}

func (in ChangePasswordInput) validate(caller api.Caller) error {
	fields := api.Fields{}
	if in.OldPassword == "" {
		fields.Add("old_password", "must not be empty")
	}
	if fault := validatePassword(caller.UserName, in.NewPassword); fault != "" {
		fields.Add("new_password", fault)
	}
	if caller.MustChangePassword && in.NewPassword == in.OldPassword {
		fields.Add("new_password", "must differ from the old password")
	}
	return fields.Err()
}

// checkSession fails with api.Forbidden if the caller has no session.
func checkSession(caller api.Caller) error {
	if caller.Kind != api.Session {
		return api.Forbidden.New("A CLI token cannot change a password: sign in with it.")
	}
	return nil
}

// ChangePassword replaces the password of the caller and ends all other sessions of the user. CLI
// tokens stay valid.
func (s *Service) ChangePassword(ctx context.Context, caller api.Caller, in ChangePasswordInput) error {
	if err := checkSession(caller); err != nil {
		return err
	}
	if err := in.validate(caller); err != nil {
		return err
	}
	try, err := s.startAttempt(ctx, changeAttempt(caller))
	if err != nil {
		return err
	}
	m, err := memberByID(ctx, s.store.Read(), caller.TenantID, caller.UserID)
	if errors.Is(err, errNoMember) {
		return api.TokenRevoked
	}
	if err != nil {
		return err
	}
	right, err := s.verifyPassword(ctx, try.share(), m.PasswordHash, in.OldPassword)
	if err != nil {
		return err
	}
	if !right {
		return s.rejectChange(ctx, caller, m, try)
	}
	hash, err := s.hashPassword(ctx, try.share(), in.NewPassword)
	if err != nil {
		return err
	}
	err = s.change(ctx, caller, rbac.Group{}, func(tx *store.Tx) error {
		changed, err := changePassword(ctx, tx, m, hash, s.store.Now())
		if err != nil {
			return err
		}
		if !changed {
			return api.Conflict.New("The account was changed concurrently: try again.")
		}
		if err := s.clearFailures(ctx, tx, try); err != nil {
			return err
		}
		ended, err := s.endSessions(ctx, tx, m, caller.SessionID, endedByPassword)
		if err != nil {
			return err
		}
		tx.Record(actionChangePassword.Record(selfEvent(caller, m), changePasswordDetail{SessionsEnded: len(ended)}))
		return nil
	})
	s.invalidateUser(m.ID)
	return err
}

// rejectChange counts an incorrect old password, so that the holder of a stolen session cannot find
// the password.
func (s *Service) rejectChange(ctx context.Context, caller api.Caller, m member, try attempt) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	e := selfEvent(caller, m)
	e.Status = auditlog.Failure
	err := s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		if err := s.countFailure(ctx, tx, try); err != nil {
			return err
		}
		tx.Record(actionChangePassword.Record(e, changePasswordDetail{Reason: string(api.InvalidCredentials)}))
		return nil
	})
	if err != nil {
		return err
	}
	return api.InvalidCredentials.New("The old password is wrong.")
}
