package user

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/password"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

// External is a user whom an identity provider has authenticated. The tenant, the issuer and the
// subject identify the user; the other fields describe a new one.
type External struct {
	TenantID    string // the organization
	Issuer      string
	Subject     string
	SessionID   string // at the identity provider; "" if it is unknown
	Username    string
	DisplayName string // Defaults to the username.
	Email       string
	Groups      []string // of this login: they replace those of the former one

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

// Enter records the login of a user in the transaction that starts the session, and reports whether
// it is the first one, which creates the user. A disabled user does not change.
func (s *Service) Enter(ctx context.Context, tx *store.Tx, from api.Caller, e External) (User, bool, error) {
	u, err := recordExternal(ctx, tx, e)
	var created bool
	if errors.Is(err, ErrNone) {
		u, created, err = createExternal(ctx, tx, e)
	}

	if err != nil || !u.Active() || e.Role == "" || e.Role == u.Role {
		return u, created, err
	}

	// The last admin may lose the role too: the provider decides who is one.
	before := u
	u.Role, u.UpdatedAt = e.Role, wire.Time{Time: tx.Now}
	if err := update(ctx, tx, u); err != nil {
		return u, created, err
	}

	recordChange(tx, u.Event(from), before, u, 0)
	caller := from
	caller.TenantID, caller.UserID, caller.UserName = u.TenantID, u.ID, u.Username
	return u, created, s.cfg.Withdraw(ctx, tx, caller, u.TenantID, u.ID, u.Role)
}

// createExternal creates the user of a first login. Concurrent first logins of a user wait for the
// tenant and find the user of the first one.
func createExternal(ctx context.Context, tx *store.Tx, e External) (User, bool, error) {
	if err := insertTenant(ctx, tx, e.TenantID, tx.Now); err != nil {
		return User{}, false, err
	}

	if err := LockTenant(ctx, tx.Tx, e.TenantID); err != nil {
		return User{}, false, err
	}

	u, err := BySubject(ctx, tx, e.TenantID, e.Issuer, e.Subject)
	if !errors.Is(err, ErrNone) {
		return u, false, err
	}

	now := wire.Time{Time: tx.Now}
	u = User{TenantID: e.TenantID, UpdatedAt: now, User: wire.User{
		ID: ids.New(), Username: externalUsername(e.Username), Role: rbac.Member, Status: Active, AuthSource: sourceExternal, Groups: e.Groups,
		Issuer: e.Issuer, Subject: e.Subject, LastLoginAt: now, CreatedAt: now,
	}}
	switch {
	case e.Role != "":
		u.Role = e.Role
	case e.Admin:
		first, err := useBootstrap(ctx, tx, e.TenantID, cmp.Or(e.AdminKey, password.Fold(e.Username)))
		if err != nil {
			return u, false, err
		}

		if first {
			u.Role = rbac.Admin
		}
	}

	_, err = ByName(ctx, tx, e.TenantID, u.Username)
	switch {
	case err == nil, u.Username != e.Username: // of another subject, or of a user with another name at the provider
		u.Username = distinctUsername(u.Username)
	case !errors.Is(err, ErrNone):
		return u, false, err
	}

	u.DisplayName, u.Email = externalDisplayName(e, u.Username), externalEmail(e.Email)
	return u, true, insert(ctx, tx, u)
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

func externalDisplayName(u External, username string) string {
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
