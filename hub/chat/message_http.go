package chat

import (
	"net/http"

	"github.com/seed93082962/agenthost/hub/api"
)

func (s *Service) messageRoutes() []api.Route {
	return []api.Route{
		ownRoute(http.MethodGet, "/:id/messages", s.listMessages),
		ownRoute(http.MethodPost, "/:id/messages", s.sendMessage),
	}
}

func (s *Service) listMessages(w http.ResponseWriter, r *http.Request) error {
	page, err := api.Paging(r)
	if err != nil {
		return err
	}
	list, err := s.Messages(r.Context(), api.CallerOf(r), r.PathValue("name"), r.PathValue("id"), page)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, list)
}
