package provider

import (
	"context"
	"net/http"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

// Routes returns all routes of this package.
func (s *Service) Routes() []api.Route {
	const public, admin, category = "/api/v1/providers", "/api/v1/admin/providers", "provider"
	read := func(path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		return api.Route{Method: http.MethodGet, Path: path, Group: rbac.AdminRead, Category: category, Large: true, Handle: handle}
	}
	write := func(method, path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		return api.Route{Method: method, Path: admin + path, Group: rbac.AdminWrite, Category: category, Handle: handle}
	}
	list := func(read func(context.Context, api.Caller, api.Page) (api.List[Provider], error)) func(http.ResponseWriter, *http.Request) error {
		return api.Result(http.StatusOK, func(r *http.Request) (api.List[Provider], error) {
			page, err := api.Paging(r)
			if err != nil {
				return api.List[Provider]{}, err
			}
			return read(r.Context(), api.CallerOf(r), page)
		})
	}
	show := api.Result(http.StatusOK, func(r *http.Request) (Provider, error) {
		return s.Provider(r.Context(), api.CallerOf(r), r.PathValue("id"))
	})
	return []api.Route{
		read(public, list(s.Providers)),
		read(public+"/:id", show),
		read(public+"/runtime-config", list(s.RuntimeConfigs)),
		read(admin, list(s.Providers)),
		read(admin+"/:id", show),
		write(http.MethodPost, "", api.ResultOf(http.StatusCreated, func(r *http.Request, in Input) (Provider, error) {
			return s.CreateProvider(r.Context(), api.CallerOf(r), in)
		})),
		write(http.MethodPut, "/:id", api.ResultOf(http.StatusOK, func(r *http.Request, in Input) (Provider, error) {
			expected, err := api.IfMatch(r)
			if err != nil {
				return Provider{}, err
			}
			return s.UpdateProvider(r.Context(), api.CallerOf(r), r.PathValue("id"), expected, in)
		})),
		write(http.MethodDelete, "/:id", api.Done(func(r *http.Request) error {
			return s.DeleteProvider(r.Context(), api.CallerOf(r), r.PathValue("id"))
		})),
		write(http.MethodPost, "/:id/reveal-key", api.Result(http.StatusOK, func(r *http.Request) (RevealedKey, error) {
			return s.RevealKey(r.Context(), api.CallerOf(r), r.PathValue("id"))
		})),
		write(http.MethodPost, "/probe", api.ResultOf(http.StatusOK, func(r *http.Request, in ProbeInput) (ProbeResult, error) {
			return s.Probe(r.Context(), api.CallerOf(r), in)
		})),
		write(http.MethodPost, "/:id/probe", api.Result(http.StatusOK, func(r *http.Request) (ProbeResult, error) {
			return s.ProbeProvider(r.Context(), api.CallerOf(r), r.PathValue("id"))
		})),
	}
}
