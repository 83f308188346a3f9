package kubernetes_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"os"
	"strings"
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

func claim(fence int64) deploy.Claim { return deploy.Claim{Key: key, Fence: fence, Owner: "database"} }

// decoded returns the objects of a request as decoded JSON, by their kind.
func decoded(t *testing.T, d *kubernetes.Driver) (byKind map[string]map[string]any, text []byte) {
	t.Helper()
	all, err := d.Objects(claim(7), 3, request(), time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC))
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
			cfg.StorageSize, cfg.StorageClass, cfg.RuntimeClass, cfg.Replicas, cfg.Memory = "2048Mi", "fast", "gvisor", 2, "1024Mi"
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

// Only the Secret has a part of the request that is secret.
func TestSecretsAreOnlyInTheSecret(t *testing.T) {
	t.Parallel()
	objects, _ := decoded(t, open(t, "https://192.0.2.1", func(cfg *kubernetes.Config) { cfg.Bus = bus() }))
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
	require.Contains(t, text("agents.yaml"), "\nbus: tls://user:planted-password@nats.example.com,192.0.2.7:4223,[2001:db8::7]/agents/agent-acme-helper-with-a-l-979a527c371e8b90")
	require.Contains(t, text("agents.yaml"), "?ca=%2Frun%2Fagenthost%2Fbus-ca&credentials=%2Frun%2Fagenthost%2Fbus-credentials\n")
	require.Equal(t, "planted-seed", text("bus-credentials"))
	require.Equal(t, "certificate", text("bus-ca"))
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
		"several Replicas need":  func(c *kubernetes.Config) { c.Replicas = 2 },
		`"much" is not a quanti`: func(c *kubernetes.Config) { c.Memory = "much" },
		`"-1" is not a quantity`: func(c *kubernetes.Config) { c.CPUs = "-1" },
		`"0" is not a quantity`:  func(c *kubernetes.Config) { c.StorageSize = "0" },
	} {
		cfg := valid
		change(&cfg)
		_, err := kubernetes.New(cfg)
		require.ErrorContains(t, err, want)
	}
	d := open(t, "https://192.0.2.1")
	req := request()
	req.Env["OTHER"] = "value"
	require.ErrorContains(t, d.Apply(t.Context(), claim(1), 1, req), `has no variable "OTHER"`)
	for _, bad := range []string{"", "../x", "A", strings.Repeat("a", 129)} {
		_, err := d.Observe(t.Context(), bad)
		require.ErrorContains(t, err, "is not valid")
	}
}
