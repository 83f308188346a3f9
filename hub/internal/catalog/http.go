package catalog

import (
	"context"
	"net/http"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/rbac"
)

// category is the audit category of denied requests.
const category = "agent"

// adminRoute returns a route that every role may call if it is a GET, and otherwise those that may
// write.
func adminRoute(method, path string, handle api.Handler) api.Route {
	group := rbac.AdminWrite
	if method == http.MethodGet {
		group = rbac.AdminRead
	}

	return api.Route{Method: method, Path: path, Group: group, Category: category, Large: method == http.MethodGet, Handle: handle}
}

// publicRoute returns a GET route for clients.
func publicRoute(path string, handle api.Handler) api.Route {
	return api.Route{Method: http.MethodGet, Path: path, Access: api.SignedIn, Category: category, Large: true, Handle: handle}
}

// showOf returns a handler that responds with what has the name in the path.
func showOf[T any](read func(context.Context, api.Caller, string) (T, error)) api.Handler {
	return api.CallBy(http.StatusOK, "name", read)
}

// replaceOf returns a handler that replaces what the name in the path has, if it has the version
// that the client expects.
func replaceOf[In, T any](
	replace func(ctx context.Context, caller api.Caller, name string, expected *int64, in In) (T, error),
) api.Handler {
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
	return append(s.bindingRoutes(),
		publicRoute("/api/v1/agents", api.ListOf(s.EnabledAgents)),
		publicRoute("/api/v1/agents/manifest", s.getManifest),
		publicRoute("/api/v1/agents/:name", showOf(s.EnabledAgent)),
		adminRoute(http.MethodGet, path, api.ListOf(s.Agents)),
		adminRoute(http.MethodPost, path, api.Call(http.StatusCreated, s.CreateAgent)),
		adminRoute(http.MethodGet, path+"/:name", showOf(s.Agent)),
		adminRoute(http.MethodPut, path+"/:name", replaceOf(s.UpdateAgent)),
		adminRoute(http.MethodDelete, path+"/:name", api.DeleteBy("name", s.DeleteAgent)),
		api.Route{Method: http.MethodGet, Path: path + "/:name/export", Group: rbac.AdminWrite, Category: category, Large: true, Handle: s.exportAgent},
		adminRoute(http.MethodPost, path+"/import", s.importAgent),
	)
}

func (s *Service) getManifest(w http.ResponseWriter, r *http.Request) error {
	m, err := s.Manifest(r.Context(), api.CallerOf(r))
	if err != nil || api.NotModified(w, r, m.ContentHash) {
		return err
	}

	return api.EncodeItems(w, `{"contentHash":"`+m.ContentHash+`","agents":[`, m.Agents, `]}`)
}
