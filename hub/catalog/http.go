package catalog

import (
	"context"
	"net/http"

	"github.com/seed93082962/agenthost/hub/api"
)

// list responds with a page of a list.
func list[T any](w http.ResponseWriter, r *http.Request, read func(context.Context, api.Caller, api.Page) (api.List[T], error)) error {
	page, err := api.Paging(r)
	if err != nil {
		return err
	}
	items, err := read(r.Context(), api.CallerOf(r), page)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, items)
}

// writeVersion responds with a resource and its version, unless there is an error.
func writeVersion(w http.ResponseWriter, status int, v any, version int64, err error) error {
	if err != nil {
		return err
	}
	api.SetVersion(w, version)
	return api.Encode(w, status, v)
}
