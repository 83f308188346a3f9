package session

import (
	"context"
	"errors"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/password"
	"github.com/seed93082962/agenthost/hub/store"
	"github.com/seed93082962/agenthost/hub/user"
	"github.com/seed93082962/agenthost/rbac"
)

// LoginInput is the credential of a login.
type LoginInput struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

func (in LoginInput) validate() error {
	fields := api.Fields{}
	if in.Username == "" {
		fields.Add("username", "must not be empty")
	}
	if in.Password == "" {
		fields.Add("password", "must not be empty")
	}
	return fields.Err()
}

// errUserChanged means that the user was changed while the password was checked.
var errUserChanged = errors.New("user was changed concurrently")

// Login starts a session. An unknown user and an incorrect password return the same error after the
// same work.
func (s *Service) Login(ctx context.Context, from api.Caller, in LoginInput) (signIn SignIn, err error) {
	defer func() { s.metrics.login(ctx, byPassword, err) }()
	if err := in.validate(); err != nil {
		return SignIn{}, err
	}
	if err := s.keys.Ready(ctx); err != nil {
		return SignIn{}, err
	}
	const tries = 3 // the user may be changed while the password is hashed
	for range tries {
		signIn, err := s.tryLogin(ctx, from, in)
		if !errors.Is(err, errUserChanged) {
			return signIn, err
		}
	}
	return SignIn{}, api.InvalidCredentials
}

func (s *Service) tryLogin(ctx context.Context, from api.Caller, in LoginInput) (signIn SignIn, err error) {
	attempt, err := s.passwords.Start(ctx, password.AttemptOf(from, in.Username))
	if err != nil {
		return signIn, err
	}
	u, err := user.ByName(ctx, s.store.Read(), api.DefaultTenant, in.Username)
	if err != nil && !errors.Is(err, user.ErrNone) {
		return signIn, err
	}
	right, err := s.passwords.Verify(ctx, attempt.Party(), u.PasswordHash, in.Password)
	if err != nil {
		return signIn, err
	}
	right = right && !u.ResetExpired(s.store.Now())
	switch {
	case attempt.Refused(right && u.Active()):
		return signIn, s.passwords.RejectSlowly(ctx, attempt)
	case !right:
		return signIn, s.rejectLogin(ctx, from, u, attempt, in.Username, api.InvalidCredentials)
	case !u.Active():
		return signIn, s.rejectLogin(ctx, from, u, attempt, in.Username, api.AccountDisabled)
	}
	hash := u.PasswordHash
	if s.passwords.Outdated(hash) {
		if hash, err = s.passwords.Hash(ctx, attempt.Party(), in.Password); err != nil {
			return signIn, err
		}
	}
	err = s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		// The password and the status cannot change between the check and the session. The name or
		// the role may have changed with the password.
		now, err := user.RecordLogin(ctx, tx, u, hash)
		if errors.Is(err, user.ErrNone) {
			return errUserChanged
		}
		if err != nil {
			return err
		}
		if err := s.passwords.Clear(ctx, tx, attempt); err != nil {
			return err
		}
		if signIn, err = s.begin(ctx, tx, now, from, ""); err != nil {
			return err
		}
		tx.Record(actionLogin.Record(now.Event(from), sessionDetail{SessionID: signIn.session}))
		return nil
	})
	if signIn.evicted > 0 {
		s.forget(u.ID)
	}
	return signIn, err
}

// rejectLogin counts and records a failure, also if the client has disconnected. It returns the
// error of the response.
func (s *Service) rejectLogin(ctx context.Context, from api.Caller, u user.User, attempt password.Attempt, name string, why api.Code) error {
	ctx, cancel := password.Detached(ctx)
	defer cancel()
	e := u.Target(from.Event())
	e.TenantID = api.DefaultTenant
	e.UserID = u.ID
	e.UserName = user.AuditName(name)
	e.Status = auditlog.Failure
	err := s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		tx.Record(user.ActionLoginFailed.Record(e, user.LoginFailedDetail{Reason: string(why)}))
		if why != api.InvalidCredentials { // the password was correct: no other limit bounds the entries of a disabled account
			return s.passwords.CountNetwork(ctx, tx, attempt)
		}
		return s.passwords.Count(ctx, tx, attempt)
	})
	if err != nil {
		return err
	}
	return why
}

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
	if fault := password.Check(caller.UserName, in.NewPassword); fault != "" {
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
	attempt, err := s.passwords.Start(ctx, password.ChangeAttempt(caller))
	if err != nil {
		return err
	}
	u, err := user.ByID(ctx, s.store.Read(), caller.TenantID, caller.UserID)
	if errors.Is(err, user.ErrNone) {
		return api.TokenRevoked
	}
	if err != nil {
		return err
	}
	right, err := s.passwords.Verify(ctx, attempt.Party(), u.PasswordHash, in.OldPassword)
	if err != nil {
		return err
	}
	if !right {
		return s.rejectChange(ctx, caller, u, attempt)
	}
	hash, err := s.passwords.Hash(ctx, attempt.Party(), in.NewPassword)
	if err != nil {
		return err
	}
	err = s.users.Change(ctx, caller, rbac.Group{}, func(tx *store.Tx) error {
		changed, err := user.ChangePassword(ctx, tx, u, hash)
		if err != nil {
			return err
		}
		if !changed {
			return api.Conflict.New("The account was changed concurrently: try again.")
		}
		if err := s.passwords.Clear(ctx, tx, attempt); err != nil {
			return err
		}
		ended, err := user.EndSessions(ctx, tx, u, caller.SessionID, user.EndedByPassword)
		tx.Record(actionChangePassword.Record(u.Event(caller), changePasswordDetail{SessionsEnded: len(ended)}))
		return err
	})
	s.forget(u.ID)
	return err
}

// rejectChange counts an incorrect old password, so that the holder of a stolen session cannot find
// the password.
func (s *Service) rejectChange(ctx context.Context, caller api.Caller, u user.User, attempt password.Attempt) error {
	ctx, cancel := password.Detached(ctx)
	defer cancel()
	e := u.Event(caller)
	e.Status = auditlog.Failure
	err := s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		tx.Record(actionChangePassword.Record(e, changePasswordDetail{Reason: string(api.InvalidCredentials)}))
		return s.passwords.Count(ctx, tx, attempt)
	})
	if err != nil {
		return err
	}
	return api.InvalidCredentials.New("The old password is wrong.")
}
