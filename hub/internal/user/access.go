package user

import (
	"context"
	"errors"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/rbac"
)

// Why a session ended.
const (
	EndedByLogout       = "logout"
	EndedByReuse        = "refresh_reuse"
	EndedByPassword     = "password"
	EndedByRevoke       = "revoked"
	EndedByDisable      = "disabled"
	EndedByProvider     = "provider_logout"
	EndedByLimit        = "limit" // the user signed in too often
	endedByOrganization = "organization"
)

// MaxAccesses bounds the ids of [ReadAccess].
const MaxAccesses = 64

// Access is what a session or a CLI token permits now. The zero value is one that does not exist.
type Access struct {
	id       string
	userID   string
	role     rbac.Role
	disabled bool
	revoked  bool
	why      string // a session ended
	expired  bool
}

// Check returns why the caller may not call a route of the group, or nil. The zero group has every
// role.
func (a Access) Check(caller api.Caller, group rbac.Group) error {
	switch {
	case a.userID == "" || a.userID != caller.UserID:
		return wire.TokenRevoked
	case a.disabled && (!a.revoked || a.why == EndedByDisable) && !a.expired:
		return api.Denied(caller, code.AccountDisabled)
	case a.disabled:
		return code.AccountDisabled
	case a.revoked:
		return wire.TokenRevoked
	case a.expired:
		return wire.TokenExpired
	case group.IsZero():
		return nil
	}

	return group.Check(api.Caller{RoleNow: a.role})
}

// CredentialOf returns the id of the session or CLI token of a caller.
func CredentialOf(c api.Caller) string { return c.SessionID + c.TokenID }

var errOwn = wire.Forbidden.New("Users, invitations and tokens are changed by users who sign in to the hub itself.")

// Change is [store.Store.Change] for users, invites and CLI tokens: it excludes all other changes
// of them in the tenant. It commits only if the caller still has the permission. A cached role may
// be two seconds old, and a request may take longer: the current role decides.
//
// The zero group has every role. Only code.LastAdmin takes precedence: if two admins demote each
// other concurrently, the second receives that error.
func (s *Service) Change(ctx context.Context, caller api.Caller, group rbac.Group, do func(*store.Tx) error) error {
	if caller.Kind == api.Own {
		return errOwn
	}

	ctx = db.WithCheck(ctx, nil) // do may end the access of the caller, which is checked before
	return s.store.Change(ctx, store.Change{Caller: caller, Lock: LockTenant}, func(tx *store.Tx) error {
		// A new password, which ends sessions and tokens, takes effect before or after the whole change.
		if err := lockUser(ctx, tx, caller.TenantID, caller.UserID); err != nil {
			return err
		}

		id := CredentialOf(caller)
		all, err := ReadAccess(ctx, tx, tx.Now, id)
		if err != nil {
			return err
		}

		refused := all[id].Check(caller, group)
		err = do(tx)
		if refused != nil && !errors.Is(err, code.LastAdmin) {
			return refused
		}

		return err
	})
}
