package identity

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

// errNoPasswords rejects what would create a password in external mode.
var errNoPasswords = api.Conflict.New("Users of this hub sign in with their identity provider: create users and reset passwords there.")

// ExternalUser is a user whom an identity provider has authenticated. The tenant, the issuer and
// the subject identify the member; the other fields describe a new one.
type ExternalUser struct {
	TenantID    string // the organization
	Issuer      string
	Subject     string
	SessionID   string // at the identity provider; "" if it is unknown
	Username    string
	DisplayName string // Defaults to the username.
	Email       string

	// Admin makes the user an admin at the first login. AdminKey, which defaults to the username, has
	// this effect once.
	Admin    bool
	AdminKey string

	// Role is the role that the identity provider decides at each login. Defaults to the stored one,
	// which is that of a member at first.
	Role rbac.Role

	// Registered fails if the organization no longer signs in with this issuer. It is called in the
	// transaction that starts the session. Defaults to no check.
	Registered func(ctx context.Context, tx *store.Tx) error
}

// SignInExternal starts a session of the user. The first login creates the member. It fails with
// api.AccountDisabled for a disabled one.
func (s *Service) SignInExternal(ctx context.Context, from api.Caller, u ExternalUser) (signIn SignIn, err error) {
	if err := s.keys.ready(ctx); err != nil {
		return SignIn{}, err
	}
	var m member
	var created bool
	err = s.store.Change(ctx, store.Change{}, func(tx *store.Tx) (err error) {
		created = false
		if u.Registered != nil {
			if err := u.Registered(ctx, tx); err != nil {
				return err
			}
		}
		m, err = updateExternalLogin(ctx, tx, u, s.store.Now())
		if errors.Is(err, errNoMember) {
			m, created, err = s.createExternal(ctx, tx, u)
		}
		if err != nil {
			return err
		}
		if !m.active() {
			return api.AccountDisabled
		}
		if err := s.applyRole(ctx, tx, from, &m, u.Role); err != nil {
			return err
		}
		if signIn, err = s.newSession(ctx, tx, m, from, u.SessionID); err != nil {
			return err
		}
		tx.Record(actionExternalLogin.Record(selfEvent(from, m),
			externalLoginDetail{signIn.session, u.Issuer, created, string(m.Role)}))
		return nil
	})
	if errors.Is(err, api.AccountDisabled) {
		return SignIn{}, s.rejectDisabled(ctx, from, m)
	}
	if signIn.evicted > 0 || u.Role != "" {
		s.invalidateUser(m.ID)
	}
	return signIn, err
}

// applyRole stores the role that the identity provider decided, or none. The last admin may lose the
// role too: the provider decides who is one.
func (s *Service) applyRole(ctx context.Context, tx *store.Tx, from api.Caller, m *member, role rbac.Role) error {
	if role == "" || role == m.Role {
		return nil
	}
	before := m.Role
	m.Role, m.UpdatedAt = role, tx.Now
	if err := updateMember(ctx, tx, *m); err != nil {
		return err
	}
	caller := from
	caller.TenantID, caller.UserID, caller.UserName = m.TenantID, m.ID, m.Username
	tx.Record(actionUpdateRole.Record(selfEvent(from, *m), updateRoleDetail{auditlog.Change[string]{From: string(before), To: string(role)}}))
	return s.cfg.Withdraw(ctx, tx, caller, m.TenantID, m.ID, role)
}

// createExternal creates the member of a first login. Concurrent first logins of a user wait for
// the tenant and find the member of the first one.
func (s *Service) createExternal(ctx context.Context, tx *store.Tx, u ExternalUser) (m member, created bool, err error) {
	if err := insertTenant(ctx, tx, u.TenantID, s.store.Now()); err != nil {
		return m, false, err
	}
	if err := lockTenant(ctx, tx.Tx, u.TenantID); err != nil {
		return m, false, err
	}
	m, err = memberBySubject(ctx, tx, u)
	if !errors.Is(err, errNoMember) {
		return m, false, err
	}
	now := s.store.Now()
	m = member{
		ID: ids.New(), TenantID: u.TenantID, Username: externalUsername(u.Username), Role: rbac.Member, Status: statusActive,
		AuthSource: sourceExternal, Issuer: u.Issuer, Subject: u.Subject, LastLoginAt: now, CreatedAt: now, UpdatedAt: now,
	}
	switch {
	case u.Role != "":
		m.Role = u.Role
	case u.Admin:
		first, err := useBootstrap(ctx, tx, u.TenantID, cmp.Or(u.AdminKey, foldUsername(u.Username)), now)
		if err != nil {
			return m, false, err
		}
		if first {
			m.Role = rbac.Admin
		}
	}
	_, err = memberByName(ctx, tx, u.TenantID, m.Username)
	switch {
	case err == nil, m.Username != u.Username: // of another subject, or of a user with another name at the provider
		m.Username = distinctUsername(m.Username)
	case !errors.Is(err, errNoMember):
		return m, false, err
	}
	m.DisplayName, m.Email = externalDisplayName(u, m.Username), externalEmail(u.Email)
	return m, true, insertMember(ctx, tx, m)
}

// externalUsername returns the name with '-' for the characters that a username cannot have.
func externalUsername(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < 0x80 && usernameForm.MatchString("a"+string(r)) {
			return r
		}
		return '-'
	}, name)
	name = strings.TrimLeft(excerpt.Characters(name, maxUsername), "._@-")
	if name == "" {
		return "user"
	}
	return name
}

// distinctUsername returns a name that no other subject has, and that no other user can take in
// advance.
func distinctUsername(name string) string {
	var b [6]byte
	rand.Read(b[:])
	suffix := "-" + hex.EncodeToString(b[:])
	return excerpt.Characters(name, maxUsername-len(suffix)) + suffix
}

func externalDisplayName(u ExternalUser, username string) string {
	faults := api.Fields{}
	name := checkDisplayName(faults, "name", excerpt.Characters(u.DisplayName, maxDisplayName))
	if faults.Err() != nil {
		return username
	}
	return name
}

// externalEmail returns an address that can be displayed, or "".
func externalEmail(email string) string {
	const most = 254 // RFC 5321
	faults := api.Fields{}
	email = faults.Line("email", email, 0, most)
	if faults.Err() != nil {
		return ""
	}
	return email
}

// rejectDisabled records the login of a disabled user.
func (s *Service) rejectDisabled(ctx context.Context, from api.Caller, m member) error {
	e := selfEvent(from, m)
	e.Status = auditlog.Failure
	return s.rejectExternal(ctx, from, e, loginFailedDetail{Reason: string(api.AccountDisabled)}, api.AccountDisabled)
}

// RejectExternal records a login that failed before the user was known, in the log of
// [SystemTenant], and returns the given error. It returns 429 instead, and records nothing, if too
// many logins from the network have failed.
func (s *Service) RejectExternal(ctx context.Context, from api.Caller, org, reason string, fault error) error {
	e := from.Event()
	e.TenantID, e.Status = SystemTenant, auditlog.Failure
	e.TargetType, e.TargetID, e.TargetName = targetOrg, org, org
	return s.rejectExternal(ctx, from, e, loginFailedDetail{Reason: reason}, fault)
}

// externalAccount counts the external logins that are checked while a limit is reached. A username
// never contains a slash.
const externalAccount = "/external"

// CheckExternal fails with 429 if too many logins from the network have failed, see
// [Service.RejectExternal]. Failures of others do not lock out an address from which a user of the
// organization signed in within a day: one login every 5 s is checked there.
func (s *Service) CheckExternal(ctx context.Context, from api.Caller, org string) error {
	a := attemptOf(from, externalAccount)
	limits, err := s.limits(ctx, s.store.Read(), a)
	if err != nil || limits.wait == 0 {
		return err
	}
	now := s.store.Now()
	known, err := signedInFrom(ctx, s.store.Read(), org, a, now.Add(-exemptWindow), now.Add(lockoutWindow))
	if err != nil {
		return err
	}
	if known {
		err = s.store.Change(ctx, store.Change{}, func(tx *store.Tx) (err error) {
			known, err = s.slowly(ctx, tx, a)
			return err
		})
	}
	if err == nil && !known {
		err = limits.rejected()
	}
	return err
}

func (s *Service) rejectExternal(ctx context.Context, from api.Caller, e auditlog.Event, detail loginFailedDetail, fault error) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	err := s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		if err := s.countNetwork(ctx, tx, attemptOf(from, "")); err != nil {
			return err
		}
		tx.Record(actionLoginFailed.Record(e, detail))
		return nil
	})
	if err != nil {
		return err
	}
	return fault
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
	var users []member
	err := s.store.Change(ctx, store.Change{}, func(tx *store.Tx) (err error) {
		if out.Tokens { // no CLI token can be issued with a session that ends
			if err := lockTenant(ctx, tx.Tx, out.TenantID); err != nil {
				return err
			}
		}
		ended, err := endProviderSessions(ctx, tx, out, s.store.Now())
		if err != nil {
			return err
		}
		users = nil
		if out.Tokens && out.Subject != "" { // also of a user without a session
			m, err := memberBySubject(ctx, tx, ExternalUser{TenantID: out.TenantID, Issuer: out.Issuer, Subject: out.Subject})
			if err == nil {
				ended[m.ID] += 0
			} else if !errors.Is(err, errNoMember) {
				return err
			}
		}
		for id, n := range ended {
			m, err := memberByID(ctx, tx, out.TenantID, id)
			if err != nil {
				return err
			}
			revoked := 0
			if out.Tokens {
				if revoked, err = s.revokeTokens(ctx, tx, m); err != nil {
					return err
				}
			}
			if n+revoked == 0 {
				continue
			}
			users = append(users, m)
			e := from.Event()
			e.TenantID = m.TenantID
			tx.Record(actionBackchannelLogout.Record(m.event(e), backchannelLogoutDetail{out.Issuer, n, revoked}))
		}
		return nil
	})
	for _, m := range users {
		s.invalidateUser(m.ID)
	}
	return err
}
