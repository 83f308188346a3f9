package catalog_test

import (
	"context"
	"database/sql"
	"maps"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/artifact"
	"github.com/seed93082962/agenthost/hub/internal/catalog"
	"github.com/seed93082962/agenthost/hub/internal/provider"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/tool/js"
	"github.com/seed93082962/agenthost/runtime/tool/js/worker"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == js.WorkerArg { // this program checks tools
		_ = worker.Run(os.Stdin, os.Stdout) // the check reports the error
		return
	}
	dbtest.Main(m)
}

// checkTool checks a tool with time for a busy machine.
func checkTool(ctx context.Context, fileName, source string) (string, error) {
	return checkToolWithin(ctx, 2*time.Minute, fileName, source)
}

func checkToolWithin(ctx context.Context, limit time.Duration, fileName, source string) (string, error) {
	name, err := js.Config{LoadTime: limit}.NameOf(ctx, fileName, source)
	return name, err
}

const (
	agents    = "/api/v1/admin/agents"
	scenes    = "/api/v1/admin/scenes"
	mcps      = "/api/v1/admin/mcps"
	knowledge = "/api/v1/admin/knowledge"
	manifest  = "/api/v1/agents/manifest"
)

type object = apitest.Object

// server is a catalog on a database of its own, with its routes.
type server struct {
	*apitest.Server
	*catalog.Service
	db        *db.DB
	providers *provider.Service
	cfg       catalog.Config
	ada       *apitest.Client // a maintainer of acme
	eve       *apitest.Client // an admin of another tenant
	bob       *apitest.Client // a member of acme
	url       string
}

// each runs a test on both engines. set changes the configuration, and may be nil.
func each(t *testing.T, set func(*catalog.Config), test func(*testing.T, *server)) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		test(t, open(t, url, set))
	}, series...)
}

var series = []db.Series{apitest.Audit(), provider.Migrations, catalog.Migrations}

func open(t testing.TB, url string, set func(*catalog.Config)) *server {
	t.Helper()
	d := dbtest.Open(t, url, series...)
	all := apitest.NewStore(t, d, store.Config{})
	var service *catalog.Service
	providers, err := provider.New(provider.Config{Store: all, CheckRoom: func(ctx context.Context, tx *sql.Tx, tenantID string) error {
		return service.CheckRoom(ctx, tx, tenantID)
	}})
	require.NoError(t, err)
	artifacts, err := artifact.New(artifact.Config{Driver: &blob.Memory{}, Keyring: all.Keyring, PublicURL: "https://hub.example.com", TempDir: t.TempDir()})
	require.NoError(t, err)
	cfg := catalog.Config{Store: all, Providers: providers, Artifacts: artifacts, CheckTool: checkTool, TempDir: t.TempDir()}
	if set != nil {
		set(&cfg)
	}
	service, err = catalog.New(cfg)
	require.NoError(t, err)
	s := &server{Server: apitest.Serve(t, apitest.Config{Audit: all.Audit}, slices.Concat(service.Routes(), providers.Routes())), Service: service, db: d, providers: providers, cfg: cfg, url: url}
	s.ada, s.bob, s.eve = s.As("acme", "ada", rbac.Maintainer), s.As("acme", "bob", rbac.Member), s.As("other", "eve", rbac.Admin)
	return s
}

// with returns the fields of an object, replaced by those that follow as names and values.
func with(o object, fields ...any) object {
	result := maps.Clone(o)
	for i := 0; i+1 < len(fields); i += 2 {
		result[fields[i].(string)] = fields[i+1]
	}
	return result
}

// demo returns the body of an agent on the demo provider.
func demo(name string, fields ...any) object {
	return with(object{"name": name, "providerId": provider.Demo, "model": "demo"}, fields...)
}

// faults requires 400 validation_failed with exactly these fields.
func faults(t *testing.T, r apitest.Response, fields ...string) {
	t.Helper()
	body := r.Error(http.StatusBadRequest, wire.ValidationFailed)
	var got []string
	for name := range body["data"].(object)["fields"].(object) {
		got = append(got, name)
	}
	require.ElementsMatch(t, fields, got, "%s", r.Text)
}
