package catalog

import (
	"net/http"

	"github.com/seed93082962/agenthost/hub/api"
)

func (s *Service) mcpRoutes() []api.Route {
	route := func(method, path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		return adminRoute(method, "/api/v1/admin/mcps"+path, handle)
	}
	return []api.Route{
		route(http.MethodGet, "", s.listMCPs),
		route(http.MethodPost, "", s.createMCP),
		route(http.MethodGet, "/:name", s.getMCP),
		route(http.MethodPut, "/:name", s.updateMCP),
		route(http.MethodDelete, "/:name", s.deleteMCP),
	}
}

func (s *Service) listMCPs(w http.ResponseWriter, r *http.Request) error { return list(w, r, s.MCPs) }

func (s *Service) getMCP(w http.ResponseWriter, r *http.Request) error {
	v, err := s.MCP(r.Context(), api.CallerOf(r), r.PathValue("name"))
	return writeVersion(w, http.StatusOK, v, v.Version, err)
}

func (s *Service) createMCP(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[MCPInput](w, r)
	if err != nil {
		return err
	}
	v, err := s.CreateMCP(r.Context(), api.CallerOf(r), in)
	return writeVersion(w, http.StatusCreated, v, v.Version, err)
}

func (s *Service) updateMCP(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[MCPInput](w, r)
	if err != nil {
		return err
	}
	expected, err := api.IfMatch(r)
	if err != nil {
		return err
	}
	v, err := s.UpdateMCP(r.Context(), api.CallerOf(r), r.PathValue("name"), expected, in)
	return writeVersion(w, http.StatusOK, v, v.Version, err)
}

func (s *Service) deleteMCP(w http.ResponseWriter, r *http.Request) error {
	if err := s.DeleteMCP(r.Context(), api.CallerOf(r), r.PathValue("name")); err != nil {
		return err
	}
	return api.NoContent(w)
}
