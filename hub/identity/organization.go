package identity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

// EndedAccess is what the users of an organization lost.
type EndedAccess struct {
	Sessions int // live ones
	Tokens   int // valid CLI tokens
}

// EndOrganization ends the sessions and revokes the CLI tokens of the users of an organization who
// sign in with an identity provider, except those of the issuer keepIssuer, or "". After the commit,
// this process forgets their sessions and ends their requests in progress. Other replicas follow
// within 2 seconds.
func (s *Service) EndOrganization(ctx context.Context, tx *store.Tx, tenantID, keepIssuer string) (EndedAccess, error) {
	if err := lockTenant(ctx, tx.Tx, tenantID); err != nil {
		return EndedAccess{}, err
	}
	tx.AfterCommit(func() {
		s.states.forgetTenant(tenantID)
		if s.watcher != nil { // not offline
			s.watcher.tenantChanged(tenantID)
		}
	})
	return endExternalAccess(ctx, tx, tenantID, keepIssuer, tx.Now)
}

// HasUsers reports whether the tenant has users.
func (s *Service) HasUsers(ctx context.Context, tx *store.Tx, tenantID string) (bool, error) {
	return hasMembers(ctx, tx, tenantID)
}

// AdminName names an admin for a command of the operator.
type AdminName struct {
	TenantID string
	Issuer   string // that of the organization; "" in built-in mode
	Username string // in any letter case, or "" with Subject
	Subject  string // at the identity provider
}

// ParseAdminName reads organization/username, organization/sub:subject, or only the last part for
// [DefaultTenant].
func ParseAdminName(text string) (n AdminName) {
	n.TenantID = DefaultTenant
	if org, name, ok := strings.Cut(text, "/"); ok && !strings.HasPrefix(text, "sub:") {
		n.TenantID, text = org, name
	}
	if subject, ok := strings.CutPrefix(text, "sub:"); ok {
		n.Subject = subject
		return n
	}
	n.Username = text
	return n
}

// ErrNotAdmin is returned by AdminToken for a user who is not an active admin.
var ErrNotAdmin = errors.New("the user is not an active admin")

// adminTokenLife is the life of a token of AdminToken.
const adminTokenLife = time.Hour

// AdminToken returns a CLI token of an active admin that is valid for an hour. It is recorded, and
// is for the operator of the hub while the identity provider is unavailable.
func (s *Service) AdminToken(ctx context.Context, name AdminName) (string, error) {
	raw, hash := newToken(cliPrefix)
	err := s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		m, err := s.lockNamed(ctx, tx, name)
		if err != nil {
			return err
		}
		if !administers(m) {
			return ErrNotAdmin
		}
		now := s.store.Now()
		t := cliToken{
			ID: ids.New(), TenantID: m.TenantID, UserID: m.ID, Name: "hub admin-token", Prefix: raw[:shownOfToken], CreatedAt: now, ExpiresAt: now.Add(adminTokenLife),
		}
		if err := insertToken(ctx, tx, t, hash); err != nil {
			return err
		}
		tx.Record(actionIssueToken.Record(t.event(operator(m)), tokenDetail{Prefix: t.Prefix, ExpiresAt: t.expiry(), Offline: true}))
		return nil
	})
	if err != nil {
		return "", name.fault("issue token of", err)
	}
	return raw, nil
}

// RestoreAdmin makes a user an active admin, for the operator of the hub: after a change of the
// issuer, the new users of an organization are members. It takes effect in running hubs within 2
// seconds.
func (s *Service) RestoreAdmin(ctx context.Context, name AdminName) error {
	err := s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		before, err := s.lockNamed(ctx, tx, name)
		if err != nil || administers(before) {
			return err
		}
		after := before
		after.Role, after.Status, after.UpdatedAt = rbac.Admin, statusActive, s.store.Now()
		if err := updateMember(ctx, tx, after); err != nil {
			return err
		}
		var records []auditlog.Record
		e := before.event(operator(before))
		if before.Role != after.Role {
			records = append(records, actionUpdateRole.Record(e, updateRoleDetail{auditlog.Change[string]{From: string(before.Role), To: string(after.Role)}}))
		}
		if before.Status != after.Status {
			records = append(records, actionUpdateStatus.Record(e, updateStatusDetail{Status: auditlog.Change[string]{From: before.Status, To: after.Status}}))
		}
		tx.Record(records...)
		return nil
	})
	if err != nil {
		return name.fault("restore admin", err)
	}
	return nil
}

// lockNamed returns the user who signs in in the mode of the hub, and excludes all other changes of
// users of the tenant.
func (s *Service) lockNamed(ctx context.Context, tx *store.Tx, name AdminName) (m member, err error) {
	if err := lockTenant(ctx, tx.Tx, name.TenantID); err != nil {
		return m, err
	}
	if name.Subject != "" {
		m, err = memberBySubject(ctx, tx, ExternalUser{TenantID: name.TenantID, Issuer: name.Issuer, Subject: name.Subject})
	} else {
		m, err = memberByName(ctx, tx, name.TenantID, name.Username)
	}
	if err == nil && (m.AuthSource != s.source() || s.cfg.External && m.Issuer != name.Issuer) {
		return m, errNoMember // of another mode, or of a former issuer
	}
	return m, err
}

func (n AdminName) fault(what string, err error) error {
	if errors.Is(err, errNoMember) {
		err = fmt.Errorf("%w who signs in at this hub: users have to sign in once before", ErrNoUser)
	}
	user := n.Username
	if n.Subject != "" {
		user = "sub:" + n.Subject
	}
	return fmt.Errorf("%s %q of %s: %w", what, user, n.TenantID, err)
}

// operator returns the event of a command on the hub's machine.
func operator(m member) auditlog.Event { return auditlog.Event{TenantID: m.TenantID} }

// source returns the AuthSource of the users who sign in in the mode of the hub.
func (s *Service) source() string {
	if s.cfg.External {
		return sourceExternal
	}
	return sourceBuiltin
}

// errOtherMode rejects users of the other mode of sign-in.
var errOtherMode = api.TokenRevoked.New("The hub signs users in in another way since the session began: sign in again.")
