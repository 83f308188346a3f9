package provider

import (
	"net/http"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

// Routes returns all routes of this package.
func (s *Service) Routes() []api.Route {
	const public, admin, category = "/api/v1/providers", "/api/v1/admin/providers", "provider"
	read := func(path string, handle api.Handler) api.Route {
		return api.Route{Method: http.MethodGet, Path: path, Group: rbac.AdminRead, Category: category, Large: true, Handle: handle}
	}
	write := func(method, path string, handle api.Handler) api.Route {
		return api.Route{Method: method, Path: admin + path, Group: rbac.AdminWrite, Category: category, Handle: handle}
	}
	list, show := api.ListOf(s.Providers), api.CallBy(http.StatusOK, "id", s.Provider)
	return []api.Route{
		read(public, list),
		read(public+"/:id", show),
		read(public+"/runtime-config", api.ListOf(s.RuntimeConfigs)),
		read(admin, list),
		read(admin+"/:id", show),
		write(http.MethodPost, "", api.Call(http.StatusCreated, s.CreateProvider)),
		write(http.MethodPut, "/:id", api.ResultOf(http.StatusOK, func(r *http.Request, in Input) (wire.Provider, error) {
			expected, err := api.IfMatch(r)
			if err != nil {
				return wire.Provider{}, err
			}

			return s.UpdateProvider(r.Context(), api.CallerOf(r), r.PathValue("id"), expected, in)
		})),
		write(http.MethodDelete, "/:id", api.DeleteBy("id", s.DeleteProvider)),
		write(http.MethodPut, "/:id/key", api.ResultOf(http.StatusOK, func(r *http.Request, in bodies.ProviderKey) (wire.Provider, error) {
			return s.SetKey(r.Context(), api.CallerOf(r), r.PathValue("id"), in)
		})),
		write(http.MethodDelete, "/:id/key", api.DoneBy("id", s.RemoveKey)),
		write(http.MethodPost, "/:id/reveal-key", api.CallBy(http.StatusOK, "id", s.RevealKey)),
		write(http.MethodPost, "/probe", api.Call(http.StatusOK, s.Probe)),
		write(http.MethodPost, "/:id/probe", api.CallBy(http.StatusOK, "id", s.ProbeProvider)),
	}
}
