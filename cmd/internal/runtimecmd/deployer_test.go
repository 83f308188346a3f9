package runtimecmd_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/cmd/internal/runtimecmd"
	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/runtime/client"
)

// execute runs the command until ctx ends, with a configuration file in dir.
func execute(ctx context.Context, t *testing.T, dir, config string, stdout, log *logtest.Buffer, args ...string) error {
	t.Helper()
	path := filepath.Join(dir, "agents.yaml")
	require.NoError(t, os.WriteFile(path, []byte(config), 0o600))
	cmd := runtimecmd.Command(runtimecmd.Drivers{}, daemontest.Getenv(nil), stdout, log)
	cmd.SetArgs(append([]string{"--addr", "127.0.0.1:0", "--config", path}, args...))
	return cmd.ExecuteContext(ctx)
}

const demo = "agents: [{id: a, model: demo, provider: {protocol: demo}}]\n"

// zipped returns an archive with one SKILL.md, and its hash.
func zipped(t *testing.T) ([]byte, string) {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.Create("SKILL.md")
	require.NoError(t, err)
	_, err = io.WriteString(f, "---\ndescription: Reviews a change.\n---\nReview.")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	sum := sha256.Sum256(b.Bytes())
	return b.Bytes(), "sha256:" + hex.EncodeToString(sum[:])
}

func TestSkillArchivesAreDownloadedOnce(t *testing.T) {
	data, hash := zipped(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) }))
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "work"), 0o700))
	config := "cwd: work\nstateDir: state\n" + strings.TrimSuffix(demo, "}]\n") +
		", settingSources: [], skillArchives: [{name: review, url: '" + server.URL + "/x.zip?signature=1', hash: '" + hash + "'}]}]\n"
	for range 2 { // the second time without a server
		in := daemontest.Serve(t, func(ctx context.Context, in *daemontest.Instance) error {
			return execute(ctx, t, dir, config, in.Stdout, in.Log)
		})
		c, err := client.New(client.Config{BaseURL: in.URL})
		require.NoError(t, err)
		detail, err := c.Agent(t.Context(), "a")
		require.NoError(t, err)
		require.Len(t, detail.AvailableSkills, 1)
		require.Equal(t, "review", detail.AvailableSkills[0].Name)
		require.Equal(t, "user", detail.AvailableSkills[0].Source)
		require.Equal(t, filepath.Join(dir, "state", "skills", strings.TrimPrefix(hash, "sha256:"), "review", "SKILL.md"), detail.AvailableSkills[0].Location)
		server.Close()
	}
	_, agents, _ := strings.Cut(config, "agents")
	var out logtest.Buffer
	require.Error(t, execute(t.Context(), t, t.TempDir(), "stateDir: state\nagents"+agents, &out, &logtest.Buffer{}, "--check"))
	require.Contains(t, out.String(), "a: unavailable: load skillArchives[0]: load skill review: get "+server.URL+"/x.zip: ")
	require.NotContains(t, out.String(), "signature")
}
