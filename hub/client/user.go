package client

import (
	"context"
	"iter"
	"net/http"
	"time"

	"github.com/seed93082962/agenthost/hub/wire"
)

const (
	usersPath   = "/api/v1/admin/users"
	invitesPath = "/api/v1/admin/invites"
	tokensPath  = "/api/v1/cli/tokens"
)

// Users reads and changes accounts. It requires an admin.
type Users struct{ c *Client }

// List yields the users.
func (u Users) List(ctx context.Context) iter.Seq2[User, error] {
	return list[User](ctx, u.c, usersPath, nil)
}

// Get returns the user with an id.
func (u Users) Get(ctx context.Context, id string) (User, error) {
	return get[User](ctx, u.c, usersPath+"/"+segment(id), nil)
}

// Create creates a user.
func (u Users) Create(ctx context.Context, req CreateUserRequest) (User, error) {
	return send[User](ctx, u.c, http.MethodPost, usersPath, req)
}

// Update changes the role, the status or the name of a user.
func (u Users) Update(ctx context.Context, id string, req ChangeUserRequest) (User, error) {
	return send[User](ctx, u.c, http.MethodPatch, usersPath+"/"+segment(id), req)
}

// Delete deletes a user.
func (u Users) Delete(ctx context.Context, id string) error {
	return done(ctx, u.c, http.MethodDelete, usersPath+"/"+segment(id), nil)
}

// ResetPassword returns a new password, which the user must change at the next sign-in.
func (u Users) ResetPassword(ctx context.Context, id string) (string, error) {
	body, err := send[struct {
		Password string `json:"password"`
	}](ctx, u.c, http.MethodPost, usersPath+"/"+segment(id)+"/reset-password", nil)
	return body.Password, err
}

// Sessions yields the sign-ins of a user.
func (u Users) Sessions(ctx context.Context, id string) iter.Seq2[wire.Session, error] {
	return list[wire.Session](ctx, u.c, usersPath+"/"+segment(id)+"/sessions", nil)
}

// EndSessions ends all sign-ins of a user.
func (u Users) EndSessions(ctx context.Context, id string) error {
	return done(ctx, u.c, http.MethodDelete, usersPath+"/"+segment(id)+"/sessions", nil)
}

// Tokens yields the CLI tokens of a user.
func (u Users) Tokens(ctx context.Context, id string) iter.Seq2[Token, error] {
	return list[Token](ctx, u.c, usersPath+"/"+segment(id)+"/tokens", nil)
}

// RevokeToken revokes a CLI token of a user.
func (u Users) RevokeToken(ctx context.Context, id, tokenID string) error {
	return done(ctx, u.c, http.MethodDelete, usersPath+"/"+segment(id)+"/tokens/"+segment(tokenID), nil)
}

// Invites reads and changes invitations. It requires an admin.
type Invites struct{ c *Client }

// List yields the invitations.
func (i Invites) List(ctx context.Context) iter.Seq2[Invite, error] {
	return list[Invite](ctx, i.c, invitesPath, nil)
}

// Create creates an invitation. Only its response has the token and the link.
func (i Invites) Create(ctx context.Context, req wire.CreateInviteRequest) (Invite, error) {
	return send[Invite](ctx, i.c, http.MethodPost, invitesPath, req)
}

// Revoke revokes an invitation.
func (i Invites) Revoke(ctx context.Context, id string) error {
	return done(ctx, i.c, http.MethodDelete, invitesPath+"/"+segment(id), nil)
}

// Tokens reads and changes the CLI tokens of the caller.
type Tokens struct{ c *Client }

// List yields the tokens without their secrets.
func (t Tokens) List(ctx context.Context) iter.Seq2[Token, error] {
	return list[Token](ctx, t.c, tokensPath, nil)
}

// Issue issues a token. Only its response has the secret.
func (t Tokens) Issue(ctx context.Context, req IssueTokenRequest) (NewToken, error) {
	return send[NewToken](ctx, t.c, http.MethodPost, "/api/v1/cli/issue-token", req)
}

// Revoke revokes a token.
func (t Tokens) Revoke(ctx context.Context, id string) error {
	return done(ctx, t.c, http.MethodDelete, tokensPath+"/"+segment(id), nil)
}

// User is an account.
type User struct {
	ID          string `json:"id"`
	Username    string `json:"username"`
	DisplayName string `json:"displayName"`
	Role        Role   `json:"role"`
	Status      string `json:"status"`
	AuthSource  string `json:"authSource"`
	// The identity provider of an external user, whom issuer and subject identify.
	Issuer  string `json:"issuer,omitempty"`
	Subject string `json:"subject,omitempty"`
	// From the identity provider. Absent if there is none.
	Email string `json:"email,omitempty"`
	// The groups of the user at the identity provider, as of the last login. Absent if there are
	// none.
	Groups []string `json:"groups,omitzero"`
	// Null if the user never signed in.
	LastLoginAt *time.Time `json:"lastLoginAt"`
	CreatedAt   time.Time  `json:"createdAt"`
}

// CreateUserRequest creates a user. The password must be changed at the first sign-in.
type CreateUserRequest struct {
	Username    string `json:"username"`
	Password    string `json:"password"`
	Role        Role   `json:"role"`
	DisplayName string `json:"displayName,omitempty"`
}

// ChangeUserRequest changes the fields that are set.
type ChangeUserRequest struct {
	Role   Role   `json:"role,omitempty"`
	Status string `json:"status,omitempty"`
	// Not empty.
	DisplayName string `json:"displayName,omitempty"`
}

// Invite is an invitation. Token and URL are only in the response that creates it.
type Invite struct {
	ID   string `json:"id"`
	Role Role   `json:"role"`
	// Absent if there is none.
	Note      string    `json:"note,omitempty"`
	ExpiresAt time.Time `json:"expiresAt"`
	// The username of the admin.
	CreatedBy string    `json:"createdBy"`
	CreatedAt time.Time `json:"createdAt"`
	Status    string    `json:"status"`
	// Absent unless used.
	UsedAt time.Time `json:"usedAt,omitzero"`
	// The username of the new user. Absent unless used.
	UsedBy string `json:"usedBy,omitempty"`
	Token  string `json:"token,omitempty"`
	// The registration page.
	URL string `json:"url,omitempty"`
}

// Token is a CLI token, without its secret.
type Token struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// The first characters, with which its owner recognizes it.
	Prefix    string    `json:"prefix"`
	CreatedAt time.Time `json:"createdAt"`
	// Null if the token does not expire.
	ExpiresAt *time.Time `json:"expiresAt"`
	// Updated at most once a minute. Null if it was never used.
	LastUsedAt *time.Time `json:"lastUsedAt"`
	LastUsedIP string     `json:"lastUsedIp,omitempty"`
}

// IssueTokenRequest issues a CLI token.
type IssueTokenRequest struct {
	// 1 to 100 characters in one line, without the invisible characters of DisplayName.
	// Surrounding white space is removed. Names need not be unique.
	Name string `json:"name"`
	// Without it, the token is valid until it is revoked.
	ExpiresInDays *int64 `json:"expiresInDays,omitempty"`
}

// NewToken is a CLI token with its secret, which is returned only once.
type NewToken struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Token string `json:"token"`
	// The first characters, with which its owner recognizes it.
	Prefix    string     `json:"prefix"`
	CreatedAt time.Time  `json:"createdAt"`
	ExpiresAt *time.Time `json:"expiresAt"`
}
