package apisix_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/gateway/apisix"
	"github.com/seed93082962/agenthost/hub/gateway/gatewaytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func gateway(t *testing.T, s *gatewaytest.Server, key string) deploy.Gateway {
	t.Helper()
	g, err := apisix.New(apisix.Config{AdminURL: s.Admin + "/", AdminKey: key})
	require.NoError(t, err)
	t.Cleanup(g.CloseIdleConnections)
	return g
}

func TestSuite(t *testing.T) {
	t.Parallel()
	set := func(field string, value any) func(*gatewaytest.Server, string) {
		return func(s *gatewaytest.Server, name string) {
			s.Edit("routes", name, func(e gatewaytest.Object) { e[field] = value })
		}
	}
	within := func(object, field string, value any) func(*gatewaytest.Server, string) {
		return func(s *gatewaytest.Server, name string) {
			s.Edit("routes", name, func(e gatewaytest.Object) { e[object].(gatewaytest.Object)[field] = value })
		}
	}
	rewrite := func(field string, value any) func(*gatewaytest.Server, string) {
		return func(s *gatewaytest.Server, name string) {
			s.Edit("routes", name, func(e gatewaytest.Object) {
				e["plugins"].(gatewaytest.Object)["proxy-rewrite"].(gatewaytest.Object)[field] = value
			})
		}
	}
	nodes := []any{gatewaytest.Object{"host": "192.0.2.1", "port": 1.0, "weight": 1.0}}
	gatewaytest.Suite(t, func(t *testing.T) gatewaytest.Harness {
		server := gatewaytest.APISIX(t)
		return gatewaytest.Harness{
			Server:  server,
			Gateway: func(t *testing.T, key string) deploy.Gateway { return gateway(t, server, key) },
			Edits: map[string]func(*gatewaytest.Server, string){
				"another node":        within("upstream", "nodes", nodes),
				"two nodes":           within("upstream", "nodes", append(nodes, nodes...)),
				"nodes as an object":  within("upstream", "nodes", gatewaytest.Object{"192.0.2.1:1": 1.0}),
				"retries":             within("upstream", "retries", 2.0),
				"the host of another": within("upstream", "pass_host", "node"),
				"checks":              within("upstream", "checks", gatewaytest.Object{"active": gatewaytest.Object{"http_path": "/"}}),
				"a discovery":         within("upstream", "discovery_type", "dns"),
				"another hash":        within("upstream", "hash_on", "header"),
				"a disabled plugin":   rewrite("_meta", gatewaytest.Object{"disable": true}),
				"the original path":   rewrite("use_real_request_uri_unsafe", true),
				"another order":       rewrite("regex_uri", []any{"/$1", "^/acme/bot/?(.*)$"}),
				"a priority":          set("priority", 10.0),
				"another type":        set("timeout", "60s"),
				"a short timeout":     within("timeout", "read", 60.0),
				"the prefix remains":  set("plugins", gatewaytest.Object{}),
				"another plugin":      within("plugins", "fault-injection", gatewaytest.Object{"abort": gatewaytest.Object{"http_status": 503.0}}),
				"a wide path":         set("uris", []any{"/acme/bot*"}),
				"one path":            set("uris", []any{"/acme/bot"}),
				"one method":          set("methods", []any{"POST"}),
				"another host name":   set("host", "example.com"),
				"hosts":               set("hosts", []any{"example.com"}),
				"disabled":            set("status", 0.0),
				"an upstream":         set("upstream_id", "1"),
				"variables":           set("vars", []any{[]any{"arg_x", "==", "y"}}),
				"no route":            func(s *gatewaytest.Server, name string) { s.Drop("routes", name) },
			},
		}
	})
}

// A copy by hand has another id, and belongs to the operator.
func TestCopy(t *testing.T) {
	t.Parallel()
	server := gatewaytest.APISIX(t)
	g := gateway(t, server, gatewaytest.AdminKey)
	r := deploy.Route{Key: "acme-bot", Path: "/acme/bot", Target: "http://127.0.0.1:1", Timeout: time.Second}
	require.NoError(t, g.Put(t.Context(), "first", r))
	mine := server.Get("routes", "acme-bot")
	mine["id"] = "mine"
	server.Add("routes", "mine", mine)
	all, err := g.Routes(t.Context(), "first")
	require.NoError(t, err)
	require.Equal(t, map[string]deploy.Route{"acme-bot": r}, all)
	require.NoError(t, g.Remove(t.Context(), "first", "acme-bot"))
	require.Equal(t, []string{"mine"}, server.Names("routes"))
}

func BenchmarkRoutes(b *testing.B) {
	s := gatewaytest.APISIX(b)
	g, err := apisix.New(apisix.Config{AdminURL: s.Admin, AdminKey: gatewaytest.AdminKey})
	require.NoError(b, err)
	gatewaytest.Benchmark(b, s, g)
}

// Routes of other owners are large, and have fields of any type.
func TestForeignRoutes(t *testing.T) {
	t.Parallel()
	server := gatewaytest.APISIX(t)
	g := gateway(t, server, gatewaytest.AdminKey)
	r := deploy.Route{Key: "acme-bot", Path: "/acme/bot", Target: "http://127.0.0.1:1", Timeout: time.Second}
	require.NoError(t, g.Put(t.Context(), "first", r))
	for i := range 600 {
		name := fmt.Sprintf("a%d", i)
		server.Add("routes", name, gatewaytest.Object{"id": name, "filter_func": strings.Repeat("x", 17<<10)})
	}
	for name, value := range map[string]any{"labels": []any{"x"}, "uris": "/x", "timeout": 6.0, "upstream": "x", "id": 7.0} {
		e := gatewaytest.Object{"id": name, "uri": "/x"}
		e[name] = value
		server.Add("routes", "z"+name, e)
	}
	all, err := g.Routes(t.Context(), "first")
	require.NoError(t, err)
	require.Equal(t, map[string]deploy.Route{"acme-bot": r}, all)
}
