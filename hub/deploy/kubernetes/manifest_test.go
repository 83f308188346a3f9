package kubernetes_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"k8s.io/client-go/rest"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/kubernetes"
	"github.com/seed93082962/agenthost/runtime/agent"
)

var update = flag.Bool("update", false, "write the golden files")

const key = "acme-helper-with-a-long-name"

func request() deploy.Request {
	return deploy.Request{
		Key: key, Tenant: "acme", AgentID: "helper-with-a-long-name",
		Config: agent.Agent{Model: "large", Provider: agent.Provider{Protocol: agent.ProtocolOpenAI, BaseURL: "https://llm.example.com", APIKey: "the-provider-key"}},
		Env:    map[string]agent.Secret{deploy.EnvAPIKey: "the-api-key"},
	}
}

// bus has a server of each kind of address.
func bus() *kubernetes.Bus {
	return &kubernetes.Bus{
		URL: "tls://user:planted-password@nats.example.com,192.0.2.7:4223,[2001:db8::7]/agents", Servers: []string{"nats.example.com:4222", "192.0.2.7:4223", "[2001:db8::7]:4222"},
		Files: map[string][]byte{"credentials": []byte("planted-seed"), "ca": []byte("certificate")},
	}
}

// open returns a driver for the API server at a host.
func open(t testing.TB, host string, change ...func(*kubernetes.Config)) *kubernetes.Driver {
	t.Helper()
	cfg := kubernetes.Config{REST: &rest.Config{Host: host}, Namespace: "agents", Image: "agenthost-runtime:1"}
	for _, f := range change {
		f(&cfg)
	}
	d, err := kubernetes.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

var ref = deploy.Ref{Key: key, UID: "first", Owner: "database"}

// decoded returns the objects of a request as decoded JSON, by their kind.
func decoded(t *testing.T, d *kubernetes.Driver) (byKind map[string]map[string]any, text []byte) {
	t.Helper()
	all, err := d.Objects(ref, 3, request(), time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC))
	require.NoError(t, err)
	byKind = map[string]map[string]any{}
	var out bytes.Buffer
	for _, o := range all {
		plain, err := json.Marshal(o)
		require.NoError(t, err)
		var fields map[string]any
		require.NoError(t, json.Unmarshal(plain, &fields))
		byKind[o.GetKind()] = fields
		document, err := yaml.Marshal(fields)
		require.NoError(t, err)
		out.WriteString("---\n")
		out.Write(document)
	}
	return byKind, out.Bytes()
}

func TestObjects(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*kubernetes.Config){
		"default": func(*kubernetes.Config) {},
		"volume": func(cfg *kubernetes.Config) {
			cfg.StorageSize, cfg.StorageClass, cfg.RuntimeClass, cfg.Default.Replicas, cfg.Default.Memory = "2048Mi", "fast", "gvisor", 2, "1024Mi"
			cfg.Internal = []netip.Prefix{netip.MustParsePrefix("203.0.113.7/24"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}
			cfg.Bus = bus()
		},
	} {
		d := open(t, "https://192.0.2.1", change)
		_, text := decoded(t, d)
		file := "testdata/" + name + ".yaml"
		if *update {
			require.NoError(t, os.WriteFile(file, text, 0o600))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(want), string(text), name)
	}
}

// Each deployment has credentials of its own for its scope of the bus.
func TestCredentialsOfTheBus(t *testing.T) {
	t.Parallel()
	objects, _ := decoded(t, open(t, "https://192.0.2.1", func(cfg *kubernetes.Config) {
		cfg.Bus = &kubernetes.Bus{URL: "nats://192.0.2.7/agents", Servers: []string{"192.0.2.7:4222"}, Credentials: func(scope string) ([]byte, error) { return []byte("of " + scope), nil }}
	}))
	data := objects["Secret"]["data"].(object)
	text, err := base64.StdEncoding.DecodeString(data["bus-credentials"].(string))
	require.NoError(t, err)
	require.Equal(t, "of agent-acme-helper-with-a-l-75a5bdaf932f5c89", string(text))
	text, err = base64.StdEncoding.DecodeString(data["agents.yaml"].(string))
	require.NoError(t, err)
	require.Contains(t, string(text), "/agents/agent-acme-helper-with-a-l-75a5bdaf932f5c89?credentials=%2Frun%2Fagenthost%2Fbus-credentials")
}

// Only the Secret has a part of the request that is secret.
func TestSecretsAreOnlyInTheSecret(t *testing.T) {
	t.Parallel()
	objects, manifests := decoded(t, open(t, "https://192.0.2.1", func(cfg *kubernetes.Config) {
		cfg.Bus = bus()
		cfg.Secrets = map[string]agent.Secret{"OTEL_EXPORTER_OTLP_HEADERS": "key=planted"}
	}))
	require.Contains(t, string(manifests), `{"name":"OTEL_EXPORTER_OTLP_HEADERS_FILE","value":"/run/agenthost/OTEL_EXPORTER_OTLP_HEADERS"}`)
	for kind, o := range objects {
		text, err := json.Marshal(o)
		require.NoError(t, err)
		for _, secret := range []string{"the-provider-key", "the-api-key", "llm.example.com", "planted"} {
			require.NotContains(t, string(text), secret, kind)
		}
	}
	data := objects["Secret"]["data"].(map[string]any)
	text := func(name string) string {
		plain, err := base64.StdEncoding.DecodeString(data[name].(string))
		require.NoError(t, err)
		return string(plain)
	}
	require.Contains(t, text("agents.yaml"), "the-provider-key")
	require.Contains(t, text("agents.yaml"), "\nbus: tls://user:planted-password@nats.example.com,192.0.2.7:4223,[2001:db8::7]/agents/agent-acme-helper-with-a-l-75a5bdaf932f5c89")
	require.Contains(t, text("agents.yaml"), "?ca=%2Frun%2Fagenthost%2Fbus-ca&credentials=%2Frun%2Fagenthost%2Fbus-credentials\n")
	require.Equal(t, "planted-seed", text("bus-credentials"))
	require.Equal(t, "certificate", text("bus-ca"))
	require.Equal(t, "key=planted", text("OTEL_EXPORTER_OTLP_HEADERS"))
}

// Runtimes reach the receiver of traces, and monitoring reaches their metrics. Without these
// settings, neither is the case.
func TestTracesAndMetrics(t *testing.T) {
	t.Parallel()
	rules := func(change func(*kubernetes.Config)) (ingress, egress []any, text string) {
		objects, manifests := decoded(t, open(t, "https://192.0.2.1", change))
		spec := objects["NetworkPolicy"]["spec"].(object)
		return spec["ingress"].([]any), spec["egress"].([]any), string(manifests)
	}
	ingress, egress, text := rules(func(*kubernetes.Config) {})
	require.NotContains(t, text, "9464")
	labelled := func(name string) []any {
		selector := object{"matchLabels": object{"agenthost.dev/" + name: "true"}}
		return []any{object{"podSelector": selector}, object{"namespaceSelector": selector}}
	}
	port := func(n float64) []any { return []any{object{"port": n, "protocol": "TCP"}} }
	moreIn, moreOut, text := rules(func(c *kubernetes.Config) { c.Collector, c.Metrics = "otel.monitoring.svc:4318", true })
	require.Equal(t, append(ingress, object{"from": labelled("monitoring"), "ports": port(9464)}), moreIn)
	require.Equal(t, append(egress, object{"to": labelled("collector"), "ports": port(4318)}), moreOut)
	require.Contains(t, text, `"--metrics-addr","0.0.0.0:9464"`)
	_, moreOut, _ = rules(func(c *kubernetes.Config) { c.Collector = "10.1.2.3:80" })
	require.Equal(t, append(egress, object{"to": []any{object{"ipBlock": object{"cidr": "10.1.2.3/32"}}}, "ports": port(80)}), moreOut)
}

// Networks of a setting never permit the metadata address of a cloud, or a private network.
func TestInternalNetworksAreAdded(t *testing.T) {
	t.Parallel()
	objects, _ := decoded(t, open(t, "https://192.0.2.1", func(cfg *kubernetes.Config) { cfg.Internal = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")} }))
	text, err := json.Marshal(objects["NetworkPolicy"]["spec"])
	require.NoError(t, err)
	for _, network := range []string{"10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fe80::/10", "198.51.100.0/24"} {
		require.Contains(t, string(text), `"`+network+`"`)
	}
}

// A request that a Secret has no room for is rejected before anything is written.
func TestRequestsWithoutRoomInASecret(t *testing.T) {
	t.Parallel()
	var writes atomic.Int64
	s := server(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet {
			writes.Add(1)
		}
		return false
	})
	req := request()
	req.Config.SystemPrompt = strings.Repeat("x", 1<<20-8<<10)
	require.ErrorContains(t, open(t, s.URL).Apply(t.Context(), ref, 1, req), "the configuration of the agent has 1017 KiB with its keys, and a Secret of Kubernetes at most 1008 KiB")
	require.Zero(t, writes.Load())
}

// A pod has a limit of files in each volume that ends with it, and of all of them.
func TestFilesAreLimited(t *testing.T) {
	t.Parallel()
	objects, _ := decoded(t, open(t, "https://192.0.2.1", func(cfg *kubernetes.Config) { cfg.Scratch = "512Mi" }))
	pod := objects["Deployment"]["spec"].(object)["template"].(object)["spec"].(object)
	for _, volume := range pod["volumes"].([]any) {
		if dir, ok := volume.(object)["emptyDir"]; ok {
			require.Equal(t, object{"sizeLimit": "512Mi"}, dir, volume)
		}
	}
	resources := pod["containers"].([]any)[0].(object)["resources"].(object)
	require.Equal(t, "512Mi", resources["limits"].(object)["ephemeral-storage"])
	require.NotEmpty(t, resources["requests"].(object)["ephemeral-storage"])
}

// The fields of the restricted pod security standard, and what the package README states.
func TestPodsAreRestricted(t *testing.T) {
	t.Parallel()
	objects, _ := decoded(t, open(t, "https://192.0.2.1"))
	at := func(path string) any {
		var value any = objects["Deployment"]
		for part := range strings.SplitSeq("spec.template.spec."+path, ".") {
			if list, ok := value.([]any); ok {
				require.Len(t, list, 1)
				value = list[0]
			}
			value = value.(map[string]any)[part]
		}
		return value
	}
	for path, want := range map[string]any{
		"securityContext.runAsNonRoot": true, "securityContext.runAsUser": 65532.0, "securityContext.runAsGroup": 65532.0,
		"securityContext.fsGroup": 65532.0, "securityContext.seccompProfile.type": "RuntimeDefault",
		"containers.securityContext.allowPrivilegeEscalation": false, "containers.securityContext.privileged": false,
		"containers.securityContext.readOnlyRootFilesystem": true, "containers.securityContext.runAsNonRoot": true,
		"containers.securityContext.capabilities": map[string]any{"drop": []any{"ALL"}},
		"automountServiceAccountToken":            false, "enableServiceLinks": false,
		"hostNetwork": nil, "hostPID": nil, "hostIPC": nil, "initContainers": nil, "serviceAccountName": nil,
	} {
		require.Equal(t, want, at(path), path)
	}
	for _, port := range at("containers.ports").([]any) {
		require.NotContains(t, port, "hostPort")
	}
	for _, volume := range at("volumes").([]any) {
		for kind := range volume.(map[string]any) {
			require.Contains(t, []string{"name", "secret", "emptyDir", "persistentVolumeClaim"}, kind)
		}
	}
}

func TestInvalidConfigurations(t *testing.T) {
	t.Parallel()
	valid := kubernetes.Config{REST: &rest.Config{Host: "https://192.0.2.1"}, Namespace: "agents", Image: "image"}
	for want, change := range map[string]func(*kubernetes.Config){
		"are required":           func(c *kubernetes.Config) { c.Image = "" },
		"several Replicas need":  func(c *kubernetes.Config) { c.Default.Replicas = 2 },
		"no memory such as 1Gi":  func(c *kubernetes.Config) { c.Default.Memory = "much" },
		"no cpu such as 500m":    func(c *kubernetes.Config) { c.Default.CPU = "-1" },
		`"0" is not a quantity`:  func(c *kubernetes.Config) { c.StorageSize = "0" },
		`"no" is not a quantity`: func(c *kubernetes.Config) { c.Scratch = "no" },
		`0.0.0.0/0 is not a net`: func(c *kubernetes.Config) { c.Internal = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")} },
	} {
		cfg := valid
		change(&cfg)
		_, err := kubernetes.New(cfg)
		require.ErrorContains(t, err, want)
	}
	d := open(t, "https://192.0.2.1")
	req := request()
	req.Env["OTHER"] = "value"
	require.ErrorContains(t, d.Apply(t.Context(), ref, 1, req), `has no variable "OTHER"`)
	for _, bad := range []string{"", "../x", "A", strings.Repeat("a", 129)} {
		_, err := d.Observe(t.Context(), deploy.Ref{Key: bad})
		require.ErrorContains(t, err, "is not valid")
	}
}

// The deployment settings of an agent replace those of the driver. A pod has quantities as the API
// server writes them: otherwise it would differ from what was applied.
func TestDeploymentSettingsOfAnAgent(t *testing.T) {
	t.Parallel()
	resources := func(d *kubernetes.Driver, wanted agent.Deployment) (replicas any, limits, requests object) {
		req := request()
		req.Deployment = wanted
		all, err := d.Objects(ref, 3, req, time.Now())
		require.NoError(t, err)
		spec := all[0].Object["spec"].(object)
		pod := spec["template"].(object)["spec"].(object)
		of := pod["containers"].([]any)[0].(object)["resources"].(object)
		return spec["replicas"], of["limits"].(object), of["requests"].(object)
	}
	d := open(t, "https://192.0.2.1", func(c *kubernetes.Config) { c.Bus = bus() })
	replicas, limits, requests := resources(d, agent.Deployment{})
	require.EqualValues(t, 1, replicas)
	require.Equal(t, object{"memory": "1Gi", "cpu": "1", "ephemeral-storage": "2Gi"}, limits)
	require.Equal(t, object{"memory": "1Gi", "cpu": "100m", "ephemeral-storage": "214748364"}, requests)
	replicas, limits, requests = resources(d, agent.Deployment{Memory: "2048Mi", CPU: "2000m", Replicas: 3})
	require.EqualValues(t, 3, replicas)
	require.Equal(t, object{"memory": "2Gi", "cpu": "2", "ephemeral-storage": "2Gi"}, limits)
	require.Equal(t, object{"memory": "2Gi", "cpu": "200m", "ephemeral-storage": "214748364"}, requests)
	_, limits, requests = resources(d, agent.Deployment{CPU: "10m"})
	require.Equal(t, "10m", limits["cpu"])
	require.Equal(t, "1m", requests["cpu"])

	require.NoError(t, d.CheckDeployment(agent.Deployment{Memory: "64Mi", CPU: "100m", Replicas: 100}))
	require.ErrorContains(t, d.CheckDeployment(agent.Deployment{Processes: 64}), "podPidsLimit")
	alone := open(t, "https://192.0.2.1")
	require.NoError(t, alone.CheckDeployment(agent.Deployment{Replicas: 1}))
	req := request()
	req.Deployment.Replicas = 2
	require.ErrorContains(t, alone.Apply(t.Context(), ref, 1, req), "deployment.replicas is 2, and several replicas require AGENT_BUS_URL")
}
