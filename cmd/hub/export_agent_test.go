package main_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/secret"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// An agent of the hub runs in the runtime from its exported file, with its custom tool.
func TestAnExportedAgentRunsInTheRuntime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hub := serving(t, []string{"DATABASE_URL", dbtest.SQLite(t), "HUB_DATA_DIR", t.TempDir(), "PROVIDER_ENCRYPTION_KEY", secret.Generate()})
	admin := setUp(t, hub)
	const source = "export default {name: 'double', description: 'd', inputSchema: {type: 'object'}, call(input) { return 'twice is ' + 2 * input.n }}"
	var form bytes.Buffer
	parts := multipart.NewWriter(&form)
	file, err := parts.CreateFormFile("file", "double.ts")
	require.NoError(t, err)
	_, err = file.Write([]byte(source))
	require.NoError(t, err)
	require.NoError(t, parts.Close())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hub.URL+"/api/v1/admin/tools", &form)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+admin)
	req.Header.Set("Content-Type", parts.FormDataContentType())
	uploaded := do(t, req)
	require.Equal(t, http.StatusCreated, uploaded.status, uploaded.text)
	const agents = "/api/v1/admin/agents"
	created := call(t, http.MethodPost, hub.URL+agents, admin, `{"name":"helper","providerId":"demo","model":"demo","tools":["Read","double"],"allowedTools":["double"]}`)
	require.Equal(t, http.StatusCreated, created.status, created.text)
	exported := call(t, http.MethodGet, hub.URL+agents+"/helper/export", admin, "")
	require.Equal(t, http.StatusOK, exported.status, exported.text)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "agents.yaml"), []byte(exported.text), 0o600))

	p := daemontest.Spawn(t, binary(t), dir, []string{"PATH", os.Getenv("PATH")}, "runtime", "--addr", "127.0.0.1:0")
	p.Started(t)
	c, err := client.New(client.Config{BaseURL: p.URL, HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
	require.NoError(t, err)
	answer, err := c.Complete(t.Context(), "helper", wire.RunRequest{Message: `/tool double {"n": 21}`})
	require.NoError(t, err)
	require.Contains(t, answer.Text, "twice is 42")
}
