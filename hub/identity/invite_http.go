package identity

import (
	"net/http"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

func (s *Service) inviteRoutes() []api.Route {
	route := func(method, path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		return api.Route{Method: method, Path: "/api/v1/admin/invites" + path, Group: rbac.AdminOnly, Category: "invite", Handle: handle}
	}
	return []api.Route{
		route(http.MethodGet, "", s.listInvites),
		route(http.MethodPost, "", s.createInvite),
		route(http.MethodDelete, "/:id", s.revokeInvite),
	}
}

func (s *Service) listInvites(w http.ResponseWriter, r *http.Request) error {
	page, err := api.Paging(r)
	if err != nil {
		return err
	}
	list, err := s.Invites(r.Context(), api.CallerOf(r), page)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, list)
}

func (s *Service) createInvite(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[InviteInput](w, r)
	if err != nil {
		return err
	}
	invite, err := s.CreateInvite(r.Context(), api.CallerOf(r), in)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusCreated, invite)
}

func (s *Service) revokeInvite(w http.ResponseWriter, r *http.Request) error {
	if err := s.RevokeInvite(r.Context(), api.CallerOf(r), r.PathValue("id")); err != nil {
		return err
	}
	return api.NoContent(w)
}

func (s *Service) checkInvite(w http.ResponseWriter, r *http.Request) error {
	invitation, err := s.CheckInvite(r.Context(), r.PathValue("token"))
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, invitation)
}

func (s *Service) register(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[RegisterInput](w, r)
	if err != nil {
		return err
	}
	signIn, err := s.Register(r.Context(), api.CallerOf(r), in)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusCreated, signIn)
}
