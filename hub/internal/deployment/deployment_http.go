package deployment

import (
	"context"
	"net/http"
	"strconv"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

// Routes returns the routes of deployments.
func (s *Service) Routes() []api.Route {
	route := func(method, path string, group rbac.Group, handle func(http.ResponseWriter, *http.Request) error) api.Route {
		return api.Route{Method: method, Path: "/api/v1/admin/agents/:name/deploy" + path, Group: group, Category: "agent", Large: path == "/logs" || path == "/revisions", Handle: handle}
	}
	result := func(status int, call func(context.Context, api.Caller, string) (wire.Deployment, error)) func(http.ResponseWriter, *http.Request) error {
		return api.Result(status, func(r *http.Request) (wire.Deployment, error) {
			return call(r.Context(), api.CallerOf(r), r.PathValue("name"))
		})
	}
	return []api.Route{
		route(http.MethodGet, "", rbac.AdminRead, result(http.StatusOK, s.Status)),
		route(http.MethodPost, "", rbac.AdminWrite, s.postDeploy),
		route(http.MethodDelete, "", rbac.AdminWrite, api.Done(func(r *http.Request) error {
			return s.Delete(r.Context(), api.CallerOf(r), r.PathValue("name"))
		})),
		route(http.MethodPost, "/stop", rbac.AdminWrite, result(http.StatusAccepted, s.Stop)),
		route(http.MethodPost, "/start", rbac.AdminWrite, result(http.StatusAccepted, s.Start)),
		route(http.MethodPost, "/rotate-key", rbac.AdminWrite, result(http.StatusAccepted, s.RotateKey)),
		route(http.MethodPost, "/rollback", rbac.AdminWrite, s.postRollback),
		route(http.MethodGet, "/revisions", rbac.AdminRead, api.Result(http.StatusOK, func(r *http.Request) (api.List[wire.Revision], error) {
			return s.Revisions(r.Context(), api.CallerOf(r), r.PathValue("name"))
		})),
		route(http.MethodGet, "/logs", rbac.AdminWrite, api.Result(http.StatusOK, s.getLogs)),
	}
}

func (s *Service) postDeploy(w http.ResponseWriter, r *http.Request) error {
	in, err := api.DecodeOptional[bodies.DeployRequest](w, r)
	if err != nil {
		return err
	}

	status, err := s.Deploy(r.Context(), api.CallerOf(r), r.PathValue("name"), in)
	if err != nil {
		return err
	}

	return api.Encode(w, http.StatusAccepted, status)
}

func (s *Service) postRollback(w http.ResponseWriter, r *http.Request) error {
	in, err := api.DecodeOptional[bodies.RollbackRequest](w, r)
	if err != nil {
		return err
	}

	status, err := s.Rollback(r.Context(), api.CallerOf(r), r.PathValue("name"), in)
	if err != nil {
		return err
	}

	return api.Encode(w, http.StatusAccepted, status)
}

// defaultTail is the number of log lines without a parameter.
const defaultTail = 200

func (s *Service) getLogs(r *http.Request) (bodies.Log, error) {
	tail := defaultTail
	if text := r.URL.Query().Get("tail"); text != "" {
		var err error
		if tail, err = strconv.Atoi(text); err != nil {
			return bodies.Log{}, wire.InvalidRequest.New("tail must be a number.")
		}
	}

	lines, err := s.Logs(r.Context(), api.CallerOf(r), r.PathValue("name"), tail)
	return bodies.Log{Lines: append([]string{}, lines...)}, err
}
