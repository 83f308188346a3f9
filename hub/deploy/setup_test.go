package deploy_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/api/apitest"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/db/dbtest"
	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
	"github.com/seed93082962/agenthost/hub/secret"
	"github.com/seed93082962/agenthost/hub/store"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/agent"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// catalog is a source whose agents tests change.
type catalog struct {
	mu     sync.Mutex // guards agents
	agents map[[2]string]deploy.Spec
}

func (c *catalog) set(tenant, name string, spec deploy.Spec) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.agents[[2]string{tenant, name}] = spec
}

func (c *catalog) spec(_ context.Context, tenant, name string) (deploy.Spec, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	spec, ok := c.agents[[2]string{tenant, name}]
	if !ok {
		return spec, api.NotFound.New("There is no such agent.")
	}
	return spec, nil
}

func demo(prompt string) deploy.Spec {
	return deploy.Spec{Config: agent.Agent{Model: "demo", SystemPrompt: prompt, Provider: agent.Provider{Protocol: agent.ProtocolDemo, APIKey: "planted"}}}
}

// world is a platform with a database, on which hubs are started.
type world struct {
	t       *testing.T
	db      *db.DB
	keys    []string
	driver  *deploytest.Memory
	catalog *catalog
}

// hub is a service that is served.
type hub struct {
	*world
	*deploy.Service
	server *apitest.Server
	ada    *apitest.Client // a maintainer of the tenant default
}

func each(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		w := &world{
			t: t, db: dbtest.Open(t, url, deploy.Migrations, apitest.Audit()), keys: []string{secret.Generate()},
			driver: &deploytest.Memory{}, catalog: &catalog{agents: map[[2]string]deploy.Spec{}},
		}
		w.catalog.set("default", "helper", demo("first"))
		t.Cleanup(w.driver.Close)
		test(t, w)
	})
}

// store returns a store with the keys of the world.
func (w *world) store() *store.Store {
	w.t.Helper()
	return apitest.NewStore(w.t, w.db, store.Config{Keyring: apitest.Keyring(w.t, w.keys...)})
}

// start starts a hub, until the test ends.
func (w *world) start(change ...func(*deploy.Config)) *hub {
	w.t.Helper()
	ring, err := secret.Parse(w.keys...)
	require.NoError(w.t, err)
	audit := apitest.NewAudit(w.t, w.db)
	cfg := deploy.Config{
		DB: w.db, Keyring: ring, Audit: audit, Driver: w.driver, Source: w.catalog.spec, PublicURL: "https://hub.example.com",
		LeaseTime: 600 * time.Millisecond, Backoff: time.Millisecond, WatchEvery: 20 * time.Millisecond,
	}
	for _, f := range change {
		f(&cfg)
	}
	h := &hub{world: w}
	h.Service, err = deploy.New(cfg)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, h.Close()) })
	h.server = apitest.Serve(w.t, apitest.Config{Audit: audit}, h.Routes())
	h.ada = h.server.As("default", "ada", rbac.Maintainer)
	return h
}

const (
	path = "/api/v1/admin/agents/helper/deploy"
	key  = "default-helper"
)

// patience bounds the time until a state is reached.
const patience = 20 * time.Second

// reach waits until a deployment has the state, and returns its status.
func (h *hub) reach(state string) apitest.Object {
	h.t.Helper()
	return h.until(func(s apitest.Object) bool { return s["state"] == state })
}

func (h *hub) until(ok func(apitest.Object) bool) (s apitest.Object) {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		s = h.ada.Get(path).Want(http.StatusOK)
		return ok(s)
	}, patience, 2*time.Millisecond)
	return s
}

// owner returns the owner of the deployments on the platform.
func (w *world) owner() (owner string) {
	w.t.Helper()
	require.NoError(w.t, w.db.Read().QueryRowContext(w.t.Context(), "SELECT owner FROM deployment_fence").Scan(&owner))
	return owner
}
