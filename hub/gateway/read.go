package gateway

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/rbac"
)

const (
	// patience bounds the time until the headers of a detail or a file.
	patience = 30 * time.Second

	// maxPath bounds the bytes of a path in the audit log.
	maxPath = 1024
)

// readFileDetail is the detail of a read file.
type readFileDetail struct {
	Path string `json:"path"` // relative to the working directory of the runtime
}

var actionReadFile = auditlog.Define[readFileDetail]("agent.read_file")

// Detail returns the runtime with the detail of an agent, which every role may read.
func (s *Service) Detail(ctx context.Context, caller api.Caller, agent string) (Target, error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return Target{}, err
	}
	return s.cfg.Target(ctx, caller.TenantID, agent)
}

// Files returns the runtime whose files the caller may list.
func (s *Service) Files(ctx context.Context, caller api.Caller, agent string) (Target, error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return Target{}, err
	}
	return s.cfg.Target(ctx, caller.TenantID, agent)
}

// File returns the runtime whose file the caller may read, and records the read.
func (s *Service) File(ctx context.Context, caller api.Caller, agent, path string) (Target, error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return Target{}, err
	}
	target, err := s.cfg.Target(ctx, caller.TenantID, agent)
	if err != nil {
		return Target{}, err
	}
	event := caller.Event()
	event.TargetType, event.TargetID, event.TargetName = "agent", agent, agent
	detail := readFileDetail{api.Plain(strings.ToValidUTF8(excerpt.Head(path, maxPath), ""))}
	return target, s.cfg.Audit.Append(ctx, actionReadFile.Record(event, detail))
}

// checkRead rejects responses that a runtime does not send for its own API key.
func checkRead(res *http.Response) error {
	if code := res.StatusCode; code == http.StatusUnauthorized || code == http.StatusForbidden || code >= http.StatusInternalServerError {
		return errors.New("the runtime responded with status " + res.Status)
	}
	return nil
}
