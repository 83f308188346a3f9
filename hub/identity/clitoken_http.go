package identity

import (
	"net/http"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

func (s *Service) cliTokenRoutes() []api.Route {
	route := func(method, path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		return api.Route{Method: method, Path: "/api/v1/cli" + path, Group: rbac.AdminWrite, Category: "token", Handle: handle}
	}
	return []api.Route{
		route(http.MethodPost, "/issue-token", s.issueToken),
		route(http.MethodGet, "/tokens", s.listTokens),
		route(http.MethodDelete, "/tokens/:id", s.revokeToken),
	}
}

func (s *Service) issueToken(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[TokenInput](w, r)
	if err != nil {
		return err
	}
	token, err := s.IssueToken(r.Context(), api.CallerOf(r), in)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusCreated, token)
}

func (s *Service) listTokens(w http.ResponseWriter, r *http.Request) error {
	page, err := api.Paging(r)
	if err != nil {
		return err
	}
	list, err := s.Tokens(r.Context(), api.CallerOf(r), page)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, list)
}

func (s *Service) revokeToken(w http.ResponseWriter, r *http.Request) error {
	if err := s.RevokeToken(r.Context(), api.CallerOf(r), r.PathValue("id")); err != nil {
		return err
	}
	return api.NoContent(w)
}
