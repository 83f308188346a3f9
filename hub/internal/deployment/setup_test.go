package deployment_test

import (
	"bytes"
	"context"
	"errors"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/artifact"
	"github.com/seed93082962/agenthost/hub/internal/catalog"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/hub/internal/provider"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/secret"
	"github.com/seed93082962/agenthost/rbac"
)

func TestMain(m *testing.M) {
	if err := dbtest.Parallel(4); err != nil { // most of a test is waiting for a pause of the product
		panic(err)
	}
	dbtest.Main(m)
}

// world is a platform with a database and a catalog, on which hubs are started.
type world struct {
	t       testing.TB
	db      *db.DB
	keys    []string
	driver  *deploytest.Memory
	catalog *catalog.Service
	console *apitest.Server // of the catalog
	spans   tracetest.InMemoryExporter
}

const providerKey = "sk-planted-0123456789"

// agents returns a client of the agents of a tenant.
func (w *world) agents(tenant string) *apitest.Client {
	return w.console.As(tenant, "ada", rbac.Maintainer)
}

// agent creates an agent whose provider has the key providerKey.
func (w *world) agent(tenant, name string) {
	w.t.Helper()
	c := w.agents(tenant)
	made := c.Post("/api/v1/admin/providers", apitest.Object{
		"name": name, "protocol": "openai", "baseUrl": "https://llm.example.com", "apiKey": providerKey,
	}).Want(http.StatusCreated)
	c.Post("/api/v1/admin/agents", apitest.Object{"name": name, "providerId": made["id"], "model": "demo", "systemPrompt": "first"}).Want(http.StatusCreated)
}

// skill stores a skill of the tenant default.
func (w *world) skill(method, name, description string) {
	w.t.Helper()
	w.upload(method, "/api/v1/admin/skills", "SKILL.md", "---\nname: "+name+"\ndescription: "+description+"\n---\n")
}

// upload sends a file for the tenant default.
func (w *world) upload(method, path, name, text string) apitest.Object {
	w.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", name)
	require.NoError(w.t, err)
	_, err = part.Write([]byte(text))
	require.NoError(w.t, errors.Join(err, form.Close()))
	status := http.StatusOK
	if method == http.MethodPost {
		status = http.StatusCreated
	}
	return w.agents("default").Do(method, path, &body, "Content-Type", form.FormDataContentType()).Want(status)
}

// hub is a service that is served.
type hub struct {
	*world
	*deployment.Service
	server *apitest.Server
	member *store.Store
	ada    *apitest.Client // a maintainer of the tenant default
}

func each(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) { test(t, newWorld(t, url)) }, series...)
}

var series = []db.Series{apitest.Audit(), store.Migrations, provider.Migrations, catalog.Migrations, deployment.Migrations}

func newWorld(t *testing.T, url string) *world {
	t.Helper()
	d := dbtest.Open(t, url, series...)
	w := &world{t: t, db: d, keys: []string{secret.Generate()}, driver: &deploytest.Memory{}}
	w.openCatalog()
	w.agent("default", "helper")
	t.Cleanup(w.driver.Close)
	return w
}

func (w *world) openCatalog() {
	w.t.Helper()
	all := w.store()
	providers, err := provider.New(provider.Config{Store: all})
	require.NoError(w.t, err)
	artifacts, err := artifact.New(artifact.Config{Driver: &blob.Memory{}, Keyring: all.Keyring, PublicURL: "https://hub.example.com", TempDir: w.t.TempDir()})
	require.NoError(w.t, err)
	w.catalog, err = catalog.New(catalog.Config{
		Store: all, Providers: providers, Artifacts: artifacts, TempDir: w.t.TempDir(),
		CheckTool: func(_ context.Context, fileName, _ string) (string, error) {
			return strings.TrimSuffix(fileName, ".ts"), nil
		},
	})
	require.NoError(w.t, err)
	w.console = apitest.Serve(w.t, apitest.Config{Audit: all.Audit}, slices.Concat(providers.Routes(), w.catalog.Routes()))
}

// store returns a store with the keys of the world.
func (w *world) store(change ...func(*store.Config)) *store.Store {
	w.t.Helper()
	cfg := store.Config{Keyring: apitest.Keyring(w.t, w.keys...), LeaseTime: lease}
	for _, f := range change {
		f(&cfg)
	}
	return apitest.NewStore(w.t, w.db, cfg)
}

// lease is the time after which another hub takes a deployment.
const lease = 600 * time.Millisecond

// forever makes hubs remain that are silent.
func forever(c *store.Config) { c.LeaseTime = time.Hour }

// Close ends the hub.
func (h *hub) Close() error {
	err := h.Service.Close()
	h.member.Leave()
	return err
}

// start starts a hub, until the test ends.
func (w *world) start(change ...func(*deployment.Config)) *hub {
	w.t.Helper()
	cfg := deployment.Config{
		Store: w.store(), Catalog: w.catalog, Driver: w.driver, PublicURL: "https://hub.example.com",
		Backoff: time.Millisecond, WatchEvery: 50 * time.Millisecond,
	}
	for _, f := range change {
		f(&cfg)
	}
	h := &hub{world: w, member: cfg.Store}
	apitest.Join(w.t, cfg.Store)
	var err error
	h.Service, err = deployment.New(w.t.Context(), cfg)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, h.Close()) })
	h.server = apitest.Serve(w.t, apitest.Config{Audit: cfg.Store.Audit}, h.Routes())
	h.ada = h.server.As("default", "ada", rbac.Maintainer)
	return h
}

// audit returns the entries of deployments of the tenant default.
func (h *hub) audit() []string {
	return slices.DeleteFunc(h.server.Audit("default"), func(entry string) bool {
		action, _, _ := strings.Cut(entry, " ")
		return !slices.Contains([]string{"agent.deploy", "agent.stop", "agent.start", "agent.undeploy", "agent.rollback", "agent.rotate_key"}, action)
	})
}

const (
	path = "/api/v1/admin/agents/helper/deploy"
	key  = "default-helper"
)

// patience bounds the time until a state is reached, which is read again after each pause.
const (
	patience = time.Minute
	pause    = 20 * time.Millisecond
)

// reach waits until a deployment has the state, and returns its status.
func (h *hub) reach(state string) apitest.Object {
	h.t.Helper()
	return h.until(func(s apitest.Object) bool { return s["state"] == state })
}

// serves waits until a revision serves.
func (h *hub) serves(revision int) apitest.Object {
	h.t.Helper()
	return h.until(func(s apitest.Object) bool { return s["servingRevision"] == float64(revision) })
}

// condition returns a condition of a status, or nil.
func condition(s apitest.Object, kind string) apitest.Object {
	for _, c := range s["conditions"].([]any) {
		if c.(apitest.Object)["type"] == kind {
			return c.(apitest.Object)
		}
	}
	return nil
}

func (h *hub) until(ok func(apitest.Object) bool) (s apitest.Object) {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		s = h.ada.Get(path).Want(http.StatusOK)
		return ok(s)
	}, patience, pause, "%v", &s)
	return s
}

// owner returns the owner of the deployments on the platform.
func (w *world) owner() (owner string) {
	w.t.Helper()
	require.NoError(w.t, w.db.Read().QueryRowContext(w.t.Context(), "SELECT owner FROM deployment_owner").Scan(&owner))
	return owner
}
