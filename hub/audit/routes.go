package audit

import (
	"errors"
	"net/http"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

// The messages of the contract for invalid parameters of the query.
const (
	badPaging   = "无效的分页参数"
	badTimes    = "无效的时间范围"
	badSnapshot = "无效的快照参数"
)

type handler = func(http.ResponseWriter, *http.Request) error

// Routes returns the routes of the log.
func (s *Service) Routes() []api.Route {
	log := auditlog.Handlers{
		Store:  s.log,
		Tenant: func(r *http.Request) string { return api.CallerOf(r).TenantID },
		Fail:   fail,
		Logger: s.store.Logger,
	}
	read := func(path string, handle handler) api.Route {
		return api.Route{Method: http.MethodGet, Path: path, Group: rbac.AdminOnly, Large: true, Handle: handle}
	}
	withErrors := func(serve http.HandlerFunc) handler { // it calls fail
		return func(w http.ResponseWriter, r *http.Request) error {
			serve(w, r)
			return nil
		}
	}
	return []api.Route{
		read("/api/v1/admin/audit-logs", withErrors(log.Query)),
		read("/api/v1/admin/audit-logs/export", withErrors(log.Export)),
		read("/api/v1/admin/audit-logs/verify", oneAtATime(log.Verify)),
	}
}

// maxVerifications is the number of verifications that run or wait. Further ones are rejected.
const maxVerifications = 5

// oneAtATime serializes concurrent requests, because a verification reads the whole log.
func oneAtATime(serve http.HandlerFunc) handler {
	admitted := make(chan struct{}, maxVerifications)
	turn := make(chan struct{}, 1)
	return func(w http.ResponseWriter, r *http.Request) error {
		select {
		case admitted <- struct{}{}:
			defer func() { <-admitted }()
		default:
			return &api.Error{
				Code: api.RateLimited, RetryAfter: 10 * time.Second,
				Message: "Other verifications of audit logs are running: try again later.",
			}
		}
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
			serve(w, r)
			return nil
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
}

// fail responds to an invalid parameter with the message of the contract.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	if param, ok := errors.AsType[*auditlog.ParamError](err); ok {
		e := api.InvalidRequest.New("The query parameter " + param.Param + " " + param.Want + ".")
		switch param.Param {
		case "page", "page_size", "cursor":
			e.Message = badPaging
		case "from", "to":
			e.Message = badTimes
		case "snapshotId":
			e.Message = badSnapshot
		}
		e.Data = map[string]any{"fields": map[string]string{param.Param: param.Want}}
		err = e
	}
	api.Fail(w, r, err)
}
