// Package catalog manages the agents of each tenant and what they use: tools, skills, MCP servers,
// knowledge and scenes. It serves them to administrators, and the enabled ones to clients, with a
// manifest that clients can cache.
//
//	service, err := catalog.New(catalog.Config{
//		DB: database, Keyring: keyring, Audit: audit, Providers: providers,
//	})
//	if err != nil { ... }
//	handler, err := api.New(api.Config{Authenticate: ...}, service.Routes()...)
//
// Every row belongs to a tenant, and names are unique in it. Each tenant has a version, which every
// change increments in its own transaction, before anything else. Changes of one tenant are
// therefore serialized, and two equal versions have equal content.
//
// A tenant has at most 10,000 agents and components, and 32 MiB of agents. A change without a
// difference writes nothing.
//
// Uploads are not trusted. A form has at most 32 parts, a tool 5 MiB, a skill 20 MiB, and an
// imported configuration 1 MiB. The packages archive and runtime/agent bound the time and the memory
// to parse them. The source of a tool is not parsed here: Config.CheckTool loads it in a process of
// its own. Tenants take turns with the checks of their uploads.
package catalog

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/artifact"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/provider"
	"github.com/seed93082962/agenthost/hub/secret"
	"github.com/seed93082962/agenthost/rbac"
)

//go:embed migrations
var files embed.FS

// Migrations create the tables that New requires.
var Migrations = db.Embedded("catalog", files)

// Audit records a change in its transaction.
type Audit interface {
	AppendTx(ctx context.Context, tx *sql.Tx, records ...auditlog.Record) error
}

// Config configures [New].
type Config struct {
	// DB is a database with Migrations and those of Audit applied. Required.
	DB *db.DB

	// Keyring seals the environment and the headers of MCP servers. Required.
	Keyring *secret.Keyring

	// Audit receives a record of each change, in the transaction of the change. If it fails, the
	// change fails. Required.
	Audit Audit

	// Providers are the model providers, on the same database. Required.
	Providers *provider.Service

	// Artifacts has the files of tools and skills. Required.
	Artifacts *artifact.Store

	// CheckTool loads the file of a custom tool in a process that the file may end, and returns the
	// name that the file has for the tool. The name is not trusted. An error that is not an
	// api.ArtifactInvalid means that the file could not be checked. The check ends with ctx.
	// Defaults to none: uploads of tools respond with 503.
	CheckTool func(ctx context.Context, fileName, source string) (name string, err error)

	// TempDir is the directory of the contents of an uploaded skill while it is checked. Defaults
	// to os.TempDir().
	TempDir string

	// Deployed reports whether a deployment of the agent exists, which prevents its deletion.
	// Defaults to none.
	Deployed func(ctx context.Context, tx *sql.Tx, tenantID, agentName string) (bool, error)

	// Now is the clock. Defaults to time.Now.
	Now func() time.Time

	// Logger receives errors of background work. Defaults to none.
	Logger *slog.Logger
}

// Service is the catalog of the hub. It is safe for concurrent use.
type Service struct {
	cfg       Config
	db        *db.DB
	snapshots *snapshots
	slots     slots // for checks of uploads
}

// New returns a Service on a migrated database.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Keyring == nil || cfg.Audit == nil || cfg.Providers == nil || cfg.Artifacts == nil {
		return nil, errors.New("make catalog: DB, Keyring, Audit, Providers and Artifacts are required")
	}
	if cfg.Deployed == nil {
		cfg.Deployed = func(context.Context, *sql.Tx, string, string) (bool, error) { return false, nil }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Service{cfg: cfg, db: cfg.DB, snapshots: newSnapshots()}, nil
}

// Routes returns all routes of this package.
func (s *Service) Routes() []api.Route {
	return slices.Concat(s.agentRoutes(), s.toolRoutes(), s.skillRoutes(), s.sceneRoutes(), s.mcpRoutes(), s.knowledgeRoutes())
}

// now returns the current time in microseconds, as it is stored.
func (s *Service) now() time.Time { return s.cfg.Now().UTC().Truncate(time.Microsecond) }

// Limits of a tenant.
const (
	maxComponents = 10_000   // agents, tools, skills, scenes, MCP servers and knowledge sets together
	maxAgentBytes = 32 << 20 // of all agents with their bindings, which a snapshot holds in memory
)

// errUnchanged is returned by a function in a change that has changed nothing.
var errUnchanged = errors.New("nothing has changed")

// change authorizes the caller and runs do in a transaction that holds the lock of the tenant: no
// other change of the catalog runs until it ends. do may run again. If it returns errUnchanged, the
// transaction is rolled back, and change returns nil.
func (s *Service) change(ctx context.Context, caller api.Caller, group rbac.Group, do func(*sql.Tx) error) error {
	if err := group.Check(caller); err != nil {
		return err
	}
	err := s.db.Tx(ctx, func(tx *sql.Tx) error {
		if err := lockHead(ctx, tx, caller.TenantID); err != nil {
			return err
		}
		return do(tx)
	})
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// checkRoom returns api.Conflict if the locked tenant cannot have another component.
func checkRoom(ctx context.Context, tx *sql.Tx, tenantID string) error {
	n, err := countComponents(ctx, tx, tenantID)
	if err == nil && n >= maxComponents {
		err = api.Conflict.New(fmt.Sprintf("The organization has %d agents, tools, skills, scenes, MCP servers and knowledge sets, "+
			"which is the limit: delete some of them first.", n))
	}
	return err
}

// checkBytes returns api.Conflict if the agents of the locked tenant have become too large by a
// change of an agent that has grown to size bytes.
func checkBytes(ctx context.Context, tx *sql.Tx, tenantID string, before, size int) error {
	if size <= before {
		return nil
	}
	total, err := agentBytes(ctx, tx, tenantID)
	if err == nil && total > maxAgentBytes {
		err = api.Conflict.New(fmt.Sprintf("The agents of the organization would have %d bytes of prompts, texts and bindings, "+
			"and the limit is %d: shorten some of them first.", total, maxAgentBytes))
	}
	return err
}

// record appends audit entries in the transaction of their change.
func (s *Service) record(ctx context.Context, tx *sql.Tx, records ...auditlog.Record) error {
	return db.Wrap("record", s.cfg.Audit.AppendTx(ctx, tx, records...))
}
