package provider_test

import (
	"context"
	"database/sql"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/provider"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/rbac"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

const (
	admin  = "/api/v1/admin/providers"
	public = "/api/v1/providers"

	plantedKey = "sk-planted-0123456789abcdefghijklmnopqrstuvwxyz"
)

type object = apitest.Object

// server is a service with its routes, and the tenants acme and beta.
type server struct {
	*apitest.Server
	t       *testing.T
	service *provider.Service
	db      *db.DB
	store   *store.Store
	cfg     provider.Config
	log     *logtest.Buffer // of the service

	acme, beta *apitest.Client // maintainers

	mu    sync.Mutex // guards users
	users map[string][]string
}

func each(t *testing.T, test func(t *testing.T, s *server)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) { test(t, open(t, url, nil)) }, series...)
}

func onSQLite(t *testing.T, change func(*provider.Config)) *server {
	t.Helper()
	t.Parallel()
	return open(t, dbtest.SQLite(t, series...), change)
}

var series = []db.Series{provider.Migrations, apitest.Audit()}

func open(t *testing.T, url string, change func(*provider.Config)) *server {
	t.Helper()
	d := dbtest.Open(t, url, series...)
	s := &server{t: t, db: d, log: &logtest.Buffer{}, users: map[string][]string{}}
	s.store = s.with()
	s.cfg = provider.Config{Store: s.store, InUse: s.inUse, ProbePrivate: true}
	if change != nil {
		change(&s.cfg)
	}
	s.service = s.start(s.cfg)
	s.Server = apitest.Serve(t, apitest.Config{Audit: s.store.Audit}, s.service.Routes())
	s.acme, s.beta = s.As("acme", "ada", rbac.Maintainer), s.As("beta", "bob", rbac.Maintainer)
	return s
}

// with returns a store with other keys.
func (s *server) with(keys ...string) *store.Store {
	cfg := store.Config{Logger: slog.New(slog.NewJSONHandler(s.log, nil)), Now: func() time.Time {
		return time.Date(2026, 3, 1, 13, 0, 0, 123456789, time.FixedZone("CET", 3600))
	}}
	if keys != nil {
		cfg.Keyring = apitest.Keyring(s.t, keys...)
	}
	return apitest.NewStore(s.t, s.db, cfg)
}

func (s *server) start(cfg provider.Config) *provider.Service {
	service, err := provider.New(cfg)
	require.NoError(s.t, err)
	return service
}

func (s *server) inUse(_ context.Context, _ *sql.Tx, tenantID, id string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.users[tenantID+"/"+id]), nil
}

// gateway is the body of a provider of which the test changes some fields.
func gateway(change object) object {
	body := object{"name": "Gateway", "protocol": "openai", "baseUrl": "https://llm.example.com/v1", "apiKey": plantedKey}
	maps.Copy(body, change)
	return body
}

// create creates a provider and returns its id.
func create(c *apitest.Client, body object) string {
	return c.Post(admin, body).Want(201)["id"].(string)
}

func names(items []object) []string {
	var all []string
	for _, item := range items {
		all = append(all, item["name"].(string))
	}
	return all
}
