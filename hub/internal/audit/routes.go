package audit

import (
	"errors"
	"net/http"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
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
		read("/api/v1/admin/audit-logs/verify", inTurn(log.Verify)),
	}
}

// inTurn serves two requests at a time, of different tenants, because a verification reads the
// whole log of a tenant.
func inTurn(serve http.HandlerFunc) handler {
	turns := api.NewTurns("verifications", 2, 3, 5)
	return func(w http.ResponseWriter, r *http.Request) error {
		return turns.Do(r.Context(), api.CallerOf(r), func() error {
			serve(w, r)
			return nil
		})
	}
}

// fail responds to an invalid parameter with the message of the contract.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	if param, ok := errors.AsType[*auditlog.ParamError](err); ok {
		e := wire.InvalidRequest.New("The query parameter " + param.Param + " " + param.Want + ".")
		switch param.Param {
		case "page", "page_size", "cursor":
			e.Message = badPaging
		case "from", "to":
			e.Message = badTimes
		case "snapshotId":
			e.Message = badSnapshot
		}

		e.Data = wire.ErrorData{Fields: map[string]string{param.Param: param.Want}}
		err = e
	}

	api.Fail(w, r, err)
}
