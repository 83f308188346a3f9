package client

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// Role is the role of a user.
type Role string

// Roles. A maintainer changes agents, an admin also users.
const (
	Admin      Role = "admin"
	Maintainer Role = "maintainer"
	Member     Role = "member"
)

// Auth signs the caller in and out.
type Auth struct{ c *Client }

// Mode returns how users sign in.
func (a Auth) Mode(ctx context.Context) (Mode, error) {
	return get[Mode](ctx, a.c, "/auth/mode", nil)
}

// signIn sends a request whose response has new credentials, which the client uses from now on.
func (a Auth) signIn(ctx context.Context, path string, body any) (Login, error) {
	r, err := jsonRequest(http.MethodPost, path, body)
	if err != nil {
		return Login{}, err
	}
	r.open = true
	login, err := decode[Login](ctx, a.c, r)
	if err == nil {
		a.c.SetCredentials(login.Credentials())
	}
	return login, err
}

// Setup creates the first admin, and signs the client in.
func (a Auth) Setup(ctx context.Context, req SetupRequest) (Login, error) {
	return a.signIn(ctx, "/auth/setup", req)
}

// Login signs the client in with a password.
func (a Auth) Login(ctx context.Context, username, password string) (Login, error) {
	body := map[string]string{"username": username, "password": password}
	if device := a.c.Credentials().DeviceToken; device != "" {
		body["device_token"] = device
	}
	return a.signIn(ctx, "/auth/login", body)
}

// Register creates the account of an invited user, and signs the client in.
func (a Auth) Register(ctx context.Context, req RegisterRequest) (Login, error) {
	return a.signIn(ctx, "/auth/register", req)
}

// Refresh renews the credentials of the client before they expire.
func (a Auth) Refresh(ctx context.Context) error {
	_, err := a.c.renew(ctx, a.c.Credentials())
	return err
}

// Authorize begins a session of the caller for a program on the same computer, as the console does
// for agenthost login. The challenge is the SHA-256 hash of a verifier in base64url.
func (a Auth) Authorize(ctx context.Context, challenge string) (ProgramCode, error) {
	return send[ProgramCode](ctx, a.c, http.MethodPost, "/auth/sessions", map[string]string{"code_challenge": challenge})
}

// Redeem signs the client in with the code of [Auth.Authorize] and the verifier.
func (a Auth) Redeem(ctx context.Context, code, verifier string) (Login, error) {
	return a.signIn(ctx, "/auth/refresh", map[string]string{"refresh_token": code, "code_verifier": verifier})
}

// Logout ends the session of the client. A CLI token is revoked.
func (a Auth) Logout(ctx context.Context) error {
	body := map[string]string{}
	if token := a.c.Credentials().RefreshToken; token != "" {
		body["refresh_token"] = token
	}
	err := done(ctx, a.c, http.MethodPost, "/auth/logout", body)
	if err == nil {
		a.c.SetCredentials(Credentials{DeviceToken: a.c.Credentials().DeviceToken})
	}
	return err
}

// ChangePassword changes the password of the caller.
func (a Auth) ChangePassword(ctx context.Context, old, new string) error {
	return done(ctx, a.c, http.MethodPost, "/auth/change-password", map[string]string{"old_password": old, "new_password": new})
}

// CheckInvite returns the role that an invitation gives, or [InviteInvalid].
func (a Auth) CheckInvite(ctx context.Context, token string) (InviteCheck, error) {
	return get[InviteCheck](ctx, a.c, "/auth/invite/"+segment(token), nil)
}

// CheckOrganization returns [NotFound] for an organization without an identity provider. An empty
// name is the default organization.
func (a Auth) CheckOrganization(ctx context.Context, name string) error {
	_, err := get[struct{}](ctx, a.c, "/auth/org-check", map[string][]string{"org": {name}})
	return err
}

// UserInfo returns the caller.
func (a Auth) UserInfo(ctx context.Context) (UserInfo, error) {
	return get[UserInfo](ctx, a.c, "/auth/userinfo", nil)
}

// Sessions yields the sign-ins of the caller.
func (a Auth) Sessions(ctx context.Context) iter.Seq2[LoginSession, error] {
	return list[LoginSession](ctx, a.c, "/auth/sessions", nil)
}

// EndSession ends a sign-in of the caller.
func (a Auth) EndSession(ctx context.Context, id string) error {
	return done(ctx, a.c, http.MethodDelete, "/auth/sessions/"+segment(id), nil)
}

// ProgramCode is the code of a program.
type ProgramCode struct {
	Code string `json:"authorization_code"`
	// Seconds.
	ExpiresIn int64 `json:"expires_in"`
}

// Login is the response to a sign-in or a refresh.
type Login struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	// Seconds. Less than 900 if the session ends earlier.
	ExpiresIn int64 `json:"expires_in"`
	// Opaque.
	RefreshToken string `json:"refresh_token"`
	// Seconds.
	RefreshExpiresIn int64 `json:"refresh_expires_in"`
	// Proves at the next login that the user has signed in on this device.
	DeviceToken string    `json:"device_token"`
	User        LoginUser `json:"user"`
	// An admin set or reset the password. Until it is changed, the session may call only change-
	// password, logout, refresh and userinfo.
	MustChangePassword bool `json:"must_change_password,omitempty"`
}

// LoginUser is part of a [Login].
type LoginUser struct {
	ID          string `json:"id"`
	Username    string `json:"username"`
	DisplayName string `json:"display_name"`
	Role        Role   `json:"role"`
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
	Groups []string `json:"groups,omitzero"`
	Role   Role     `json:"role"`
	// The organization, or default in built-in mode.
	TenantID string `json:"tenant_id"`
	// The same as tenant_id.
	OrgID    string `json:"org_id"`
	AuthMode string `json:"auth_mode"`
	// The kind of credential of the caller. own is that of the program which embeds the hub.
	TokenType string `json:"token_type"`
}

// LoginSession is a sign-in of a user.
type LoginSession struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"createdAt"`
	// Updated at most once a minute.
	LastUsedAt time.Time `json:"lastUsedAt"`
	// The address of the last use.
	RemoteIP  string `json:"remoteIp"`
	UserAgent string `json:"userAgent"`
	// Whether it is the session of this request.
	Current bool `json:"current"`
}

// InviteCheck is what the holder of an invitation may know of it.
type InviteCheck struct {
	Valid     bool      `json:"valid"`
	Role      Role      `json:"role"`
	ExpiresAt time.Time `json:"expires_at"`
}

// RegisterRequest creates the account of an invited user.
type RegisterRequest struct {
	// The token of the invitation.
	Token       string `json:"token"`
	Username    string `json:"username"`
	Password    string `json:"password"`
	DisplayName string `json:"display_name,omitempty"`
}

// SetupRequest creates the first admin.
type SetupRequest struct {
	// An empty value counts as missing.
	Username    string `json:"username,omitempty"`
	Password    string `json:"password"`
	DisplayName string `json:"display_name,omitempty"`
	// The token that the hub printed at startup.
	SetupToken string `json:"setup_token,omitempty"`
}
