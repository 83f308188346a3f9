package main_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSettingsTakeEffect(t *testing.T) {
	const token = "a setup token of some length"
	in := serving(t, []string{
		"HUB_DATA_DIR", t.TempDir(), "HUB_SETUP_TOKEN", token, "HUB_PUBLIC_URL", "https://hub.example.com/",
		"HUB_TRUSTED_PROXIES", "10.0.0.0/8, 127.0.0.1", "HUB_CORS_ORIGINS", "https://app.example.com",
	})
	require.NotContains(t, in.Stdout.String(), token, "who set it knows it")
	send := func(path, bearer, body string) response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, in.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header = http.Header{
			"Content-Type": {"application/json"}, "Authorization": {"Bearer " + bearer},
			"X-Forwarded-For": {"192.0.2.9, 203.0.113.7, 10.1.2.3"}, "Origin": {"https://app.example.com"},
		}
		return do(t, req)
	}
	res := send("/auth/setup", "", `{"password":"`+password+`","setup_token":"not that one"}`)
	require.Equal(t, http.StatusUnauthorized, res.status, res.text)
	res = send("/auth/setup", "", `{"password":"`+password+`","setup_token":"`+token+`"}`)
	require.Equal(t, http.StatusCreated, res.status, res.text)
	require.Equal(t, "https://app.example.com", res.header.Get("Access-Control-Allow-Origin"))
	admin := res.string(t, "access_token")
	invite := send("/api/v1/admin/invites", admin, `{"role":"member"}`)
	require.True(t, strings.HasPrefix(invite.string(t, "url"), "https://hub.example.com/console/"), invite.text)
	log := call(t, "GET", in.URL+"/api/v1/admin/audit-logs?action=invite.create", admin, "")
	require.Contains(t, log.text, `"remoteIp":"203.0.113.7"`, "what a stranger wrote before it does not count")
}

func TestDefaults(t *testing.T) {
	in := serving(t, []string{"HUB_DATA_DIR", t.TempDir()})
	admin := setUp(t, in)
	invite := call(t, "POST", in.URL+"/api/v1/admin/invites", admin, `{"role":"member"}`)
	require.True(t, strings.HasPrefix(invite.string(t, "url"), in.URL+"/"), invite.text)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, in.URL+"/auth/mode", nil)
	require.NoError(t, err)
	req.Header = http.Header{"Origin": {"https://app.example.com"}, "X-Forwarded-For": {"203.0.113.7"}}
	require.Empty(t, do(t, req).header.Get("Access-Control-Allow-Origin"))
	log := call(t, "GET", in.URL+"/api/v1/admin/audit-logs?action=invite.create", admin, "")
	require.Contains(t, log.text, `"remoteIp":"127.0.0.1"`)
	require.Contains(t, in.Stdout.String(), "listening on http://127.0.0.1:")
}

func TestHelpNamesEverySetting(t *testing.T) {
	out, err := once(t, nil, "--help")
	require.NoError(t, err)
	for _, name := range []string{
		"--addr", "HUB_ADDR", "HUB_DATA_DIR", "DATABASE_URL", "PROVIDER_ENCRYPTION_KEY", "AUTH_MODE", "HUB_PUBLIC_URL", "HUB_SETUP_TOKEN",
		"BLOB_URL", "OSS_CDN_HOST", "AWS_ACCESS_KEY_ID",
		"HUB_TRUSTED_PROXIES", "HUB_CORS_ORIGINS", "AUDIT_RETENTION_DAYS", "HUB_ANSWERS_PER_USER", "HUB_ANSWERS_PER_AGENT", "HUB_MODEL_PRICES", "HUB_USAGE_RETENTION_DAYS", "HUB_REQUESTS_PER_USER", "HUB_REQUESTS_PER_ADDRESS", "HUB_DRAIN_TIMEOUT", "HUB_PROBE_ALLOW_PRIVATE", "OPS_API_KEY", "CHAT_PUSH_API_KEY",
		"--metrics-addr", "HUB_METRICS_ADDR", "HUB_METRICS_HOSTS", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS",
		"OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_TRACES_EXPORTER", "OTEL_SDK_DISABLED", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG",
		"OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES",
		"GATEWAY_URL", "GATEWAY_KIND", "GATEWAY_PARENT", "GATEWAY_ADMIN_URL", "GATEWAY_ADMIN_KEY", "DEPLOYER", "DEPLOYER_LEASE_TIME", "DEPLOYER_PREPARE_TIMEOUT", "DEPLOYER_MEMORY_MAX", "DEPLOYER_CPU_MAX", "DEPLOYER_PROCESSES_MAX", "DEPLOYER_REPLICAS_MAX", "HUB_SANDBOX_READ", "HUB_SANDBOX_WRITE", "HUB_SANDBOX_USERS",
		"DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_SUBNETS", "DOCKER_IMAGE", "DOCKER_MEMORY", "DOCKER_CPUS", "DOCKER_PROCESSES", "DOCKER_HUB_CONTAINER",
		"KUBECONFIG", "KUBERNETES_NAMESPACE", "KUBERNETES_IMAGE", "KUBERNETES_REPLICAS", "KUBERNETES_MEMORY", "KUBERNETES_CPUS", "KUBERNETES_SCRATCH",
		"KUBERNETES_RUNTIME_CLASS", "KUBERNETES_STORAGE_SIZE", "KUBERNETES_STORAGE_CLASS", "KUBERNETES_INTERNAL_NETWORKS", "KUBERNETES_ADDRESS", "AGENT_BUS_URL", "AGENT_BUS_ACCOUNT_SEED",
		"127.0.0.1:8080", "reset-password", "rekey", "audit",
	} {
		require.Contains(t, out, name)
	}
	out, err = once(t, nil, "reset-password", "--help")
	require.NoError(t, err)
	require.Contains(t, out, "hub reset-password USER")
}

func TestFilesAreInTheDataDirectory(t *testing.T) {
	dir := t.TempDir()
	serving(t, []string{"HUB_DATA_DIR", dir})
	require.DirExists(t, filepath.Join(dir, "blobs"))
}

// No setting permits deployments to access the data of the hub, or a file with a secret.
func TestSandboxWithoutDataOfTheHub(t *testing.T) {
	secrets := t.TempDir()
	key := filepath.Join(secrets, "ops")
	require.NoError(t, os.WriteFile(key, []byte(strings.Repeat("k", 32)), 0o600))
	_, err := once(t, []string{"HUB_DATA_DIR", t.TempDir(), "OPS_API_KEY_FILE", key, "HUB_SANDBOX_READ", secrets}, "--addr", "127.0.0.1:0")
	require.ErrorContains(t, err, "HUB_SANDBOX_READ: "+secrets+" contains "+key)

	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(filepath.Dir(dir), link))
	for _, path := range []string{"/", dir, dir + "/", filepath.Dir(dir), link} {
		for _, name := range []string{"HUB_SANDBOX_READ", "HUB_SANDBOX_WRITE"} {
			_, err := once(t, []string{"HUB_DATA_DIR", dir, name, "/usr:" + path}, "--addr", "127.0.0.1:0")
			require.ErrorContains(t, err, name+": "+path+" contains "+dir)
		}
	}
}

func TestInvalidFileSettings(t *testing.T) {
	for value, want := range map[string]string{
		"ftp://x": "neither file://PATH nor s3://", "s3://bucket": "it has no region", "s3://bucket?region=r": "both AWS_ACCESS_KEY_ID and",
	} {
		_, err := once(t, []string{"HUB_DATA_DIR", t.TempDir(), "BLOB_URL", value, "AWS_ACCESS_KEY_ID", "id"}, "--addr", "127.0.0.1:0")
		require.ErrorContains(t, err, want)
	}
	_, err := once(t, []string{"HUB_DATA_DIR", t.TempDir(), "OSS_CDN_HOST", "ftp://x"}, "--addr", "127.0.0.1:0")
	require.ErrorContains(t, err, "OSS_CDN_HOST")
}
