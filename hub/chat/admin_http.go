package chat

import (
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

func (s *Service) adminRoutes() []api.Route {
	route := func(method, path string, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		// A member may delete its own sessions: the service checks the owner.
		return api.Route{Method: method, Path: "/api/v1/admin/chat/sessions" + path, Group: rbac.AdminRead, Category: "agent", Large: method == http.MethodGet, Handle: handle}
	}
	return []api.Route{
		route(http.MethodGet, "", s.listAllSessions),
		route(http.MethodGet, "/:id", s.showSession),
		route(http.MethodGet, "/:id/messages", s.listAnyMessages),
		route(http.MethodDelete, "/:id", s.deleteAnySession),
	}
}

func (s *Service) listAllSessions(w http.ResponseWriter, r *http.Request) error {
	page, err := api.Paging(r)
	if err != nil {
		return err
	}
	f, err := filterOf(r)
	if err != nil {
		return err
	}
	list, err := s.AllSessions(r.Context(), api.CallerOf(r), f, page)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, list)
}

// filterOf parses agent, user, source, from and to of the query. Empty values count as omitted.
func filterOf(r *http.Request) (Filter, error) {
	query, err := queryOf(r)
	if err != nil {
		return Filter{}, err
	}
	f := Filter{Agent: query.Get("agent"), User: query.Get("user"), Source: query.Get("source")}
	invalid := map[string]string{}
	for name, value := range map[string]string{"agent": f.Agent, "user": f.User} {
		if !utf8.ValidString(value) || strings.ContainsRune(value, 0) || utf8.RuneCountInString(value) > 200 {
			invalid[name] = "must be UTF-8 of at most 200 characters"
		}
	}
	if f.Source != "" && f.Source != sourceHub && f.Source != sourcePush {
		invalid["source"] = "must be hub or push"
	}
	for name, at := range map[string]*time.Time{"from": &f.From, "to": &f.To} {
		if value := query.Get(name); value != "" {
			if *at, err = time.Parse(time.RFC3339, value); err != nil {
				invalid[name] = "must be a time in the form of RFC 3339, such as 2006-01-02T15:04:05Z"
			}
		}
	}
	if len(invalid) > 0 {
		return f, &api.Error{Code: api.InvalidRequest, Message: "Some parameters of the query are invalid: see data.fields.", Data: map[string]any{"fields": invalid}}
	}
	return f, nil
}

func queryOf(r *http.Request) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || !utf8.ValidString(query.Get("user")) || strings.ContainsRune(query.Get("user"), 0) {
		return nil, api.InvalidRequest.New("The query string is malformed: escape it as in a URL.")
	}
	return query, nil
}

func (s *Service) showSession(w http.ResponseWriter, r *http.Request) error {
	query, err := queryOf(r)
	if err != nil {
		return err
	}
	session, err := s.AnySession(r.Context(), api.CallerOf(r), r.PathValue("id"), query.Get("user"))
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, session)
}

func (s *Service) listAnyMessages(w http.ResponseWriter, r *http.Request) error {
	page, err := messagePage(r)
	if err != nil {
		return err
	}
	query, err := queryOf(r)
	if err != nil {
		return err
	}
	list, err := s.AnyMessages(r.Context(), api.CallerOf(r), r.PathValue("id"), query.Get("user"), page)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, list)
}

func (s *Service) deleteAnySession(w http.ResponseWriter, r *http.Request) error {
	query, err := queryOf(r)
	if err != nil {
		return err
	}
	if err := s.DeleteAnySession(r.Context(), api.CallerOf(r), r.PathValue("id"), query.Get("user")); err != nil {
		return err
	}
	return api.NoContent(w)
}
