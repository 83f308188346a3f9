package identity

import (
	"database/sql"
	"errors"
	"net/http"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
)

type changePasswordRequest struct {
	OldPassword string `json:"old_password"`
	NewPassword string `json:"new_password"`
}

// changePassword ends all sessions of the caller but the one that asks for it. CLI tokens stay.
func (s *Service) changePassword(w http.ResponseWriter, r *http.Request) error {
	caller := api.CallerOf(r)
	if caller.Kind != api.Session {
		return api.Forbidden.New("A CLI token cannot change a password: sign in with it.")
	}
	in, err := api.Decode[changePasswordRequest](w, r)
	if err != nil {
		return err
	}
	faults := api.Fields{}
	if in.OldPassword == "" {
		faults.Add("old_password", "must not be empty")
	}
	if fault := validatePassword(in.NewPassword); fault != "" {
		faults.Add("new_password", fault)
	}
	if err := faults.Err(); err != nil {
		return err
	}
	if err := s.replacePassword(r, caller, in); err != nil {
		return err
	}
	return api.NoContent(w)
}

func (s *Service) replacePassword(r *http.Request, caller api.Caller, in changePasswordRequest) error {
	ctx, try := r.Context(), attemptOf(r, caller.UserName)
	if err := s.checkLocked(ctx, s.db.Read(), try); err != nil {
		return err
	}
	m, err := memberByID(ctx, s.db.Read(), caller.TenantID, caller.UserID)
	if errors.Is(err, errNoMember) {
		return api.TokenRevoked
	}
	if err != nil {
		return err
	}
	right, err := s.verifyPassword(ctx, m.PasswordHash, in.OldPassword)
	if err != nil {
		return err
	}
	if !right {
		return s.refuseChange(r, m, try)
	}
	hash, err := s.hashPassword(ctx, in.NewPassword)
	if err != nil {
		return err
	}
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		now := db.Micros(s.now())
		n, err := affected(ctx, tx, "update member", `UPDATE members SET password_hash = $1, password_changed_at = $2, updated_at = $2
			WHERE id = $3 AND password_hash = $4 AND status = $5`, hash, now, m.ID, m.PasswordHash, statusActive)
		if err != nil {
			return err
		}
		if n == 0 {
			return api.Conflict.New("The account was changed meanwhile: try again.")
		}
		if err := s.clearFailures(ctx, tx, try); err != nil {
			return err
		}
		ended, err := s.endSessions(ctx, tx, m.ID, caller.SessionID, endedByPassword)
		if err != nil {
			return err
		}
		return s.record(ctx, tx, actionChangePassword.Record(selfEvent(r, m), changePasswordDetail{SessionsEnded: len(ended)}))
	})
	s.invalidateUser(m.ID)
	return err
}

// refuseChange counts a wrong old password as a failed login: whoever has found a session must not find the password.
func (s *Service) refuseChange(r *http.Request, m member, try attempt) error {
	ctx, cancel := detached(r)
	defer cancel()
	e := selfEvent(r, m)
	e.Status = auditlog.Failure
	err := s.db.Tx(ctx, func(tx *sql.Tx) error {
		if err := s.countFailure(ctx, tx, try); err != nil {
			return err
		}
		return s.record(ctx, tx, actionChangePassword.Record(e, changePasswordDetail{Reason: string(api.InvalidCredentials)}))
	})
	if err != nil {
		return err
	}
	return api.InvalidCredentials.New("The old password is wrong.")
}
