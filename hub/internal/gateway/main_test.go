package gateway_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/gateway"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

const apiKey = "key-of-the-deployment"

// serve serves the routes in front of a runtime, which is agent a of tenant acme.
func serve(t *testing.T, upstream http.Handler, change ...func(*gateway.Config)) (*apitest.Server, *sqlaudit.Store) {
	t.Helper()
	server := httptest.NewServer(upstream)
	t.Cleanup(server.Close)
	transport := server.Client().Transport.(*http.Transport)
	d := dbtest.Open(t, dbtest.SQLite(t, apitest.Audit()), apitest.Audit())
	audit := apitest.NewAudit(t, d)
	cfg := gateway.Config{
		Enabled: func(_ context.Context, _ api.Caller, name string) (bool, error) { return name != "disabled", nil },
		Store:   apitest.NewStore(t, d, store.Config{Audit: audit}), Tenant: "acme", Transport: transport,
		Target: func(_ context.Context, tenant, name string) (gateway.Target, error) {
			switch tenant + "/" + name {
			case "acme/a", "acme/disabled":
				return gateway.Target{URL: server.URL, AgentID: "a", APIKey: apiKey}, nil
			case "acme/stopped":
				return gateway.Target{}, code.AgentNotDeployed
			case "acme/lost":
				return gateway.Target{URL: "http://127.0.0.1:1", AgentID: "lost"}, nil
			}
			return gateway.Target{}, wire.NotFound
		},
	}
	cfg.Authorize = func(ctx context.Context, tenant, name, key string) (gateway.Target, error) {
		target, err := cfg.Target(ctx, tenant, name)
		if err != nil || key != apiKey {
			return gateway.Target{}, wire.Unauthenticated
		}
		return target, nil
	}
	for _, f := range change {
		f(&cfg)
	}
	service, err := gateway.New(cfg)
	require.NoError(t, err)
	return apitest.Serve(t, apitest.Config{Audit: audit}, service.Routes()), audit
}

// host is a real runtime with a demo agent, or the given ones, and a working directory with one
// file.
func host(t *testing.T, agents ...agent.Agent) http.Handler {
	t.Helper()
	if len(agents) == 0 {
		agents = []agent.Agent{{ID: "a", Model: "demo", Provider: agent.Provider{Protocol: agent.ProtocolDemo}}}
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("0123456789"), 0o600))
	rt, err := runtime.New(t.Context(), runtime.Config{
		CWD: dir, APIKeys: []string{apiKey},
		Agents: agents,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	return rt
}
