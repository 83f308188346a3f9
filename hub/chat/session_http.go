package chat

import (
	"net/http"

	"github.com/seed93082962/agenthost/hub/api"
)

// ownPath is the path of the caller's own sessions with an agent.
const ownPath = "/api/v1/agents/:name/chat/sessions"

func ownRoute(method, path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
	return api.Route{Method: method, Path: ownPath + path, Access: api.SignedIn, Category: "agent", Large: method == http.MethodGet, Handle: handle}
}

func (s *Service) sessionRoutes() []api.Route {
	return []api.Route{
		ownRoute(http.MethodGet, "", s.listSessions),
		ownRoute(http.MethodPost, "", s.createSession),
		ownRoute(http.MethodDelete, "/:id", s.deleteOwnSession),
		ownRoute(http.MethodPost, "/:id/cancel", s.cancelAnswer),
	}
}

func (s *Service) listSessions(w http.ResponseWriter, r *http.Request) error {
	page, err := api.Paging(r)
	if err != nil {
		return err
	}
	list, err := s.Sessions(r.Context(), api.CallerOf(r), r.PathValue("name"), page)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, list)
}

func (s *Service) createSession(w http.ResponseWriter, r *http.Request) error {
	in, err := api.DecodeOptional[SessionInput](w, r)
	if err != nil {
		return err
	}
	session, err := s.CreateSession(r.Context(), api.CallerOf(r), r.PathValue("name"), in)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusCreated, session)
}

func (s *Service) deleteOwnSession(w http.ResponseWriter, r *http.Request) error {
	if err := s.DeleteSession(r.Context(), api.CallerOf(r), r.PathValue("name"), r.PathValue("id")); err != nil {
		return err
	}
	return api.NoContent(w)
}

func (s *Service) cancelAnswer(w http.ResponseWriter, r *http.Request) error {
	cancelling, err := s.Cancel(r.Context(), api.CallerOf(r), r.PathValue("name"), r.PathValue("id"))
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusAccepted, cancelling)
}
