package identity

import (
	"net/http"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

func (s *Service) userRoutes() []api.Route {
	route := func(method, path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		return api.Route{Method: method, Path: "/api/v1/admin/users" + path, Group: rbac.AdminOnly, Category: "user", Handle: handle}
	}
	return []api.Route{
		route(http.MethodGet, "", s.listUsers),
		route(http.MethodPost, "", s.createUser),
		route(http.MethodGet, "/:id", s.getUser),
		route(http.MethodPatch, "/:id", s.updateUser),
		route(http.MethodDelete, "/:id", s.deleteUser),
		route(http.MethodPost, "/:id/reset-password", s.resetUserPassword),
		route(http.MethodGet, "/:id/sessions", s.listUserSessions),
		route(http.MethodDelete, "/:id/sessions", s.endUserSessions),
		route(http.MethodGet, "/:id/tokens", s.listUserTokens),
		route(http.MethodDelete, "/:id/tokens/:tokenId", s.revokeUserToken),
	}
}

func (s *Service) listUsers(w http.ResponseWriter, r *http.Request) error {
	page, err := api.Paging(r)
	if err != nil {
		return err
	}
	list, err := s.Users(r.Context(), api.CallerOf(r), page)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, list)
}

func (s *Service) createUser(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[UserInput](w, r)
	if err != nil {
		return err
	}
	user, err := s.CreateUser(r.Context(), api.CallerOf(r), in)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusCreated, user)
}

func (s *Service) getUser(w http.ResponseWriter, r *http.Request) error {
	user, err := s.User(r.Context(), api.CallerOf(r), r.PathValue("id"))
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, user)
}

func (s *Service) updateUser(w http.ResponseWriter, r *http.Request) error {
	if _, err := parseID(r.PathValue("id")); err != nil { // before the body
		return err
	}
	in, err := api.Decode[UserUpdate](w, r)
	if err != nil {
		return err
	}
	user, err := s.UpdateUser(r.Context(), api.CallerOf(r), r.PathValue("id"), in)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, user)
}

func (s *Service) deleteUser(w http.ResponseWriter, r *http.Request) error {
	if err := s.DeleteUser(r.Context(), api.CallerOf(r), r.PathValue("id")); err != nil {
		return err
	}
	return api.NoContent(w)
}

func (s *Service) resetUserPassword(w http.ResponseWriter, r *http.Request) error {
	password, err := s.ResetUserPassword(r.Context(), api.CallerOf(r), r.PathValue("id"))
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, oneTimePassword{password})
}

func (s *Service) listUserSessions(w http.ResponseWriter, r *http.Request) error {
	page, err := api.Paging(r)
	if err != nil {
		return err
	}
	list, err := s.UserSessions(r.Context(), api.CallerOf(r), r.PathValue("id"), page)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, list)
}

func (s *Service) endUserSessions(w http.ResponseWriter, r *http.Request) error {
	if err := s.EndUserSessions(r.Context(), api.CallerOf(r), r.PathValue("id")); err != nil {
		return err
	}
	return api.NoContent(w)
}

func (s *Service) listUserTokens(w http.ResponseWriter, r *http.Request) error {
	page, err := api.Paging(r)
	if err != nil {
		return err
	}
	list, err := s.UserTokens(r.Context(), api.CallerOf(r), r.PathValue("id"), page)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, list)
}

func (s *Service) revokeUserToken(w http.ResponseWriter, r *http.Request) error {
	if err := s.RevokeUserToken(r.Context(), api.CallerOf(r), r.PathValue("id"), r.PathValue("tokenId")); err != nil {
		return err
	}
	return api.NoContent(w)
}
