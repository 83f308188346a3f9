package aigc

import (
	"net/http"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

func route(method, path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
	return api.Route{Method: method, Path: "/api/v1/admin/aigc" + path, Group: rbac.AdminWrite, Category: "aigc", Handle: handle}
}

func (s *Service) settingsRoutes() []api.Route {
	return []api.Route{
		route(http.MethodGet, "/config", s.getSettings),
		route(http.MethodPut, "/config", s.putSettings),
		route(http.MethodDelete, "/config", s.deleteSettings),
	}
}

// unconfigured is the response without a configuration.
type unconfigured struct {
	Enabled bool `json:"enabled"`
}

func (s *Service) getSettings(w http.ResponseWriter, r *http.Request) error {
	settings, found, err := s.Settings(r.Context(), api.CallerOf(r))
	if err != nil {
		return err
	}
	if !found {
		return api.Encode(w, http.StatusOK, unconfigured{})
	}
	return api.Encode(w, http.StatusOK, settings)
}

func (s *Service) putSettings(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[Input](w, r)
	if err != nil {
		return err
	}
	settings, err := s.SetSettings(r.Context(), api.CallerOf(r), in)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, settings)
}

func (s *Service) deleteSettings(w http.ResponseWriter, r *http.Request) error {
	if err := s.DeleteSettings(r.Context(), api.CallerOf(r)); err != nil {
		return err
	}
	return api.NoContent(w)
}
