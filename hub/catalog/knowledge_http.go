package catalog

import (
	"net/http"

	"github.com/seed93082962/agenthost/hub/api"
)

func (s *Service) knowledgeRoutes() []api.Route {
	route := func(method, path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		return adminRoute(method, "/api/v1/admin/knowledge"+path, handle)
	}
	return []api.Route{
		route(http.MethodGet, "", s.listKnowledgeSets),
		route(http.MethodPost, "", s.createKnowledge),
		route(http.MethodGet, "/:name", s.getKnowledge),
		route(http.MethodPut, "/:name", s.updateKnowledge),
		route(http.MethodDelete, "/:name", s.deleteKnowledge),
	}
}

func (s *Service) listKnowledgeSets(w http.ResponseWriter, r *http.Request) error {
	return list(w, r, s.KnowledgeSets)
}

func (s *Service) getKnowledge(w http.ResponseWriter, r *http.Request) error {
	v, err := s.Knowledge(r.Context(), api.CallerOf(r), r.PathValue("name"))
	return writeVersion(w, http.StatusOK, v, v.Version, err)
}

func (s *Service) createKnowledge(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[KnowledgeInput](w, r)
	if err != nil {
		return err
	}
	v, err := s.CreateKnowledge(r.Context(), api.CallerOf(r), in)
	return writeVersion(w, http.StatusCreated, v, v.Version, err)
}

func (s *Service) updateKnowledge(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[KnowledgeInput](w, r)
	if err != nil {
		return err
	}
	expected, err := api.IfMatch(r)
	if err != nil {
		return err
	}
	v, err := s.UpdateKnowledge(r.Context(), api.CallerOf(r), r.PathValue("name"), expected, in)
	return writeVersion(w, http.StatusOK, v, v.Version, err)
}

func (s *Service) deleteKnowledge(w http.ResponseWriter, r *http.Request) error {
	if err := s.DeleteKnowledge(r.Context(), api.CallerOf(r), r.PathValue("name")); err != nil {
		return err
	}
	return api.NoContent(w)
}
