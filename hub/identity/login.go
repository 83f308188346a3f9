package identity

import (
	"context"
	"errors"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/internal/excerpt"
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

// errMemberChanged means that the member was changed while the password was checked.
var errMemberChanged = errors.New("member was changed concurrently")

// Login starts a session. An unknown user and an incorrect password return the same error after the
// same work.
func (s *Service) Login(ctx context.Context, from api.Caller, in LoginInput) (SignIn, error) {
	if err := in.validate(); err != nil {
		return SignIn{}, err
	}
	if err := s.keys.ready(ctx); err != nil {
		return SignIn{}, err
	}
	const tries = 3 // the member may be changed while the password is hashed
	for range tries {
		signIn, err := s.tryLogin(ctx, from, in)
		if !errors.Is(err, errMemberChanged) {
			return signIn, err
		}
	}
	return SignIn{}, api.InvalidCredentials
}

func (s *Service) tryLogin(ctx context.Context, from api.Caller, in LoginInput) (signIn SignIn, err error) {
	try, err := s.startAttempt(ctx, attemptOf(from, in.Username))
	if err != nil {
		return signIn, err
	}
	m, err := memberByName(ctx, s.store.Read(), DefaultTenant, in.Username)
	if err != nil && !errors.Is(err, errNoMember) {
		return signIn, err
	}
	right, err := s.verifyPassword(ctx, try.share(), m.PasswordHash, in.Password)
	switch {
	case err != nil:
		return signIn, err
	case try.locked && (!right || !m.active() || m.resetExpired(s.store.Now()) || !try.passes):
		return signIn, s.rejectSlowly(ctx, try)
	case !right || m.resetExpired(s.store.Now()):
		return signIn, s.rejectLogin(ctx, from, m, try, in.Username, api.InvalidCredentials)
	case !m.active():
		return signIn, s.rejectLogin(ctx, from, m, try, in.Username, api.AccountDisabled)
	}
	hash := m.PasswordHash
	if s.hasher.outdated(hash) {
		if hash, err = s.hashPassword(ctx, try.share(), in.Password); err != nil {
			return signIn, err
		}
	}
	err = s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		// The password and the status cannot change between the check and the session.
		updated, err := updateLogin(ctx, tx, m, hash, s.store.Now())
		if err != nil {
			return err
		}
		if !updated {
			return errMemberChanged
		}
		if err := s.clearFailures(ctx, tx, try); err != nil {
			return err
		}
		// The name or role may have changed with the password.
		now, err := memberByID(ctx, tx, m.TenantID, m.ID)
		if err != nil {
			return err
		}
		if signIn, err = s.newSession(ctx, tx, now, from, ""); err != nil {
			return err
		}
		tx.Record(actionLogin.Record(selfEvent(from, now), sessionDetail{signIn.session}))
		return nil
	})
	if signIn.evicted > 0 {
		s.invalidateUser(m.ID)
	}
	return signIn, err
}

// rejectLogin counts and records a failure, also if the client has disconnected. It returns the
// error of the response.
func (s *Service) rejectLogin(ctx context.Context, from api.Caller, m member, try attempt, name string, why api.Code) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	e := from.Event()
	e.TenantID = DefaultTenant
	e.UserID = m.ID
	e.UserName = excerpt.Characters(api.Plain(name), maxAuditName)
	e.Status = auditlog.Failure
	e.TargetType, e.TargetID, e.TargetName = targetUser, m.ID, m.Username
	err := s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		count := s.countFailure
		if why != api.InvalidCredentials { // the password was correct
			count = s.countNetwork // no other limit bounds the entries of a disabled account
		}
		if err := count(ctx, tx, try); err != nil {
			return err
		}
		tx.Record(actionLoginFailed.Record(e, loginFailedDetail{string(why)}))
		return nil
	})
	if err != nil {
		return err
	}
	return why
}
