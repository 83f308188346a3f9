package chat

import (
	"context"
	"embed"
	"errors"

	"github.com/seed93082962/agenthost/hub/internal/aigc"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/rbac"
)

//go:embed migrations
var files embed.FS

// Migrations create the tables that New requires.
var Migrations = db.Embedded("chat", files)

// Catalog has the agents. *catalog.Service implements it.
type Catalog interface {
	// AgentEnabled fails with wire.NotFound if the caller has no access to such an agent.
	AgentEnabled(ctx context.Context, caller api.Caller, name string) (enabled bool, err error)
}

// Labels labels answers. *aigc.Service implements it.
type Labels interface {
	// Label returns the labels of a new answer, or nil for none.
	Label(ctx context.Context, tenantID string) (*aigc.Marker, error)
}

// Config configures [New].
type Config struct {
	// Store has a database with Migrations applied. Required.
	Store *store.Store

	// Catalog has the agents. Required.
	Catalog Catalog

	// Deployments are those of the agents. Required.
	Deployments relay.Deployments

	// Labels labels the answers. Defaults to none.
	Labels Labels

	// Owner returns the owner of a chat as a caller. It fails with the code for which a user who may
	// not sign in is rejected. Defaults to one with the id.
	Owner func(ctx context.Context, q db.Querier, tenantID, userID string) (api.Caller, error)

	// Admit begins work of a caller that outlives its request, see [api.Config]. Defaults to the same
	// context.
	Admit func(context.Context, api.Caller, rbac.Group) (context.Context, func())

	// Relay has the limits of answers in progress. New sets Store and Deployments.
	Relay relay.Config
}

// Service has the chats of the hub. It is safe for concurrent use.
type Service struct {
	cfg     Config
	store   *store.Store
	relay   *relay.Relay
	begins  *db.Group[*exchange]
	quotas  quotas
	readers readers

	follower *follower
}

// New returns a Service. The caller must call Close.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Catalog == nil || cfg.Deployments == nil {
		return nil, errors.New("create chat service: Store, Catalog and Deployments are required")
	}

	if cfg.Admit == nil {
		cfg.Admit = func(ctx context.Context, _ api.Caller, _ rbac.Group) (context.Context, func()) { return ctx, func() {} }
	}

	if cfg.Owner == nil {
		cfg.Owner = func(_ context.Context, _ db.Querier, tenantID, userID string) (api.Caller, error) {
			return api.Caller{TenantID: tenantID, UserID: userID}, nil
		}
	}

	s := &Service{
		cfg: cfg, store: cfg.Store,
		quotas: quotas{byUser: map[[2]string]storedQuota{}}, readers: readers{byUser: map[string]int{}},
	}
	s.follower = newFollower(s)
	cfg.Relay.Store, cfg.Relay.Deployments, cfg.Relay.Saved = cfg.Store, cfg.Deployments, s.quotas.saved
	var err error
	if s.relay, err = relay.New(cfg.Relay); err != nil {
		return nil, err
	}

	s.begins = db.NewGroup(cfg.Store.DB, s.beginTogether)
	return s, nil
}

// Drain waits until no answer is in progress. The streams of answers of other hubs end, so that
// their readers continue there.
func (s *Service) Drain(ctx context.Context) error { return s.relay.Drain(ctx) }

// Reject rejects further messages, for example while the hub drains.
func (s *Service) Reject() { s.relay.Reject() }

// Shutdown cancels the answers in progress with the reason shutdown, and waits until they are
// stored or ctx ends. Further messages are rejected.
func (s *Service) Shutdown(ctx context.Context) { s.relay.Shutdown(ctx) }

// Close cancels the answers in progress, waits until they are stored, and ends the background work.
func (s *Service) Close() error {
	s.follower.close()
	err := s.relay.Close()
	s.follower.loop.Wait()
	return err
}

// enabledAgent fails with wire.NotFound unless the caller has access to the agent and it is
// enabled.
func (s *Service) enabledAgent(ctx context.Context, caller api.Caller, name string) error {
	enabled, err := s.cfg.Catalog.AgentEnabled(ctx, caller, name)
	if err == nil && !enabled {
		return wire.NotFound.New("There is no such agent.")
	}

	return err
}
