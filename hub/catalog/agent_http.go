package catalog

import (
	"net/http"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

// category is the audit category of denied requests.
const category = "agent"

func (s *Service) agentRoutes() []api.Route {
	route := func(method, path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		return adminRoute(method, "/api/v1/admin/agents"+path, handle)
	}
	public := func(path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		return api.Route{Method: http.MethodGet, Path: "/api/v1/agents" + path, Access: api.SignedIn, Category: category, Large: true, Handle: handle}
	}
	routes := []api.Route{
		public("", s.listEnabledAgents),
		public("/manifest", s.getManifest),
		public("/:name", s.getEnabledAgent),
		route(http.MethodGet, "", s.listAgents),
		route(http.MethodPost, "", s.createAgent),
		route(http.MethodGet, "/:name", s.getAgent),
		route(http.MethodPut, "/:name", s.updateAgent),
		route(http.MethodDelete, "/:name", s.deleteAgent),
		route(http.MethodGet, "/:name/export", s.exportAgent),
		route(http.MethodPost, "/import", s.importAgent),
	}
	for _, b := range (&Agent{}).bindings() {
		routes = append(routes, route(http.MethodGet, "/:name/"+b.field, s.getBindings(b.kind)), route(http.MethodPut, "/:name/"+b.field, s.putBindings(b.kind)))
	}
	return routes
}

// adminRoute returns a route that every role may call if it is a GET, and otherwise those that may
// write.
func adminRoute(method, path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
	group := rbac.AdminWrite
	if method == http.MethodGet {
		group = rbac.AdminRead
	}
	return api.Route{Method: method, Path: path, Group: group, Category: category, Large: method == http.MethodGet, Handle: handle}
}

func (s *Service) listEnabledAgents(w http.ResponseWriter, r *http.Request) error {
	return list(w, r, s.EnabledAgents)
}

func (s *Service) listAgents(w http.ResponseWriter, r *http.Request) error {
	return list(w, r, s.Agents)
}

func (s *Service) getManifest(w http.ResponseWriter, r *http.Request) error {
	m, err := s.Manifest(r.Context(), api.CallerOf(r))
	if err != nil || api.NotModified(w, r, m.ContentHash) {
		return err
	}
	return api.Encode(w, http.StatusOK, m)
}

func (s *Service) getEnabledAgent(w http.ResponseWriter, r *http.Request) error {
	a, err := s.EnabledAgent(r.Context(), api.CallerOf(r), r.PathValue("name"))
	return writeVersion(w, http.StatusOK, a, a.Version, err)
}

func (s *Service) getAgent(w http.ResponseWriter, r *http.Request) error {
	a, err := s.Agent(r.Context(), api.CallerOf(r), r.PathValue("name"))
	return writeVersion(w, http.StatusOK, a, a.Version, err)
}

func (s *Service) createAgent(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[AgentInput](w, r)
	if err != nil {
		return err
	}
	a, err := s.CreateAgent(r.Context(), api.CallerOf(r), in)
	return writeVersion(w, http.StatusCreated, a, a.Version, err)
}

func (s *Service) updateAgent(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[AgentInput](w, r)
	if err != nil {
		return err
	}
	expected, err := api.IfMatch(r)
	if err != nil {
		return err
	}
	a, err := s.UpdateAgent(r.Context(), api.CallerOf(r), r.PathValue("name"), expected, in)
	return writeVersion(w, http.StatusOK, a, a.Version, err)
}

func (s *Service) deleteAgent(w http.ResponseWriter, r *http.Request) error {
	if err := s.DeleteAgent(r.Context(), api.CallerOf(r), r.PathValue("name")); err != nil {
		return err
	}
	return api.NoContent(w)
}

func (s *Service) getBindings(k kind) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		a, refs, err := s.bound(r.Context(), api.CallerOf(r), r.PathValue("name"), k)
		return writeVersion(w, http.StatusOK, bindingList(k, refs), a.Version, err)
	}
}

func (s *Service) putBindings(k kind) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		in, err := api.Decode[Bindings](w, r)
		if err != nil {
			return err
		}
		expected, err := api.IfMatch(r)
		if err != nil {
			return err
		}
		a, err := s.bindAgent(r.Context(), api.CallerOf(r), r.PathValue("name"), k, expected, in)
		if err != nil {
			return err
		}
		return writeVersion(w, http.StatusOK, bindingList(k, a.refs(k)), a.Version, nil)
	}
}

// bindingList returns the response of bindings: objects for knowledge, names for the others.
func bindingList(k kind, refs []KnowledgeRef) any {
	if k == kindKnowledge {
		return api.List[KnowledgeRef]{Items: refs, Total: len(refs)}
	}
	return api.List[string]{Items: refNames(refs), Total: len(refs)}
}
