package provider

import (
	"net/http"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

const category = "provider" // of denied requests

func (s *Service) providerRoutes() []api.Route {
	const public, admin = "/api/v1/providers", "/api/v1/admin/providers"
	read := func(path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		return api.Route{Method: http.MethodGet, Path: path, Group: rbac.AdminRead, Category: category, Large: true, Handle: handle}
	}
	write := func(method, path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		return api.Route{Method: method, Path: path, Group: rbac.AdminWrite, Category: category, Handle: handle}
	}
	return []api.Route{
		read(public, s.listProviders),
		read(public+"/:id", s.getProvider),
		read(public+"/runtime-config", s.runtimeConfig),
		read(admin, s.listProviders),
		read(admin+"/:id", s.getProvider),
		write(http.MethodPost, admin, s.createProvider),
		write(http.MethodPut, admin+"/:id", s.updateProvider),
		write(http.MethodDelete, admin+"/:id", s.deleteProvider),
		write(http.MethodPost, admin+"/:id/reveal-key", s.revealKey),
	}
}

func (s *Service) listProviders(w http.ResponseWriter, r *http.Request) error {
	page, err := api.Paging(r)
	if err != nil {
		return err
	}
	list, err := s.Providers(r.Context(), api.CallerOf(r), page)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, list)
}

func (s *Service) runtimeConfig(w http.ResponseWriter, r *http.Request) error {
	page, err := api.Paging(r)
	if err != nil {
		return err
	}
	list, err := s.RuntimeConfigs(r.Context(), api.CallerOf(r), page)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, list)
}

func (s *Service) getProvider(w http.ResponseWriter, r *http.Request) error {
	p, err := s.Provider(r.Context(), api.CallerOf(r), r.PathValue("id"))
	if err != nil {
		return err
	}
	api.SetVersion(w, p.Version)
	return api.Encode(w, http.StatusOK, p)
}

func (s *Service) createProvider(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[Input](w, r)
	if err != nil {
		return err
	}
	p, err := s.CreateProvider(r.Context(), api.CallerOf(r), in)
	if err != nil {
		return err
	}
	api.SetVersion(w, p.Version)
	return api.Encode(w, http.StatusCreated, p)
}

func (s *Service) updateProvider(w http.ResponseWriter, r *http.Request) error {
	expected, err := api.IfMatch(r)
	if err != nil {
		return err
	}
	in, err := api.Decode[Input](w, r)
	if err != nil {
		return err
	}
	p, err := s.UpdateProvider(r.Context(), api.CallerOf(r), r.PathValue("id"), expected, in)
	if err != nil {
		return err
	}
	api.SetVersion(w, p.Version)
	return api.Encode(w, http.StatusOK, p)
}

func (s *Service) deleteProvider(w http.ResponseWriter, r *http.Request) error {
	if err := s.DeleteProvider(r.Context(), api.CallerOf(r), r.PathValue("id")); err != nil {
		return err
	}
	return api.NoContent(w)
}

func (s *Service) revealKey(w http.ResponseWriter, r *http.Request) error {
	key, err := s.RevealKey(r.Context(), api.CallerOf(r), r.PathValue("id"))
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, key)
}
