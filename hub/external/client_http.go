package external

import (
	"net/http"

	"github.com/seed93082962/agenthost/hub/api"
)

func (s *Service) clientRoutes() []api.Route {
	route := func(method, path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		return api.Route{Method: method, Path: "/api/v1/ops/tenant-clients" + path, Access: api.Open, NoChallenge: true, Handle: s.withOpsKey(handle)}
	}
	return []api.Route{
		route(http.MethodPost, "", s.upsertClient),
		route(http.MethodGet, "", s.listClients),
		route(http.MethodDelete, "/:org", s.deleteClient),
	}
}

// withOpsKey rejects requests without the key of the operations interface. A wrong key is recorded
// in the log of the system.
func (s *Service) withOpsKey(handle func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	const message = `Send the key of the operations interface as "X-Ops-Key: KEY".`
	return func(w http.ResponseWriter, r *http.Request) error {
		keys := r.Header.Values("X-Ops-Key")
		if len(keys) == 0 || len(keys) == 1 && keys[0] == "" {
			return api.Unauthenticated.New(message)
		}
		if len(keys) > 1 || !s.isOpsKey(keys[0]) {
			return api.WrongKey(message)
		}
		return handle(w, r)
	}
}

func (s *Service) upsertClient(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[ClientInput](w, r)
	if err != nil {
		return err
	}
	client, created, err := s.UpsertClient(r.Context(), api.CallerOf(r), in)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return api.Encode(w, status, client)
}

func (s *Service) listClients(w http.ResponseWriter, r *http.Request) error {
	page, err := api.Paging(r)
	if err != nil {
		return err
	}
	list, err := s.Clients(r.Context(), page)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, list)
}

func (s *Service) deleteClient(w http.ResponseWriter, r *http.Request) error {
	if err := s.DeleteClient(r.Context(), api.CallerOf(r), r.PathValue("org")); err != nil {
		return err
	}
	return api.NoContent(w)
}
