package identity

import (
	"errors"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

const (
	// DefaultTenant is the one tenant of built-in mode, and that of the global client of external
	// mode.
	DefaultTenant = "default"

	// SystemTenant has the audit entries that belong to no organization.
	SystemTenant = api.SystemTenant
)

const (
	statusActive   = "active"
	statusDisabled = "disabled"
	sourceBuiltin  = "builtin"
	sourceExternal = "external"
)

// errNoMember is returned by lookups without a result.
var errNoMember = errors.New("no such member")

// member is a row of the member table, which determines the roles. A zero time was never set.
type member struct {
	ID                string
	TenantID          string
	Username          string
	DisplayName       string
	Email             string
	Role              rbac.Role
	Status            string
	AuthSource        string
	Issuer            string // with Subject, of external mode
	Subject           string
	PasswordHash      string
	PasswordChangedAt time.Time
	MustChange        bool // the user must change the password, because an administrator set or reset it
	LastLoginAt       time.Time
	CreatedAt         time.Time
	UpdatedAt         time.Time
}

func (m member) active() bool { return m.Status == statusActive }

// resetWindow is how long a password that was reset permits to sign in.
const resetWindow = 24 * time.Hour

// resetExpired reports whether the password was reset too long ago, or in the future of a clock
// that was incorrect. The password that an administrator gave a new user does not expire.
func (m member) resetExpired(now time.Time) bool {
	age := now.Sub(m.PasswordChangedAt)
	return m.MustChange && m.PasswordChangedAt.After(m.CreatedAt) && (age > resetWindow || age < -lockoutWindow)
}

// caller returns the member as a caller without a credential.
func (m member) caller() api.Caller {
	return api.Caller{
		UserID: m.ID, UserName: m.Username, DisplayName: m.DisplayName, Email: m.Email,
		TenantID: m.TenantID, OrgID: m.TenantID, RoleNow: m.Role, MustChangePassword: m.MustChange,
	}
}
