package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/wire"
)

// Auth signs the caller in and out, and reads and changes its sign-ins and CLI tokens.
type Auth struct{ c *Client }

const tokensPath = "/api/v1/cli/tokens"

// Mode returns how users sign in.
func (a Auth) Mode(ctx context.Context) (wire.Mode, error) {
	return get[wire.Mode](ctx, a.c, "/auth/mode", nil)
}

// signIn sends a request whose response has new credentials, which the client uses from now on.
func (a Auth) signIn(ctx context.Context, path string, body any) (wire.Login, error) {
	r, err := jsonRequest(http.MethodPost, path, body)
	if err != nil {
		return wire.Login{}, err
	}

	r.open = true
	login, err := decode[wire.Login](ctx, a.c, r)
	if err == nil {
		a.c.SetCredentials(credentialsOf(login))
	}

	return login, err
}

// Setup creates the first admin, and signs the client in.
func (a Auth) Setup(ctx context.Context, req wire.SetupRequest) (wire.Login, error) {
	return a.signIn(ctx, "/auth/setup", req)
}

// Login signs the client in with a password.
func (a Auth) Login(ctx context.Context, username, password string) (wire.Login, error) {
	device := a.c.Credentials().DeviceToken
	return a.signIn(ctx, "/auth/login", bodies.LoginRequest{Username: username, Password: password, DeviceToken: device})
}

// Register creates the account of an invited user, and signs the client in.
func (a Auth) Register(ctx context.Context, req wire.RegisterRequest) (wire.Login, error) {
	return a.signIn(ctx, "/auth/register", req)
}

// Refresh renews the credentials of the client before they expire.
func (a Auth) Refresh(ctx context.Context) error {
	_, err := a.c.renew(ctx, a.c.Credentials())
	return err
}

// Authorize begins a session of the caller for a program on the same computer, as the console does
// for agenthost login. The challenge is the SHA-256 hash of a verifier in base64url.
func (a Auth) Authorize(ctx context.Context, challenge string) (wire.ProgramCode, error) {
	return send[wire.ProgramCode](ctx, a.c, http.MethodPost, "/auth/sessions", bodies.AuthorizeProgramRequest{Challenge: challenge})
}

// Redeem signs the client in with the code of [Auth.Authorize] and the verifier.
func (a Auth) Redeem(ctx context.Context, code, verifier string) (wire.Login, error) {
	return a.signIn(ctx, "/auth/refresh", bodies.RefreshRequest{RefreshToken: code, Verifier: verifier})
}

// Logout ends the session of the client. A CLI token is revoked.
func (a Auth) Logout(ctx context.Context) error {
	err := done(ctx, a.c, http.MethodPost, "/auth/logout", bodies.LogoutRequest{RefreshToken: a.c.Credentials().RefreshToken})
	if err == nil {
		a.c.SetCredentials(Credentials{DeviceToken: a.c.Credentials().DeviceToken})
	}

	return err
}

// ChangePassword changes the password of the caller.
func (a Auth) ChangePassword(ctx context.Context, old, new string) error {
	return done(ctx, a.c, http.MethodPost, "/auth/change-password", bodies.ChangePasswordRequest{OldPassword: old, NewPassword: new})
}

// CheckInvite returns the role that an invitation gives, or an error with the code
// invite_invalid.
func (a Auth) CheckInvite(ctx context.Context, token string) (wire.InviteCheck, error) {
	return get[wire.InviteCheck](ctx, a.c, "/auth/invite/"+segment(token), nil)
}

// CheckOrganization returns [wire.NotFound] for an organization without an identity provider. An
// empty name is the default organization.
func (a Auth) CheckOrganization(ctx context.Context, name string) error {
	_, err := get[struct{}](ctx, a.c, "/auth/org-check", map[string][]string{"org": {name}})
	return err
}

// UserInfo returns the caller.
func (a Auth) UserInfo(ctx context.Context) (wire.UserInfo, error) {
	return get[wire.UserInfo](ctx, a.c, "/auth/userinfo", nil)
}

// Sessions yields the sign-ins of the caller.
func (a Auth) Sessions(ctx context.Context) iter.Seq2[wire.Session, error] {
	return list[wire.Session](ctx, a.c, "/auth/sessions", nil)
}

// EndSession ends a sign-in of the caller.
func (a Auth) EndSession(ctx context.Context, id string) error {
	return done(ctx, a.c, http.MethodDelete, "/auth/sessions/"+segment(id), nil)
}

// Tokens yields the CLI tokens of the caller without their secrets.
func (a Auth) Tokens(ctx context.Context) iter.Seq2[wire.Token, error] {
	return list[wire.Token](ctx, a.c, tokensPath, nil)
}

// IssueToken issues a CLI token. Only its response has the secret.
func (a Auth) IssueToken(ctx context.Context, req wire.IssueTokenRequest) (wire.NewToken, error) {
	return send[wire.NewToken](ctx, a.c, http.MethodPost, "/api/v1/cli/issue-token", req)
}

// RevokeToken revokes a CLI token of the caller.
func (a Auth) RevokeToken(ctx context.Context, id string) error {
	return done(ctx, a.c, http.MethodDelete, tokensPath+"/"+segment(id), nil)
}
