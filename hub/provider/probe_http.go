package provider

import (
	"net/http"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

func (s *Service) probeRoutes() []api.Route {
	route := func(path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		return api.Route{Method: http.MethodPost, Path: "/api/v1/admin/providers" + path, Group: rbac.AdminWrite, Category: category, Handle: handle}
	}
	return []api.Route{
		route("/probe", s.probe),
		route("/:id/probe", s.probeProvider),
	}
}

func (s *Service) probe(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[ProbeInput](w, r)
	if err != nil {
		return err
	}
	result, err := s.Probe(r.Context(), api.CallerOf(r), in)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, result)
}

func (s *Service) probeProvider(w http.ResponseWriter, r *http.Request) error {
	result, err := s.ProbeProvider(r.Context(), api.CallerOf(r), r.PathValue("id"))
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, result)
}
