package main_test

import (
	"fmt"
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

// A variable overrides the file, and a flag the variable. Commands of an operator read the file
// too.
func TestSettingsOfAFile(t *testing.T) {
	dir := t.TempDir()
	config := file(t, `
# A comment.
dataDir: &dir `+dir+`
addr: 203.0.113.1:1
publicUrl: https://file.example.com/
trustedProxies: [10.0.0.0/8, 127.0.0.1]
setupTokenFile: `+file(t, "a setup token of some length\n")+`
corsOrigins: https://app.example.com, https://other.example.com
`)
	in := serving(t, []string{"HUB_CONFIG", config, "HUB_CORS_ORIGINS", "https://variable.example.com"})
	for origin, want := range map[string]string{"https://variable.example.com": "https://variable.example.com", "https://app.example.com": ""} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, in.URL+"/auth/setup",
			strings.NewReader(`{"password":"`+password+`","setup_token":"a setup token of some length"}`))
		require.NoError(t, err)
		req.Header = http.Header{"Content-Type": {"application/json"}, "Origin": {origin}}
		require.Equal(t, want, do(t, req).header.Get("Access-Control-Allow-Origin"))
	}
	_, err := once(t, nil, "audit", "--config", config)
	require.NoError(t, err)
	_, err = once(t, []string{"HUB_CONFIG", config}, "audit")
	require.NoError(t, err)
	_, err = once(t, nil, "audit", "--config", file(t, "dataDir: /nonexistent/data"))
	require.ErrorContains(t, err, "no database exists")
}

// A file that is no file of settings is rejected with the line.
func TestFilesThatAreRejected(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      ":1: the file is empty",
		"# nothing":                             ":1: the file is empty",
		"addr: a\naddr: b":                      `:2: mapping key "addr" already defined at line 1`,
		"limits:\n  answersPerUser: 1\n bad: 2": ":2: ",
		"- addr":                                ":1: ",
		"addr: 127.0.0.1:0\n---\naddr: b":       ":1: the file has more than one document",
		"HUB_ADDR: 127.0.0.1:0":                 ":1: HUB_ADDR: unknown key",
		"deployer: process":                     ":1: deployer: unknown key",
		"docker: {host: {a: b}}":                ":1: docker.host: must be one value",
		"corsOrigins: [1]":                      ":1: corsOrigins: must be a list of texts",
		"a: &a [*a]":                            ":1: ",
	} {
		config := file(t, text)
		_, err := once(t, []string{"HUB_DATA_DIR", t.TempDir()}, "--check", "--config", config)
		require.ErrorContains(t, err, config+want)
	}
	_, err := once(t, []string{"HUB_CONFIG", "/nonexistent/hub.yaml"}, "--check")
	require.ErrorContains(t, err, "open /nonexistent/hub.yaml: no such file")
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
	require.Contains(t, out, "--addr, HUB_ADDR, addr\n      address to listen on (default 127.0.0.1:8080)\n")
	require.Contains(t, out, "\n  metrics.hosts\n      host names under which Prometheus calls it, ")
	require.Contains(t, out, "\n  OTEL_EXPORTER_OTLP_HEADERS\n")
	require.Contains(t, out, "reset-password")
	for line := range strings.Lines(out) {
		require.LessOrEqual(t, len(line), 130, line)
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
	_, err := once(t, []string{"HUB_DATA_DIR", t.TempDir(), "OPS_API_KEY_FILE", key, "HUB_CONFIG", file(t, "sandbox: {read: "+secrets+"}")}, "--addr", "127.0.0.1:0")
	require.ErrorContains(t, err, "hub.yaml:1: sandbox.read: "+secrets+" contains "+key)

	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(filepath.Dir(dir), link))
	for _, path := range []string{"/", dir, dir + "/", filepath.Dir(dir), link} {
		for _, name := range []string{"read", "write"} {
			config := file(t, fmt.Sprintf("sandbox:\n  %s: [/usr/lib, %q]", name, path))
			_, err := once(t, []string{"HUB_DATA_DIR", dir, "HUB_CONFIG", config}, "--addr", "127.0.0.1:0")
			require.ErrorContains(t, err, config+":2: sandbox."+name+": "+path+" contains "+dir)
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
