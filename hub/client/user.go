package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

const (
	usersPath   = "/api/v1/admin/users"
	invitesPath = "/api/v1/admin/invites"
)

// Users reads and changes accounts and invitations. It requires an admin.
type Users struct{ c *Client }

// List yields the users.
func (u Users) List(ctx context.Context) iter.Seq2[wire.User, error] {
	return list[wire.User](ctx, u.c, usersPath, nil)
}

// Get returns the user with an id.
func (u Users) Get(ctx context.Context, id string) (wire.User, error) {
	return get[wire.User](ctx, u.c, usersPath+"/"+segment(id), nil)
}

// Create creates a user.
func (u Users) Create(ctx context.Context, req wire.CreateUserRequest) (wire.User, error) {
	return send[wire.User](ctx, u.c, http.MethodPost, usersPath, req)
}

// Update changes the role, the status or the name of a user.
func (u Users) Update(ctx context.Context, id string, req wire.ChangeUserRequest) (wire.User, error) {
	return send[wire.User](ctx, u.c, http.MethodPatch, usersPath+"/"+segment(id), req)
}

// Delete deletes a user.
func (u Users) Delete(ctx context.Context, id string) error {
	return done(ctx, u.c, http.MethodDelete, usersPath+"/"+segment(id), nil)
}

// ResetPassword returns a new password, which the user must change at the next sign-in.
func (u Users) ResetPassword(ctx context.Context, id string) (string, error) {
	body, err := send[bodies.OneTimePassword](ctx, u.c, http.MethodPost, usersPath+"/"+segment(id)+"/reset-password", nil)
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
func (u Users) Tokens(ctx context.Context, id string) iter.Seq2[wire.Token, error] {
	return list[wire.Token](ctx, u.c, usersPath+"/"+segment(id)+"/tokens", nil)
}

// RevokeToken revokes a CLI token of a user.
func (u Users) RevokeToken(ctx context.Context, id, tokenID string) error {
	return done(ctx, u.c, http.MethodDelete, usersPath+"/"+segment(id)+"/tokens/"+segment(tokenID), nil)
}

// Invites yields the invitations.
func (u Users) Invites(ctx context.Context) iter.Seq2[wire.Invite, error] {
	return list[wire.Invite](ctx, u.c, invitesPath, nil)
}

// Invite creates an invitation. The note is for admins. Only its response has the token and the
// link.
func (u Users) Invite(ctx context.Context, role rbac.Role, note string) (wire.NewInvite, error) {
	return send[wire.NewInvite](ctx, u.c, http.MethodPost, invitesPath, bodies.CreateInviteRequest{Role: role, Note: note})
}

// RevokeInvite revokes an invitation.
func (u Users) RevokeInvite(ctx context.Context, id string) error {
	return done(ctx, u.c, http.MethodDelete, invitesPath+"/"+segment(id), nil)
}
