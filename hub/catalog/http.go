package catalog

import (
	"context"
	"net/http"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

// category is the audit category of denied requests.
const category = "agent"

type handler = func(http.ResponseWriter, *http.Request) error

// adminRoute returns a route that every role may call if it is a GET, and otherwise those that may
// write.
func adminRoute(method, path string, handle handler) api.Route {
	group := rbac.AdminWrite
	if method == http.MethodGet {
		group = rbac.AdminRead
	}
	return api.Route{Method: method, Path: path, Group: group, Category: category, Large: method == http.MethodGet, Handle: handle}
}

// publicRoute returns a GET route for clients.
func publicRoute(path string, handle handler) api.Route {
	return api.Route{Method: http.MethodGet, Path: path, Access: api.SignedIn, Category: category, Large: true, Handle: handle}
}

// listOf returns a handler that responds with a page of a list.
func listOf[T any](read func(context.Context, api.Caller, api.Page) (api.List[T], error)) handler {
	return api.Result(http.StatusOK, func(r *http.Request) (api.List[T], error) {
		page, err := api.Paging(r)
		if err != nil {
			return api.List[T]{}, err
		}
		return read(r.Context(), api.CallerOf(r), page)
	})
}

// byName calls a function with the name in the path.
func byName[T any](read func(context.Context, api.Caller, string) (T, error)) func(*http.Request) (T, error) {
	return func(r *http.Request) (T, error) { return read(r.Context(), api.CallerOf(r), r.PathValue("name")) }
}

// replaceOf returns a handler that replaces what the name in the path has, if it has the version
// that the client expects.
func replaceOf[In, T any](replace func(ctx context.Context, caller api.Caller, name string, expected *int64, in In) (T, error)) handler {
	return api.ResultOf(http.StatusOK, func(r *http.Request, in In) (T, error) {
		expected, err := api.IfMatch(r)
		if err != nil {
			return *new(T), err
		}
		return replace(r.Context(), api.CallerOf(r), r.PathValue("name"), expected, in)
	})
}

func (s *Service) agentRoutes() []api.Route {
	const path = "/api/v1/admin/agents"
	create := func(r *http.Request, in AgentInput) (Agent, error) {
		return s.CreateAgent(r.Context(), api.CallerOf(r), in)
	}
	remove := func(r *http.Request) error { return s.DeleteAgent(r.Context(), api.CallerOf(r), r.PathValue("name")) }
	return append(s.bindingRoutes(),
		publicRoute("/api/v1/agents", listOf(s.EnabledAgents)),
		publicRoute("/api/v1/agents/manifest", s.getManifest),
		publicRoute("/api/v1/agents/:name", api.Result(http.StatusOK, byName(s.EnabledAgent))),
		adminRoute(http.MethodGet, path, listOf(s.Agents)),
		adminRoute(http.MethodPost, path, api.ResultOf(http.StatusCreated, create)),
		adminRoute(http.MethodGet, path+"/:name", api.Result(http.StatusOK, byName(s.Agent))),
		adminRoute(http.MethodPut, path+"/:name", replaceOf(s.UpdateAgent)),
		adminRoute(http.MethodDelete, path+"/:name", api.Done(remove)),
		api.Route{Method: http.MethodGet, Path: path + "/:name/export", Group: rbac.AdminWrite, Category: category, Large: true, Handle: s.exportAgent},
		adminRoute(http.MethodPost, path+"/import", s.importAgent),
	)
}

// CurrentVersion returns the version, which is the ETag of a response.
func (a Agent) CurrentVersion() int64 { return a.Version }

func (s *Service) getManifest(w http.ResponseWriter, r *http.Request) error {
	m, err := s.Manifest(r.Context(), api.CallerOf(r))
	if err != nil || api.NotModified(w, r, m.ContentHash) {
		return err
	}
	return api.Encode(w, http.StatusOK, m)
}
