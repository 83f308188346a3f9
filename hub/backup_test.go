package hub_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/db/pgtest"
	"github.com/seed93082962/agenthost/internal/secret"
)

const usedTool = "export default {name: 'used', description: 'd', call() {}}"

// folder returns a new folder of artifacts.
func folder(t *testing.T) *blob.Folder {
	t.Helper()
	files, err := blob.OpenFolder(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, files.Close()) })
	return files
}

// A backup of a hub that serves has everything up to then, and nothing later.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		key := secret.Generate()
		driver := &deploytest.Memory{Serve: func(req deploy.Request) (http.Handler, error) { return runtimeWithFile(t, req) }}
		t.Cleanup(driver.Close)
		s := open(t, url, func(cfg *hub.Config) {
			cfg.Artifacts, cfg.EncryptionKeys, cfg.Deployer = folder(t), []string{key}, driver
		})
		admin := s.setUp()
		member := s.join(admin, "member", "ada")
		wait := waits + "/" + s.asks(admin, member)
		waiting := s.call("GET", wait, admin, "").want(http.StatusOK)
		used := s.upload(admin, "used.ts", usedTool).want(http.StatusCreated)
		s.call("POST", "/api/v1/admin/providers", admin, `{"name":"p","protocol":"openai","baseUrl":"https://llm.example.com","apiKey":"sk-planted-0123456789"}`).want(http.StatusCreated)
		path := filepath.Join(t.TempDir(), "hub.backup")
		m, err := s.Backup(t.Context(), dbtest.Programs(t), path, nil)
		require.NoError(t, err)
		require.Len(t, m.Keys, 1)
		require.Len(t, m.Artifacts, 1)
		require.Equal(t, "1.2.3", m.Hub)
		s.call("POST", "/api/v1/admin/providers", admin, `{"name":"later","protocol":"openai","baseUrl":"https://llm.example.com"}`).want(http.StatusCreated)
		s.close()
		archive, err := os.Open(path)
		require.NoError(t, err)
		defer archive.Close()

		cfg := hub.Config{DatabaseURL: filepath.Join(t.TempDir(), "hub.db"), EncryptionKeys: []string{key}, Artifacts: folder(t)}
		cfg.DatabaseURL = "sqlite://" + cfg.DatabaseURL
		if m.Engine == db.PostgreSQL {
			cfg.DatabaseURL = pgtest.URL(t)
		}
		_, err = hub.Restore(t.Context(), cfg, dbtest.Programs(t), archive)
		require.NoError(t, err)
		s = open(t, cfg.DatabaseURL, func(c *hub.Config) {
			c.Artifacts, c.EncryptionKeys, c.Deployer = cfg.Artifacts, cfg.EncryptionKeys, driver
		})
		require.Equal(t, "ada", s.call("GET", "/auth/userinfo", member, "").want(http.StatusOK)["username"])
		file := s.call("GET", "/artifacts/tools/"+strings.TrimPrefix(used["hash"].(string), "sha256:")+"/used.ts", "", "")
		require.Equal(t, usedTool, file.text)
		providers := s.call("GET", "/api/v1/admin/providers", admin, "").text
		require.Contains(t, providers, `"name":"p"`)
		require.NotContains(t, providers, "later")
		require.Equal(t, waiting, s.call("GET", wait, admin, "").want(http.StatusOK))
		require.Equal(t, "maintainer", waiting["approvers"])
		require.Equal(t, "running", s.call("POST", wait, admin, `{"decision":"approve"}`).want(http.StatusAccepted)["state"])
		require.Equal(t, true, s.call("GET", "/api/v1/admin/audit-logs/verify", admin, "").want(http.StatusOK)["ok"])
		n, err := s.Rekey(t.Context())
		require.NoError(t, err, "every secret can be opened")
		require.Zero(t, n)
	})
}

// gate is a writer whose first write waits.
type gate struct {
	io.Writer
	reached, open chan struct{}
	passed        bool
}

func (g *gate) Write(p []byte) (int, error) {
	if !g.passed {
		close(g.reached)
		<-g.open
		g.passed = true
	}
	return g.Writer.Write(p)
}

// A file that the backup has to read is not deleted in the meantime, although nothing else names it
// any more.
func TestSweepSparesTheFilesOfABackup(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		var hours atomic.Int64
		files := folder(t)
		s := open(t, url, func(cfg *hub.Config) {
			cfg.Artifacts = files
			cfg.Now = func() time.Time { return time.Now().Add(time.Duration(hours.Load()) * time.Hour) }
		})
		admin := s.setUp()
		s.upload(admin, "used.ts", usedTool).want(http.StatusCreated)
		hours.Store(25)
		admin = s.call("POST", "/auth/login", "", `{"username":"admin","password":"`+password+`"}`).want(http.StatusOK)["access_token"].(string)
		out, err := os.Create(filepath.Join(t.TempDir(), "hub.backup"))
		require.NoError(t, err)
		defer out.Close()
		w := &gate{Writer: out, reached: make(chan struct{}), open: make(chan struct{})}
		failed := make(chan error, 1)
		go func() {
			_, err := s.Backup(t.Context(), dbtest.Programs(t), "", w)
			failed <- err
		}()
		<-w.reached
		s.call("DELETE", "/api/v1/admin/tools/used", admin, "").want(http.StatusNoContent)
		hub.SweepArtifacts(s.Hub)
		close(w.open)
		require.NoError(t, <-failed)
		content, err := os.ReadFile(out.Name())
		require.NoError(t, err)
		require.Contains(t, string(content), usedTool)
		hours.Store(26)
		hub.SweepArtifacts(s.Hub)
		for info, err := range files.List(t.Context(), "") {
			require.Fail(t, "the protection has ended", "%v %v", info, err)
		}
	})
}
