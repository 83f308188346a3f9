package deploy

import (
	"net/http"
	"strconv"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

// Routes returns the routes of deployments.
func (s *Service) Routes() []api.Route {
	route := func(method, path string, group rbac.Group, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		return api.Route{Method: method, Path: "/api/v1/admin/agents/:name/deploy" + path, Group: group, Category: "agent", Large: path == "/logs", Handle: handle}
	}
	return []api.Route{
		route(http.MethodGet, "", rbac.AdminRead, s.getStatus),
		route(http.MethodPost, "", rbac.AdminWrite, s.postDeploy),
		route(http.MethodDelete, "", rbac.AdminWrite, s.deleteDeploy),
		route(http.MethodPost, "/stop", rbac.AdminWrite, s.postStop),
		route(http.MethodPost, "/start", rbac.AdminWrite, s.postStart),
		route(http.MethodPost, "/rotate-key", rbac.AdminWrite, s.postRotateKey),
		route(http.MethodGet, "/logs", rbac.AdminWrite, s.getLogs),
	}
}

func (s *Service) getStatus(w http.ResponseWriter, r *http.Request) error {
	status, err := s.Status(r.Context(), api.CallerOf(r), r.PathValue("name"))
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, status)
}

func (s *Service) postDeploy(w http.ResponseWriter, r *http.Request) error {
	in, err := api.DecodeOptional[Options](w, r)
	if err != nil {
		return err
	}
	status, err := s.Deploy(r.Context(), api.CallerOf(r), r.PathValue("name"), in)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusAccepted, status)
}

func (s *Service) postStop(w http.ResponseWriter, r *http.Request) error {
	status, err := s.Stop(r.Context(), api.CallerOf(r), r.PathValue("name"))
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusAccepted, status)
}

func (s *Service) postStart(w http.ResponseWriter, r *http.Request) error {
	status, err := s.Start(r.Context(), api.CallerOf(r), r.PathValue("name"))
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusAccepted, status)
}

func (s *Service) postRotateKey(w http.ResponseWriter, r *http.Request) error {
	status, err := s.RotateKey(r.Context(), api.CallerOf(r), r.PathValue("name"))
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusAccepted, status)
}

func (s *Service) deleteDeploy(w http.ResponseWriter, r *http.Request) error {
	if err := s.Delete(r.Context(), api.CallerOf(r), r.PathValue("name")); err != nil {
		return err
	}
	return api.NoContent(w)
}

// defaultTail is the number of log lines without a parameter.
const defaultTail = 200

func (s *Service) getLogs(w http.ResponseWriter, r *http.Request) error {
	tail := defaultTail
	if text := r.URL.Query().Get("tail"); text != "" {
		var err error
		if tail, err = strconv.Atoi(text); err != nil {
			return api.InvalidRequest.New("tail must be a number.")
		}
	}
	lines, err := s.Logs(r.Context(), api.CallerOf(r), r.PathValue("name"), tail)
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusOK, logs{append([]string{}, lines...)})
}

// logs is the response with log lines, oldest first.
type logs struct {
	Lines []string `json:"lines"`
}
