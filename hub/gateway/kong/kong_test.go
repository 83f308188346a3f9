package kong_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/gateway/gatewaytest"
	"github.com/seed93082962/agenthost/hub/gateway/kong"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func gateway(t *testing.T, s *gatewaytest.Server, key string) deploy.Gateway {
	t.Helper()
	g, err := kong.New(kong.Config{AdminURL: s.Admin + "/", AdminKey: key})
	require.NoError(t, err)
	t.Cleanup(g.CloseIdleConnections)
	return g
}

func TestSuite(t *testing.T) {
	t.Parallel()
	set := func(collection, field string, value any) func(*gatewaytest.Server, string) {
		return func(s *gatewaytest.Server, name string) {
			s.Edit(collection, name, func(e gatewaytest.Object) { e[field] = value })
		}
	}
	gatewaytest.Suite(t, func(t *testing.T) gatewaytest.Harness {
		server := gatewaytest.Kong(t)
		return gatewaytest.Harness{
			Server:  server,
			Gateway: func(t *testing.T, key string) deploy.Gateway { return gateway(t, server, key) },
			Edits: map[string]func(*gatewaytest.Server, string){
				"another port":        set("services", "port", 1.0),
				"another host":        set("services", "host", "192.0.2.1"),
				"a path":              set("services", "path", "/v2"),
				"retries":             set("services", "retries", 5.0),
				"a short timeout":     set("services", "read_timeout", 60000.0),
				"a disabled service":  set("services", "enabled", false),
				"the prefix remains":  set("routes", "strip_path", false),
				"buffered responses":  set("routes", "response_buffering", true),
				"buffered requests":   set("routes", "request_buffering", true),
				"a wide path":         set("routes", "paths", []any{"/acme/bot"}),
				"another path":        set("routes", "paths", []any{"/acme/robot/", "~/acme/robot$"}),
				"one method":          set("routes", "methods", []any{"POST"}),
				"a header":            set("routes", "headers", gatewaytest.Object{"x-a": []any{"b"}}),
				"another host name":   set("routes", "hosts", []any{"example.com"}),
				"a further tag":       set("routes", "tags", []any{"agenthost-first", "mine"}),
				"no route":            func(s *gatewaytest.Server, name string) { s.Drop("routes", name) },
				"no service":          func(s *gatewaytest.Server, name string) { s.Drop("services", name) },
				"neither":             func(s *gatewaytest.Server, name string) { s.Drop("routes", name); s.Drop("services", name) },
				"the host of another": set("routes", "preserve_host", false),
				"another status":      set("routes", "https_redirect_status_code", 301.0),
				"verified TLS":        set("services", "tls_verify", true),
				"a certificate":       set("services", "client_certificate", gatewaytest.Object{"id": "00000000-0000-4000-8000-00000000ffff"}),
				"sources":             set("routes", "sources", []any{gatewaytest.Object{"ip": "192.0.2.1"}}),
				"an unknown field":    set("routes", "expression", "true"),
				"another type":        set("services", "port", "80"),
			},
		}
	})
}

// A service that a route of an operator uses cannot be deleted. The route of the hub is gone, and
// the service follows when it is no longer used.
func TestServiceInUse(t *testing.T) {
	t.Parallel()
	server := gatewaytest.Kong(t)
	g := gateway(t, server, gatewaytest.AdminKey)
	r := deploy.Route{Key: "acme-bot", Path: "/acme/bot", Target: "http://127.0.0.1:1", Timeout: time.Second}
	require.NoError(t, g.Put(t.Context(), "first", r))
	mine := server.Get("routes", "acme-bot")
	mine["name"], mine["tags"], mine["id"] = "mine", nil, "00000000-0000-4000-8000-00000000ffff"
	server.Add("routes", "mine", mine)
	require.ErrorContains(t, g.Remove(t.Context(), "first", "acme-bot"), "another route, which the hub did not create, uses it")
	require.Equal(t, []string{"mine"}, server.Names("routes"))
	left, err := g.Routes(t.Context(), "first")
	require.NoError(t, err)
	require.Equal(t, map[string]deploy.Route{"acme-bot": {Key: "acme-bot"}}, left, "it is incomplete")
	server.Drop("routes", "mine")
	require.NoError(t, g.Remove(t.Context(), "first", "acme-bot"))
	require.Empty(t, server.Names("services"))
}

func TestInvalidURL(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "kong:8001", "ftp://kong", "http://me:hunter22@kong:8001", "http://kong?x=y"} {
		_, err := kong.New(kong.Config{AdminURL: url})
		require.ErrorContains(t, err, "not a base URL", url)
		require.NotContains(t, err.Error(), "hunter22")
	}
}

func BenchmarkRoutes(b *testing.B) {
	s := gatewaytest.Kong(b)
	g, err := kong.New(kong.Config{AdminURL: s.Admin, AdminKey: gatewaytest.AdminKey})
	require.NoError(b, err)
	gatewaytest.Benchmark(b, s, g)
}
