// Package catalog manages the agents of each tenant and what they use: tools, skills, MCP servers,
// knowledge and scenes. It serves them to administrators, and the enabled ones to clients, with a
// manifest that clients can cache.
//
//	service, err := catalog.New(catalog.Config{
//		Store: store, Providers: providers, Artifacts: artifacts,
//	})
//	if err != nil { ... }
//	handler, err := api.New(api.Config{Authenticate: ...}, service.Routes()...)
//
// Every row belongs to a tenant, and names are unique in it. Each tenant has a version, which every
// change increments in its own transaction, before anything else. Changes of one tenant are
// therefore serialized, and two equal versions have equal content.
//
// A tenant has at most 10,000 agents, components and providers, and 32 MiB of them. A change
// without a difference writes nothing.
//
// Uploads are not trusted. A form has at most 32 parts, a tool 5 MiB, a skill 20 MiB, and an
// imported configuration 1 MiB. The packages archive and runtime/agent bound the time and the
// memory to parse them. The source of a tool is not parsed here: Config.CheckTool parses it in a
// process of its own. Tenants take turns with the checks of their uploads.
package catalog

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"slices"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/artifact"
	"github.com/seed93082962/agenthost/hub/internal/provider"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/rbac"
)

//go:embed migrations
var files embed.FS

// Migrations create the tables that New requires.
var Migrations = db.Embedded("catalog", files)

// Config configures [New].
type Config struct {
	// Store has a database with Migrations applied. Required.
	Store *store.Store

	// Providers are the model providers, on the same database. Required.
	Providers *provider.Service

	// Artifacts has the files of tools and skills. Required.
	Artifacts *artifact.Store

	// CheckTool parses the file of a custom tool in a process that the file may end, without
	// running it, as runtime/tool/js.Config.NameOf does, and returns the name that the file has for
	// the tool. An error with the method FileFault() string describes a file that is not a tool, to
	// its author; any other means that the file could not be checked. The check ends with ctx.
	// Defaults to none: uploads of tools respond with 503.
	CheckTool func(ctx context.Context, fileName, source string) (name string, err error)

	// TempDir is the directory of the contents of an uploaded skill while it is checked. Defaults
	// to os.TempDir().
	TempDir string

	// Deployed reports whether a deployment of the agent exists, which prevents its deletion.
	// Defaults to none.
	Deployed func(ctx context.Context, tx *sql.Tx, tenantID, agentName string) (bool, error)

	// Deleted is called at the end of the transaction that deletes an agent, to delete what other
	// packages have for the name. Defaults to nothing.
	Deleted func(ctx context.Context, tx *store.Tx, agentName string) error

	// ApproversChanged is called in the transaction that changes who approves the calls of an agent.
	// Defaults to nothing.
	ApproversChanged func(ctx context.Context, tx *store.Tx, agentName, approvers string) error
}

// Service is the catalog of the hub. It is safe for concurrent use.
type Service struct {
	cfg       Config
	store     *store.Store
	snapshots *snapshots
	checks    *api.Turns // of uploads, which take up to a few seconds of a processor each

	Tools     *Components[wire.Tool, wire.ToolUpdate]
	Skills    *Components[wire.Skill, wire.SkillUpdate]
	MCPs      *Components[MCP, MCPInput]
	Knowledge *Components[wire.Knowledge, wire.KnowledgeRequest]
	Scenes    *Components[wire.Scene, wire.SceneRequest]
}

// New returns a Service on a migrated database.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Providers == nil || cfg.Artifacts == nil {
		return nil, errors.New("make catalog: Store, Providers and Artifacts are required")
	}

	if cfg.Deployed == nil {
		cfg.Deployed = func(context.Context, *sql.Tx, string, string) (bool, error) { return false, nil }
	}

	if cfg.ApproversChanged == nil {
		cfg.ApproversChanged = func(context.Context, *store.Tx, string, string) error { return nil }
	}

	if cfg.Deleted == nil {
		cfg.Deleted = func(context.Context, *store.Tx, string) error { return nil }
	}

	s := &Service{cfg: cfg, store: cfg.Store, snapshots: newSnapshots(), checks: api.NewTurns("uploads", 2, 9, 33)}
	s.Tools = s.tools()
	s.Skills = s.skills()
	s.MCPs = s.mcps()
	s.Knowledge = s.knowledge()
	s.Scenes = s.scenes()
	return s, nil
}

// Routes returns all routes of this package.
func (s *Service) Routes() []api.Route {
	return slices.Concat(s.agentRoutes(), s.toolRoutes(), s.skillRoutes(), s.sceneRoutes(), s.MCPs.routes(), s.Knowledge.routes())
}

// The quota of a tenant, for agents with their bindings, components and providers together. A
// snapshot has all agents in memory.
const (
	maxRows  = 10_000
	maxBytes = 32 << 20
)

// change makes a change of the caller, who may write, with the lock of the tenant: no other change
// of the catalog runs until it ends.
func (s *Service) change(ctx context.Context, caller api.Caller, do func(*store.Tx) error) error {
	return s.store.Change(ctx, store.Change{Caller: caller, Group: rbac.AdminWrite, Lock: lockHead}, do)
}

// CheckRoom returns wire.Conflict if a tenant has more rows or bytes than its quota. A transaction
// that adds a row or makes one larger calls it afterwards.
func (s *Service) CheckRoom(ctx context.Context, tx *sql.Tx, tenantID string) error {
	used, err := s.room(ctx, tx, tenantID)
	switch {
	case err != nil:
		return err
	case used.Rows > maxRows:
		return wire.Conflict.New(fmt.Sprintf("The organization has %d agents, tools, skills, scenes, MCP servers, knowledge sets and providers, "+
			"which is the limit: delete some of them first.", maxRows))
	case used.Bytes > maxBytes:
		return wire.Conflict.New(fmt.Sprintf("The agents, components and providers of the organization would have %d bytes, "+
			"and the limit is %d: shorten or delete some of them first.", used.Bytes, maxBytes))
	}

	return nil
}
