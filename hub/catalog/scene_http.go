package catalog

import (
	"net/http"

	"github.com/seed93082962/agenthost/hub/api"
)

func (s *Service) sceneRoutes() []api.Route {
	route := func(method, path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		return adminRoute(method, "/api/v1/admin/scenes"+path, handle)
	}
	public := func(path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		return api.Route{Method: http.MethodGet, Path: "/api/v1/scenes" + path, Access: api.SignedIn, Category: category, Large: true, Handle: handle}
	}
	return []api.Route{
		public("", s.listEnabledScenes),
		public("/:name", s.getEnabledScene),
		route(http.MethodGet, "", s.listScenes),
		route(http.MethodPost, "", s.createScene),
		route(http.MethodGet, "/:name", s.getScene),
		route(http.MethodPut, "/:name", s.updateScene),
		route(http.MethodDelete, "/:name", s.deleteScene),
	}
}

func (s *Service) listScenes(w http.ResponseWriter, r *http.Request) error {
	return list(w, r, s.Scenes)
}

func (s *Service) listEnabledScenes(w http.ResponseWriter, r *http.Request) error {
	return list(w, r, s.EnabledScenes)
}

func (s *Service) getEnabledScene(w http.ResponseWriter, r *http.Request) error {
	v, err := s.EnabledScene(r.Context(), api.CallerOf(r), r.PathValue("name"))
	return writeVersion(w, http.StatusOK, v, v.Version, err)
}

func (s *Service) getScene(w http.ResponseWriter, r *http.Request) error {
	v, err := s.Scene(r.Context(), api.CallerOf(r), r.PathValue("name"))
	return writeVersion(w, http.StatusOK, v, v.Version, err)
}

func (s *Service) createScene(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[SceneInput](w, r)
	if err != nil {
		return err
	}
	v, err := s.CreateScene(r.Context(), api.CallerOf(r), in)
	return writeVersion(w, http.StatusCreated, v, v.Version, err)
}

func (s *Service) updateScene(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[SceneInput](w, r)
	if err != nil {
		return err
	}
	expected, err := api.IfMatch(r)
	if err != nil {
		return err
	}
	v, err := s.UpdateScene(r.Context(), api.CallerOf(r), r.PathValue("name"), expected, in)
	return writeVersion(w, http.StatusOK, v, v.Version, err)
}

func (s *Service) deleteScene(w http.ResponseWriter, r *http.Request) error {
	if err := s.DeleteScene(r.Context(), api.CallerOf(r), r.PathValue("name")); err != nil {
		return err
	}
	return api.NoContent(w)
}
