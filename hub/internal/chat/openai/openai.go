// Package openai serves the agents of the hub with the protocol of OpenAI at /openai/v1: each
// deployed agent that the caller may use is a model. See package runtime/protocol/openai.
//
//	service, err := openai.New(openai.Config{Chats: chats, Agents: manifest, Live: deployments.Live})
//	if err != nil { ... }
//	defer service.Close()
//	handler, err := api.New(config, service.Routes()...)
//
// A request is a message of a chat with the source api, and has its limits, budgets, labels and
// checks of access. The chat is stored unless the request has store: false.
package openai

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/chat"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/rbac"
	protocol "github.com/seed93082962/agenthost/runtime/protocol/openai"
)

const (
	prefix  = "/openai/v1"
	maxText = 4 << 20 // of a body without its images and files
	maxBody = maxText + runvalue.MaxContentBytes/3*4
)

// Config configures [New].
type Config struct {
	// Chats are those of the hub. Required.
	Chats *chat.Service

	// Agents returns the agents that a caller may use. Required.
	Agents func(ctx context.Context, caller api.Caller) (wire.Manifest, error)

	// Live returns the names of the agents of a tenant whose deployments are running. Required.
	Live func(ctx context.Context, tenantID string) ([]string, error)

	// Admit is that of [chat.Config].
	Admit func(context.Context, api.Caller, rbac.Group) (context.Context, func())
}

// Service serves the protocol. It is safe for concurrent use.
type Service struct {
	cfg Config

	mu      sync.Mutex // guards the fields below
	closed  bool
	tenants map[string]handler
}

// handler is that of package protocol. Each tenant has its own, and so its own share of background
// responses and connections.
type handler interface {
	http.Handler
	io.Closer
	Fail(w http.ResponseWriter, r *http.Request, err error)
}

// New returns a Service. The caller must call Close.
func New(cfg Config) (*Service, error) {
	if cfg.Chats == nil || cfg.Agents == nil || cfg.Live == nil {
		return nil, errors.New("create openai service: Chats, Agents and Live are required")
	}

	if cfg.Admit == nil {
		cfg.Admit = func(ctx context.Context, _ api.Caller, _ rbac.Group) (context.Context, func()) { return ctx, func() {} }
	}

	return &Service{cfg: cfg, tenants: map[string]handler{}}, nil
}

// Close cancels background responses, and closes connections.
func (s *Service) Close() error {
	s.mu.Lock()
	s.closed = true
	all := s.tenants
	s.tenants = map[string]handler{}
	s.mu.Unlock()
	var errs []error
	for _, h := range all {
		errs = append(errs, h.Close())
	}

	return errors.Join(errs...)
}

// of returns the handler of a tenant.
func (s *Service) of(tenantID string) (handler, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, ok := s.tenants[tenantID]; ok {
		return h, nil
	}

	if s.closed {
		return nil, wire.Unavailable
	}

	h := protocol.New(protocol.Config{
		Host: &host{s, s.cfg.Chats.Reserve(tenantID)}, Retains: true, MaxBytes: maxText,
	}).(handler)
	s.tenants[tenantID] = h
	return h, nil
}

// Routes returns the route of the protocol.
func (s *Service) Routes() []api.Route {
	return []api.Route{{Prefix: true, Path: prefix, Access: api.SignedIn, Category: "agent", BodyLimit: maxBody, Handle: s.serve, Fail: s.fail}}
}

func (s *Service) serve(w http.ResponseWriter, r *http.Request) error {
	h, err := s.of(api.CallerOf(r).TenantID)
	if err != nil {
		return err
	}

	if r.Method == http.MethodPost && !strings.HasSuffix(r.URL.Path, "/cancel") {
		if err := api.TakeRate(w, r); err != nil {
			return err
		}

		r = r.WithContext(context.WithValue(r.Context(), ratedKey{}, true))
	}

	http.StripPrefix(prefix, h).ServeHTTP(w, r)
	return nil
}

// ratedKey is the key of the context of a request that counts for the rates. The messages of a
// connection count when they begin a run.
type ratedKey struct{}

func (s *Service) fail(w http.ResponseWriter, r *http.Request, e *wire.Error) {
	h, err := s.of(api.CallerOf(r).TenantID)
	if err != nil { // the hub is closing
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}

	h.Fail(w, r, &rejection{e})
}
