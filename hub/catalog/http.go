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
