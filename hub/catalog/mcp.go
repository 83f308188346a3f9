package catalog

import (
	"context"
	"reflect"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/store"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Masked replaces the values of environments and headers in responses. In a request, it means
// the stored value.
const Masked = "***"

// MCP is a server of the Model Context Protocol, by the rules of [agent.MCPServer]. The values of
// Env and Headers are Masked.
type MCP struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Transport   string            `json:"transport"`
	Command     string            `json:"command,omitempty"`
	Args        []string          `json:"args,omitempty"`
	Env         map[string]string `json:"env,omitempty"`
	CWD         string            `json:"cwd,omitempty"`
	Sandbox     agent.Sandbox     `json:"sandbox,omitzero"`
	URL         string            `json:"url,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Enabled     bool              `json:"enabled"`
	Version     int64             `json:"version"`
	CreatedAt   api.Time          `json:"createdAt"`
	UpdatedAt   api.Time          `json:"updatedAt"`
}

// MCPInput is an MCP server. Without a title, the title is the name. It is enabled by default. CWD
// is relative to the working directory of the agent and defaults to a private empty directory.
// Sandbox adds to that of the agent.
type MCPInput struct {
	Name        string            `json:"name"` // of an existing server, "" or its name
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Transport   string            `json:"transport"`
	Command     string            `json:"command"`
	Args        []string          `json:"args"`
	Env         map[string]string `json:"env"`
	CWD         string            `json:"cwd"`
	Sandbox     agent.Sandbox     `json:"sandbox"`
	URL         string            `json:"url"`
	Headers     map[string]string `json:"headers"`
	Enabled     *bool             `json:"enabled"`
}

const (
	maxCommand = 4096
	maxPairs   = 100
	maxValue   = 32 << 10 // of an environment or a header
	maxValues  = 64 << 10 // of all arguments, environment and headers with their names
)

// validate returns the server with the values of the input, or the faults by field.
func (in MCPInput) validate(name string) (MCP, error) {
	fields := api.Fields{}
	v := MCP{
		Name:        componentName(fields, name, in.Name, checkServerName),
		Title:       fields.Line("title", in.Title, 0, maxTitle),
		Description: fields.Text("description", in.Description, 0, maxDescription),
		Transport:   in.Transport,
		Command:     fields.Line("command", in.Command, 0, maxCommand),
		Args:        checkArgs(fields, in.Args),
		Env:         checkPairs(fields, "env", in.Env),
		CWD:         fields.Line("cwd", in.CWD, 0, maxCommand),
		Sandbox:     checkSandbox(fields, in.Sandbox),
		URL:         fields.Line("url", in.URL, 0, maxCommand),
		Headers:     checkPairs(fields, "headers", in.Headers),
		Enabled:     in.Enabled == nil || *in.Enabled,
	}
	if v.Title == "" {
		v.Title = v.Name
	}
	checkServer(fields, "server", agent.MCPServer{
		Transport: v.Transport, Command: v.Command, Args: v.Args, Env: secrets(v.Env), CWD: v.CWD, Sandbox: v.Sandbox, URL: v.URL, Headers: secrets(v.Headers),
	}, "")
	return v, fields.Err()
}

var errNoMCP = api.NotFound.New("There is no such MCP server.")

// MCPs returns the MCP servers of the tenant by name.
func (s *Service) MCPs(ctx context.Context, caller api.Caller, page api.Page) (api.List[MCP], error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return api.List[MCP]{}, err
	}
	list, err := mcpsOf(ctx, s.store.Read(), caller.TenantID, page)
	for i := range list.Items {
		list.Items[i] = list.Items[i].masked()
	}
	return list, err
}

// MCP returns an MCP server, or api.NotFound.
func (s *Service) MCP(ctx context.Context, caller api.Caller, name string) (MCP, error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return MCP{}, err
	}
	v, err := mcpByName(ctx, s.store.Read(), caller.TenantID, name)
	return v.masked(), err
}

// CreateMCP creates an MCP server. It fails with api.NameTaken.
func (s *Service) CreateMCP(ctx context.Context, caller api.Caller, in MCPInput) (MCP, error) {
	plain, err := in.validate("")
	if err != nil {
		return MCP{}, err
	}
	var v MCP
	err = s.change(ctx, caller, func(tx *store.Tx) error {
		v = plain
		v.ID, v.Version, v.CreatedAt = ids.New(), 1, api.Time(tx.Now)
		v.UpdatedAt = v.CreatedAt
		if err := s.seal(caller.TenantID, &v, MCP{}); err != nil {
			return err
		}
		if err := checkRoom(ctx, tx); err != nil {
			return err
		}
		if err := insertMCP(ctx, tx, caller.TenantID, v); err != nil {
			return err
		}
		tx.Record(actionCreateMCP.Record(v.event(caller), v.detail()))
		return nil
	})
	return v.masked(), err
}

// UpdateMCP replaces an MCP server. It fails with api.NotFound and api.PreconditionFailed.
func (s *Service) UpdateMCP(ctx context.Context, caller api.Caller, name string, expected *int64, in MCPInput) (MCP, error) {
	plain, err := in.validate(name)
	if err != nil {
		return MCP{}, err
	}
	var v MCP
	err = s.change(ctx, caller, func(tx *store.Tx) error {
		before, err := mcpByName(ctx, tx, caller.TenantID, name)
		if err != nil {
			return err
		}
		if err := store.CheckVersion(expected, before.Version); err != nil {
			return err
		}
		v = plain
		v.ID = before.ID
		v.Version = before.Version
		v.CreatedAt = before.CreatedAt
		v.UpdatedAt = before.UpdatedAt
		if err := s.seal(caller.TenantID, &v, before); err != nil {
			return err
		}
		if reflect.DeepEqual(v, before) {
			return store.ErrUnchanged
		}
		v.Version, v.UpdatedAt = v.Version+1, api.Time(tx.Now)
		if err := updateMCP(ctx, tx, caller.TenantID, v); err != nil {
			return err
		}
		tx.Record(actionUpdateMCP.Record(v.event(caller), updatedMCP(before, v)))
		return nil
	})
	return v.masked(), err
}

// DeleteMCP deletes an MCP server. It fails with api.NotFound, and with api.InUse if agents use it.
func (s *Service) DeleteMCP(ctx context.Context, caller api.Caller, name string) error {
	return s.change(ctx, caller, func(tx *store.Tx) error {
		v, err := mcpByName(ctx, tx, caller.TenantID, name)
		if err != nil {
			return err
		}
		agents, err := agentsBound(ctx, tx, caller.TenantID, kindMCP, name)
		if err != nil {
			return err
		}
		if err := inUse(api.InUse, agents); err != nil {
			return err
		}
		if err := deleteMCP(ctx, tx, caller.TenantID, v.ID); err != nil {
			return err
		}
		tx.Record(actionDeleteMCP.Record(v.event(caller), v.detail()))
		return nil
	})
}

func (v MCP) event(caller api.Caller) auditlog.Event {
	return target(caller.Event(), targetMCP, v.ID, v.Name)
}

func (v MCP) detail() mcpDetail {
	return mcpDetail{v.Transport, v.Command, v.CWD, recorded(sandboxLines(v.Sandbox)), names(v.Env), names(v.Headers), v.Enabled}
}

// masked returns the server as clients see it.
func (v MCP) masked() MCP {
	v.Env, v.Headers = mask(v.Env), mask(v.Headers)
	return v
}

func mask(pairs map[string]string) map[string]string {
	masked := make(map[string]string, len(pairs))
	for name := range pairs {
		masked[name] = Masked
	}
	return masked
}
