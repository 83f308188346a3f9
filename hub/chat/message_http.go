package chat

import (
	"net/http"
	"strconv"

	"github.com/seed93082962/agenthost/hub/api"
)

func (s *Service) messageRoutes() []api.Route {
	return []api.Route{
		ownRoute(http.MethodGet, "/:id/messages", s.listMessages),
		ownRoute(http.MethodPost, "/:id/messages", s.sendMessage),
	}
}

func (s *Service) listMessages(w http.ResponseWriter, r *http.Request) error {
	page, err := messagePage(r)
	if err != nil {
		return err
	}
	list, err := s.Messages(r.Context(), api.CallerOf(r), r.PathValue("name"), r.PathValue("id"), page)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, list)
}

// messagePage parses page and page_size, or next instead of page.
func messagePage(r *http.Request) (page MessagePage, err error) {
	if page.Page, err = api.Paging(r); err != nil {
		return page, err
	}
	query, err := queryOf(r)
	if err != nil {
		return page, err
	}
	if next := query.Get("next"); next != "" {
		page.After, err = strconv.ParseInt(next, 10, 53)
		if err != nil || page.After < 1 {
			const want = "must be that of a former response"
			return page, &api.Error{Code: api.InvalidRequest, Message: "next " + want + ".", Data: map[string]any{"fields": map[string]string{"next": want}}}
		}
	}
	return page, nil
}
