package session

import (
	"net/http"
	"slices"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

func (s *Service) userinfo(r *http.Request) (wire.UserInfo, error) {
	c := api.CallerOf(r)
	return wire.UserInfo{
		ID: c.UserID, Username: c.UserName, DisplayName: c.DisplayName, Email: c.Email, Groups: c.Groups, Role: c.RoleNow,
		TenantID: c.TenantID, OrgID: c.OrgID, AuthMode: s.users.ModeName(), TokenType: string(c.Kind),
	}, nil
}

// Routes returns the routes of sessions, and those of logins by password in built-in mode.
func (s *Service) Routes() []api.Route {
	const auth = "auth"
	users := func(method string, handle api.Handler) api.Route {
		return api.Route{Method: method, Path: "/api/v1/admin/users/:id/sessions", Group: rbac.AdminOnly, Category: "user", Handle: handle}
	}
	all := []api.Route{
		{Method: http.MethodPost, Path: "/auth/refresh", Access: api.Open, Category: auth, Handle: api.Call(http.StatusOK, s.Refresh)},
		{Method: http.MethodPost, Path: "/auth/logout", Access: api.Open, Category: auth, Handle: s.logout},
		{Method: http.MethodGet, Path: "/auth/userinfo", Access: api.SignedIn, Category: auth, BeforePasswordChange: true, Handle: api.Result(http.StatusOK, s.userinfo)},
		{Method: http.MethodGet, Path: "/auth/sessions", Access: api.SignedIn, Category: auth, Handle: api.ListOf(s.Sessions)},
		{Method: http.MethodPost, Path: "/auth/sessions", Access: api.SignedIn, Category: auth, Rated: true, Handle: api.Call(http.StatusCreated, s.AuthorizeProgram)},
		{Method: http.MethodDelete, Path: "/auth/sessions/:id", Access: api.SignedIn, Category: auth, Handle: api.DoneBy("id", s.RevokeSession)},
		users(http.MethodGet, api.ListBy("id", s.UserSessions)),
		users(http.MethodDelete, api.DoneBy("id", s.EndUserSessions)),
	}
	if s.cfg.External {
		return append(all, api.Route{Method: http.MethodPost, Path: "/auth/login", Access: api.Open, Hidden: true, Handle: notFound})
	}

	return slices.Concat(all, []api.Route{
		{Method: http.MethodPost, Path: "/auth/setup", Access: api.Open, Category: auth, Handle: api.Call(http.StatusCreated, s.Setup)},
		{Method: http.MethodGet, Path: "/auth/login", Access: api.Open, Hidden: true, Handle: notFound},
		{Method: http.MethodPost, Path: "/auth/login", Access: api.Open, Category: auth, Handle: api.Call(http.StatusOK, s.Login)},
		{Method: http.MethodPost, Path: "/auth/change-password", Access: api.SignedIn, Category: auth, BeforePasswordChange: true, Handle: s.changePassword},
		{Method: http.MethodPost, Path: "/auth/register", Access: api.Open, Handle: api.Call(http.StatusCreated, s.Register)},
	})
}

// notFound is the handler of a method that /auth/login has only in the other mode: 404, not 405.
func notFound(http.ResponseWriter, *http.Request) error { return wire.NotFound }

func (s *Service) logout(w http.ResponseWriter, r *http.Request) error {
	in, err := api.DecodeOptional[bodies.LogoutRequest](w, r)
	if err != nil {
		return err
	}

	if err := s.Logout(r.Context(), api.CallerOf(r), api.Bearer(r), in.RefreshToken); err != nil {
		return err
	}

	return api.NoContent(w)
}

func (s *Service) changePassword(w http.ResponseWriter, r *http.Request) error {
	caller := api.CallerOf(r)
	if err := checkSession(caller); err != nil { // before the body
		return err
	}

	in, err := api.Decode[bodies.ChangePasswordRequest](w, r)
	if err != nil {
		return err
	}

	if err := s.ChangePassword(r.Context(), caller, in); err != nil {
		return err
	}

	return api.NoContent(w)
}
