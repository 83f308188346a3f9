package client_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/secret"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
)

const (
	setupToken = "a setup token of some length"
	password   = "correct horse battery"
)

// openHub serves a hub whose deployments are runtimes in this process.
func openHub(dir string) (url string, stop func(), err error) {
	server := httptest.NewUnstartedServer(nil)
	h, err := hub.New(context.Background(), hub.Config{
		DatabaseURL: "sqlite://" + filepath.Join(dir, "hub.db"), EncryptionKeys: []string{secret.Generate()}, SetupToken: setupToken,
		PublicURL: "http://" + server.Listener.Addr().String(),
		Deployer: &deploytest.Memory{Serve: func(req deploy.Request) (http.Handler, error) {
			return runtime.New(context.Background(), runtime.Config{Agents: []agent.Agent{req.Config}, CWD: dir, APIKeys: []string{string(req.Env[deploy.EnvAPIKey])}})
		}},
	})
	if err != nil {
		server.Close()
		return "", nil, err
	}
	server.Config.Handler = h
	server.Start()
	return server.URL, func() {
		server.Close()
		_ = h.Close()
	}, nil
}

// started returns a client of a hub, signed in as its first admin.
func started(t *testing.T) (c *client.Client, url string) {
	t.Helper()
	t.Parallel()
	url, stop, err := openHub(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(stop)
	c = open(t, client.Config{BaseURL: url})
	_, err = c.Auth.Setup(t.Context(), wire.SetupRequest{Username: "ada", Password: password, SetupToken: setupToken})
	require.NoError(t, err)
	return c, url
}

func open(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	c, err := client.New(cfg)
	require.NoError(t, err)
	return c
}

// stub serves a handler until the test ends.
func stub(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	t.Parallel()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server.URL
}

func temporary() (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "hub-client-")
	if err != nil {
		panic(err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }
}
