package session

import (
	"context"
	"errors"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/password"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/internal/user"
)

// SignInExternal starts a session of a user whom an identity provider has authenticated. The first
// login creates the user. It fails with code.AccountDisabled for a disabled one.
func (s *Service) SignInExternal(ctx context.Context, from api.Caller, e user.External) (signIn SignIn, err error) {
	defer func() { s.metrics.login(ctx, byProvider, err) }()
	if err := s.keys.Ready(ctx); err != nil {
		return SignIn{}, err
	}

	var u user.User
	err = s.store.Change(ctx, store.Change{}, func(tx *store.Tx) (err error) {
		if e.Registered != nil {
			if err := e.Registered(ctx, tx); err != nil {
				return err
			}
		}

		var created bool
		if u, created, err = s.users.Enter(ctx, tx, from, e); err != nil {
			return err
		}

		if !u.Active() {
			return code.AccountDisabled
		}

		if signIn, err = s.begin(ctx, tx, u, from, origin{provider: e.SessionID}); err != nil {
			return err
		}

		detail := externalLoginDetail{SessionID: signIn.session, Issuer: e.Issuer, Created: created, Role: string(u.Role), Groups: u.Groups}
		tx.Record(actionExternalLogin.Record(u.Event(from), detail))
		return nil
	})
	if errors.Is(err, code.AccountDisabled) {
		failed := u.Event(from)
		failed.Status = auditlog.Failure
		return SignIn{}, s.rejectExternal(ctx, ExternalAttempt{from: from, attempt: password.AttemptOf(from, "")}, failed, string(code.AccountDisabled), code.AccountDisabled)
	}

	if err == nil { // the role and the groups may be others than before
		s.forget(u.ID)
	}

	return signIn, err
}

// ExternalAttempt is a login with an identity provider whose user is not known yet.
type ExternalAttempt struct {
	from    api.Caller
	org     string
	attempt password.Attempt
}

// DeviceIn returns the id of the device in the tokens on which a user of an organization, or of any
// if it is "", has signed in, or "".
func (s *Service) DeviceIn(ctx context.Context, org, devices string) (string, error) {
	return s.deviceOf(ctx, devices, func(u user.User) bool { return (org == "" || u.TenantID == org) && u.Active() })
}

// StartExternal returns an attempt to sign in to an organization. It fails with 429 if too many
// logins from the network have failed, or with a device token of one of its users, too many on that
// device. Each failure is given to [Service.RejectExternal].
func (s *Service) StartExternal(ctx context.Context, from api.Caller, org, devices string) (ExternalAttempt, error) {
	device, err := s.DeviceIn(ctx, org, devices)
	if err != nil {
		return ExternalAttempt{}, err
	}

	a := ExternalAttempt{from: from, org: org, attempt: password.AttemptOf(from, "").On(device)}
	return a, s.passwords.Start(ctx, a.attempt)
}

// RejectExternal records a login that failed before the user was known, in the log of
// [api.SystemTenant], and returns the given error. It returns 429 instead if concurrent logins
// reached the limit.
func (s *Service) RejectExternal(ctx context.Context, a ExternalAttempt, reason string, fault error) error {
	e := a.from.Event().WithTarget("organization", a.org, a.org)
	e.TenantID, e.Status = api.SystemTenant, auditlog.Failure
	err := s.rejectExternal(ctx, a, e, reason, fault)
	s.metrics.reject(ctx, err)
	return err
}

func (s *Service) rejectExternal(ctx context.Context, a ExternalAttempt, e auditlog.Event, reason string, fault error) error {
	ctx, cancel := password.Detached(ctx)
	defer cancel()
	counted, err := s.recordFailure(ctx, a.attempt, e, reason)
	if err != nil {
		return err
	}

	return counted.Err(fault)
}

// recordFailure counts and records a sign-in that failed.
func (s *Service) recordFailure(ctx context.Context, a password.Attempt, e auditlog.Event, reason string) (password.Counted, error) {
	var counted password.Counted
	err := s.store.Change(ctx, store.Change{}, func(tx *store.Tx) (err error) {
		if counted, err = s.passwords.Count(ctx, tx, a); err == nil {
			user.RecordFailure(tx, e, reason, counted)
		}

		return err
	})
	return counted, err
}

// ExternalLogout names the sessions that an identity provider ends: all of a subject, those of one
// session of the provider, or with both, those of that session and those of the subject that may
// be, because the provider did not name their session.
type ExternalLogout struct {
	TenantID  string
	Issuer    string
	Subject   string // or ""
	SessionID string // or ""
	Tokens    bool   // CLI tokens of the users are revoked too
}

// EndExternalSessions ends the sessions that the identity provider names, and revokes the CLI
// tokens of their users if Tokens is set. Other replicas follow within 2 seconds. No such session
// is not an error.
func (s *Service) EndExternalSessions(ctx context.Context, from api.Caller, out ExternalLogout) error {
	if out.Subject == "" && out.SessionID == "" {
		return errors.New("end external sessions: neither a subject nor a session is given")
	}

	var users []user.User
	err := s.store.Change(ctx, store.Change{}, func(tx *store.Tx) (err error) {
		users = nil
		if out.Tokens { // no CLI token can be issued with a session that ends
			if err := user.LockTenant(ctx, tx.Tx, out.TenantID); err != nil {
				return err
			}
		}

		ended, err := endProviderSessions(ctx, tx, out)
		if err != nil {
			return err
		}

		if out.Tokens && out.Subject != "" { // also of a user without a session
			u, err := user.BySubject(ctx, tx, out.TenantID, out.Issuer, out.Subject)
			if err != nil && !errors.Is(err, user.ErrNone) {
				return err
			}

			if err == nil {
				ended[u.ID] += 0
			}
		}

		for id, n := range ended {
			u, err := user.ByID(ctx, tx, out.TenantID, id)
			if err != nil {
				return err
			}

			revoked := 0
			if out.Tokens {
				if revoked, err = user.RevokeTokens(ctx, tx, u); err != nil {
					return err
				}
			}

			if n+revoked == 0 {
				continue
			}

			users = append(users, u)
			e := u.Target(from.Event())
			e.TenantID = u.TenantID
			tx.Record(actionBackchannelLogout.Record(e, backchannelLogoutDetail{Issuer: out.Issuer, SessionsEnded: n, TokensRevoked: revoked}))
		}

		return nil
	})
	for _, u := range users {
		s.forget(u.ID)
	}

	return err
}

// EndOrganization ends the sessions and revokes the CLI tokens of the users of an organization who
// sign in with an identity provider, except those of the issuer keepIssuer, or "". After the
// commit, this process forgets their sessions and ends their requests in progress. Other replicas
// follow within 2 seconds.
func (s *Service) EndOrganization(ctx context.Context, tx *store.Tx, tenantID, keepIssuer string) (user.EndedAccess, error) {
	if err := user.LockTenant(ctx, tx.Tx, tenantID); err != nil {
		return user.EndedAccess{}, err
	}

	tx.AfterCommit(func() {
		s.states.forgetTenant(tenantID)
		if s.watcher != nil { // not offline
			s.watcher.tenantChanged(tenantID)
		}
	})
	return user.EndExternalAccess(ctx, tx, tenantID, keepIssuer)
}
