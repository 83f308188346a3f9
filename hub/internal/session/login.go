package session

import (
	"context"
	"errors"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/password"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/internal/user"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/rbac"
)

func validateLogin(in bodies.LoginRequest) error {
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
func (s *Service) Login(ctx context.Context, from api.Caller, in bodies.LoginRequest) (signIn SignIn, err error) {
	defer func() { s.metrics.login(ctx, byPassword, err) }()
	if err := validateLogin(in); err != nil {
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

	return SignIn{}, code.InvalidCredentials
}

func (s *Service) tryLogin(ctx context.Context, from api.Caller, in bodies.LoginRequest) (SignIn, error) {
	device, err := s.deviceOf(ctx, in.DeviceToken, func(u user.User) bool {
		return u.TenantID == api.DefaultTenant && password.Fold(u.Username) == password.Fold(in.Username)
	})
	if err != nil {
		return SignIn{}, err
	}

	attempt := password.AttemptOf(from, in.Username).On(device)
	if err := s.passwords.Start(ctx, attempt); err != nil { // before the user is read: a response for every name
		return SignIn{}, err
	}

	u, err := user.ByName(ctx, s.store.Read(), api.DefaultTenant, in.Username)
	if err != nil && !errors.Is(err, user.ErrNone) {
		return SignIn{}, err
	}

	right, err := s.passwords.Verify(ctx, attempt.Party(), u.PasswordHash, in.Password)
	if err != nil {
		return SignIn{}, err
	}

	right = right && !u.ResetExpired(s.store.Now())
	switch {
	case !right:
		return SignIn{}, s.rejectLogin(ctx, from, u, attempt, in.Username, code.InvalidCredentials)
	case !u.Active():
		return SignIn{}, s.rejectLogin(ctx, from, u, attempt, in.Username, code.AccountDisabled)
	}

	hash := u.PasswordHash
	if s.passwords.Outdated(hash) {
		if hash, err = s.passwords.Hash(ctx, attempt.Party(), in.Password); err != nil {
			return SignIn{}, err
		}
	}

	var signIn SignIn
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

		if signIn, err = s.begin(ctx, tx, now, from, origin{device: device}); err != nil {
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
func (s *Service) rejectLogin(ctx context.Context, from api.Caller, u user.User, attempt password.Attempt, name string, why wire.Code) error {
	ctx, cancel := password.Detached(ctx)
	defer cancel()
	e := u.Target(from.Event())
	e.TenantID = api.DefaultTenant
	e.UserID = u.ID
	e.UserName = user.AuditName(name)
	e.Status = auditlog.Failure
	counted, err := s.recordFailure(ctx, attempt, e, string(why))
	if err != nil {
		return err
	}

	return counted.Err(why)
}

// maxWrongPasswords is how many incorrect passwords end the sessions of a device that gave them to
// change the password.
const maxWrongPasswords = 5

func validateChange(caller api.Caller, in bodies.ChangePasswordRequest) error {
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

// checkSession fails with wire.Forbidden if the caller has no session.
func checkSession(caller api.Caller) error {
	if caller.Kind != api.Session {
		return wire.Forbidden.New("A CLI token cannot change a password: sign in with it.")
	}

	return nil
}

// ChangePassword replaces the password of the caller and ends all other sessions of the user. CLI
// tokens stay valid.
func (s *Service) ChangePassword(ctx context.Context, caller api.Caller, in bodies.ChangePasswordRequest) error {
	if err := checkSession(caller); err != nil {
		return err
	}

	if err := validateChange(caller, in); err != nil {
		return err
	}

	own, err := s.state(caller.SessionID, func(st *state) error { return s.readSession(ctx, caller.SessionID, st) })
	if err != nil {
		return err
	}

	attempt := password.AttemptOf(caller, caller.UserName).On(own.device) // a session is on its device
	if err := s.passwords.Start(ctx, attempt); err != nil {
		return err
	}

	u, err := user.ByID(ctx, s.store.Read(), caller.TenantID, caller.UserID)
	if errors.Is(err, user.ErrNone) {
		return wire.TokenRevoked
	}

	if err != nil {
		return err
	}

	right, err := s.passwords.Verify(ctx, attempt.Party(), u.PasswordHash, in.OldPassword)
	if err != nil {
		return err
	}

	if !right {
		return s.rejectChange(ctx, caller, u, attempt, own.device)
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
			return wire.Conflict.New("The account was changed concurrently: try again.")
		}

		if err := s.passwords.Clear(ctx, tx, attempt); err != nil {
			return err
		}

		if err := clearWrongPasswords(ctx, tx, u); err != nil {
			return err
		}

		ended, err := user.EndSessions(ctx, tx, u, caller.SessionID, user.EndedByPassword)
		tx.Record(actionChangePassword.Record(u.Event(caller), changePasswordDetail{SessionsEnded: len(ended)}))
		return err
	})
	s.forget(u.ID)
	return err
}

// rejectChange counts an incorrect old password, and ends the session after maxWrongPasswords: the
// holder of a stolen session cannot find the password, neither with other sessions that it began.
func (s *Service) rejectChange(ctx context.Context, caller api.Caller, u user.User, attempt password.Attempt, device string) error {
	ctx, cancel := password.Detached(ctx)
	defer cancel()
	ctx = db.WithCheck(ctx, nil) // the failure may end the access of the caller
	e := u.Event(caller)
	e.Status = auditlog.Failure
	var counted password.Counted
	var live, ended int
	err := s.store.Change(ctx, store.Change{}, func(tx *store.Tx) (err error) {
		ended = 0
		if counted, err = s.passwords.Count(ctx, tx, attempt); err != nil {
			return err
		}

		sessions, err := countWrongPassword(ctx, tx, caller, device)
		if err != nil {
			return err
		}

		live = len(sessions)
		for _, end := range sessions {
			if end {
				ended++
			}
		}

		if counted.Entries > 0 || ended > 0 {
			detail := changePasswordDetail{Reason: string(code.InvalidCredentials), Attempts: counted.Sampled(), SessionsEnded: ended}
			tx.Record(actionChangePassword.Record(e, detail))
		}

		return nil
	})
	if ended > 0 {
		s.forget(u.ID)
	}

	if err != nil {
		return err
	}

	if live == 0 { // the session has ended, and the password is not judged
		return wire.TokenRevoked
	}

	return counted.Err(code.InvalidCredentials.New("The old password is wrong."))
}
