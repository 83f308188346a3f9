package wire

import "github.com/seed93082962/agenthost/rbac"

// ProgramCode is the code of a program.
type ProgramCode struct {
	Code string `json:"authorization_code"`
	// Seconds.
	ExpiresIn int64 `json:"expires_in"`
}

// LoginUser is part of a [Login].
type LoginUser struct {
	ID          string    `json:"id"`
	Username    string    `json:"username"`
	DisplayName string    `json:"display_name"`
	Role        rbac.Role `json:"role"`
	// The organization, or default in built-in mode.
	TenantID string `json:"tenant_id"`
	// The same as tenant_id.
	OrgID string `json:"org_id"`
}

// Mode is how users sign in.
type Mode struct {
	Mode          string `json:"mode"`
	SetupRequired bool   `json:"setup_required"`
	// The organization of a login without org, in external mode.
	DefaultOrg string `json:"default_org,omitempty"`
	// The program that contains the hub has users of its own, who sign in there.
	Program bool `json:"program,omitzero"`
}

// UserInfo is the caller.
type UserInfo struct {
	ID          string `json:"id"`
	Username    string `json:"username"`
	DisplayName string `json:"display_name"`
	// Absent if unknown. Users of the built-in mode have none.
	Email string `json:"email,omitempty"`
	// The groups of the user at the identity provider, as of the last login. Absent if there are
	// none.
	Groups []string  `json:"groups,omitempty"`
	Role   rbac.Role `json:"role"`
	// The organization, or default in built-in mode.
	TenantID string `json:"tenant_id"`
	// The same as tenant_id.
	OrgID    string `json:"org_id"`
	AuthMode string `json:"auth_mode"`
	// The kind of credential of the caller. own is that of the program which embeds the hub.
	TokenType string `json:"token_type"`
}

// Session is a sign-in of a user.
type Session struct {
	ID        string `json:"id"`
	CreatedAt Time   `json:"createdAt"`
	// Updated at most once a minute.
	LastUsedAt Time `json:"lastUsedAt"`
	// The address of the last use.
	RemoteIP  string `json:"remoteIp"`
	UserAgent string `json:"userAgent"`
	// Whether it is the session of this request.
	Current bool `json:"current"`
}

// Access is an access token and its user.
type Access struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	// Seconds. Less than 900 if the session ends earlier.
	ExpiresIn int64     `json:"expires_in"`
	User      LoginUser `json:"user"`
	// An admin set or reset the password. Until it is changed, the session may call only change-
	// password, logout, refresh and userinfo.
	MustChangePassword bool `json:"must_change_password,omitempty"`
}

// Login is the response to a sign-in or a refresh.
type Login struct {
	Access
	// Opaque.
	RefreshToken string `json:"refresh_token"`
	// Seconds.
	RefreshExpiresIn int64 `json:"refresh_expires_in"`
	// Proves at the next login that the user has signed in on this device.
	DeviceToken string `json:"device_token"`
}
