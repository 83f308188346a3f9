package hub

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

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

func (h *Hub) auditRoutes() []api.Route {
	log := auditlog.Handlers{
		Store:  h.audit,
		Tenant: func(r *http.Request) string { return api.CallerOf(r).TenantID },
		Fail:   failAudit,
		Logger: h.cfg.Logger,
	}
	read := func(path string, serve http.HandlerFunc) api.Route {
		return api.Route{Method: http.MethodGet, Path: path, Group: rbac.AdminOnly, Handle: func(w http.ResponseWriter, r *http.Request) error {
			serve(w, r)
			return nil
		}}
	}
	return []api.Route{
		read("/api/v1/admin/audit-logs", log.Query),
		read("/api/v1/admin/audit-logs/export", log.Export),
		read("/api/v1/admin/audit-logs/verify", oneAtATime(log.Verify)),
	}
}

// oneAtATime serializes concurrent requests, because a verification reads the whole log.
func oneAtATime(serve http.HandlerFunc) http.HandlerFunc {
	turn := make(chan struct{}, 1)
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
			serve(w, r)
		case <-r.Context().Done():
			failAudit(w, r, r.Context().Err())
		}
	}
}

// failAudit responds to an invalid parameter with the message of the contract.
func failAudit(w http.ResponseWriter, r *http.Request, err error) {
	if param, ok := errors.AsType[*auditlog.ParamError](err); ok {
		e := api.InvalidRequest.New("The query parameter " + param.Param + " " + param.Want + ".")
		switch param.Param {
		case "page", "page_size":
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

// WriteAudit writes the audit log of a tenant as NDJSON, oldest first, each entry with its hash. Of
// a damaged log it writes what is left before it returns the error.
func (h *Hub) WriteAudit(ctx context.Context, w io.Writer, tenantID string) error {
	out := bufio.NewWriter(w)
	return errors.Join(h.writeAudit(ctx, out, tenantID), out.Flush())
}

func (h *Hub) writeAudit(ctx context.Context, w io.Writer, tenantID string) error {
	var line []byte
	for entry, err := range h.audit.Entries(ctx, tenantID, auditlog.Filter{}, nil) {
		if err != nil {
			return fmt.Errorf("read audit log: %w", err)
		}
		if line, err = entry.AppendNDJSON(line[:0]); err != nil {
			return err
		}
		if _, err := w.Write(line); err != nil {
			return fmt.Errorf("write audit log: %w", err)
		}
	}
	return nil
}
