package main_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/doctor"
	"github.com/seed93082962/agenthost/internal/secret"
)

// examine runs the doctor, and returns its results and whether it failed.
func examine(t *testing.T, env []string) (results []doctor.Result, failed bool) {
	t.Helper()
	out, err := once(t, env, "doctor", "-o", "json")
	require.NoError(t, json.Unmarshal([]byte(out), &results), "%s %v", out, err)
	require.Equal(t, doctor.Failed(results) > 0, err != nil, "%v", err)
	return results, err != nil
}

func TestDoctorOfAHubThatServes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		env := database(t, url)
		p := spawn(t, binary(t), env)
		setUp(t, p.Instance)
		env = append(env, "HUB_ADDR", strings.TrimPrefix(p.URL, "http://"), "HUB_PUBLIC_URL", p.URL)
		results, failed := examine(t, env)
		require.False(t, failed, "%v", results)
		facts := map[string]string{}
		for _, r := range results {
			facts[r.Check] += string(r.Status) + " " + r.Fact + "\n"
		}
		require.Contains(t, facts["settings"], "ok the settings are valid")
		require.Contains(t, facts["database"], "with all migrations of this version")
		require.Contains(t, facts["key"], "ok the key of all secrets is configured")
		require.Contains(t, facts["storage"], "ok all 0 files")
		require.Contains(t, facts["clock"], "ok ")
		require.Contains(t, facts["disk"], "MiB are free in ")
		require.Contains(t, facts["hub"], "ok a hub runs at 127.0.0.1:")
		require.Contains(t, facts["address"], "ok "+p.URL+" is a hub")
		require.Contains(t, facts, "deployer")
		require.NotContains(t, facts, "gateway", "there is none")

		out, err := once(t, env, "doctor")
		require.NoError(t, err)
		require.Contains(t, out, "ok       settings  the settings are valid\n")
	})
}

// stopped returns the environment of a hub that has run and stopped.
func stopped(t *testing.T) []string {
	t.Helper()
	env := []string{"HUB_DATA_DIR", t.TempDir()}
	t.Run("hub", func(t *testing.T) { setUp(t, serving(t, env)) })
	return append(env, "HUB_ADDR", "127.0.0.1:1")
}

// Each planted fault is found, with what to do.
func TestDoctorFindsFaults(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	agents := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"status":"ok","agents":1,"uptimeMs":5,"version":"v1"}`))
	}))
	defer agents.Close()
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var served sync.WaitGroup
	defer served.Wait()
	defer mute.Close()
	served.Go(func() {
		for conn, err := mute.Accept(); err == nil; conn, err = mute.Accept() {
			_ = conn.Close()
		}
	})
	env := stopped(t)
	key, err := os.ReadFile(filepath.Join(env[1], "encryption.key"))
	require.NoError(t, err)
	readable := file(t, "chatPushKey: "+strings.Repeat("k", 32))
	require.NoError(t, os.Chmod(readable, 0o644))
	// Each fault is planted in a copy of the data directory.
	for name, row := range map[string]struct {
		plant            func(t *testing.T, dir string) // nil if it is in the settings
		env              []string
		check, fact, fix string
	}{
		"no database":                {plant: remove("hub.db"), check: "database", fact: "the database does not exist", fix: "set HUB_DATA_DIR or DATABASE_URL"},
		"a file that is no database": {plant: write("hub.db", strings.Repeat("no database ", 1000), 0o600), check: "database", fact: "not a database", fix: "restore a backup"},
		"a damaged page": {plant: func(t *testing.T, dir string) {
			f, err := os.OpenFile(filepath.Join(dir, "hub.db"), os.O_RDWR, 0)
			require.NoError(t, err)
			info, err := f.Stat()
			require.NoError(t, err)
			_, err = f.WriteAt([]byte(strings.Repeat("\xff", 4096)), info.Size()/4096/2*4096)
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}, check: "database", fact: "the file is damaged: ", fix: "restore a backup"},
		"a damaged first page": {plant: func(t *testing.T, dir string) {
			f, err := os.OpenFile(filepath.Join(dir, "hub.db"), os.O_RDWR, 0)
			require.NoError(t, err)
			_, err = f.WriteAt([]byte(strings.Repeat("\xff", 30*4096)), 3*4096)
			require.NoError(t, errors.Join(err, f.Close()))
		}, check: "database", fact: "malformed", fix: "restore a backup"},
		"a directory in place of the database": {plant: func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, "hub.db")))
			require.NoError(t, os.Mkdir(filepath.Join(dir, "hub.db"), 0o700))
		}, check: "database", fact: "unable to open", fix: "the permissions of the file"},
		"a newer database": {plant: bump, check: "database", fact: "newer than this program", fix: "install a newer version of the hub"},
		"a server that does not respond": {
			env:   []string{"DATABASE_URL", "postgres://u@127.0.0.1:1/d", "PROVIDER_ENCRYPTION_KEY", string(key)},
			check: "database", fact: "unavailable", fix: "start the database",
		},
		"no key":      {plant: remove("encryption.key"), check: "key", fact: "the encryption key is missing", fix: "restore the key of this database"},
		"an open key": {plant: write("encryption.key", string(key), 0o644), check: "key", fact: "readable by other users", fix: "its mode"},
		"another key": {env: []string{"PROVIDER_ENCRYPTION_KEY", secret.Generate()}, check: "key", fact: "which is not configured", fix: "set PROVIDER_ENCRYPTION_KEY"},
		"an open database": {plant: func(t *testing.T, dir string) {
			require.NoError(t, os.Chmod(filepath.Join(dir, "hub.db"), 0o644))
		}, check: "modes", fact: "other users can access ", fix: "run chmod 600 "},
		"a bucket that does not respond": {
			env:   []string{"BLOB_URL", "s3://b/p?region=r&endpoint=http://127.0.0.1:1", "AWS_ACCESS_KEY_ID", "a", "AWS_SECRET_ACCESS_KEY", "b"},
			check: "storage", fact: "connection refused", fix: "check BLOB_URL",
		},
		"a directory that is a file": {env: []string{"BLOB_URL", "file:///etc/passwd"}, check: "storage", fact: "not a directory", fix: "check BLOB_URL"},
		"no Docker engine":           {env: []string{"DEPLOYER", "docker", "DOCKER_HOST", "unix:///does/not/exist"}, check: "deployer", fact: "docker", fix: "DEPLOYER=docker"},
		"no gateway": {
			env:   []string{"GATEWAY_KIND", "kong", "GATEWAY_URL", "http://127.0.0.1:1", "GATEWAY_ADMIN_URL", "http://127.0.0.1:1"},
			check: "gateway", fact: "refused", fix: "check GATEWAY_ADMIN_URL",
		},
		"a proxy that is not trusted": {env: []string{"HUB_PUBLIC_URL", "https://127.0.0.1:1"}, check: "address", fact: "no proxy is trusted", fix: "HUB_TRUSTED_PROXIES"},
		"a proxy that does not respond": {
			env: []string{"HUB_PUBLIC_URL", "https://127.0.0.1:1", "HUB_TRUSTED_PROXIES", "127.0.0.1"}, check: "address", fact: "does not respond", fix: "start the hub",
		},
		"a proxy to another server": {env: []string{"HUB_PUBLIC_URL", other.URL}, check: "address", fact: "is not a hub", fix: "let the proxy forward every path"},
		"another program":           {env: []string{"HUB_ADDR", other.Listener.Addr().String()}, check: "hub", fact: "another program listens at ", fix: "set HUB_ADDR"},
		"a runtime":                 {env: []string{"HUB_ADDR", agents.Listener.Addr().String()}, check: "hub", fact: "another program listens at ", fix: "set HUB_ADDR"},
		"a proxy to a runtime":      {env: []string{"HUB_PUBLIC_URL", agents.URL}, check: "address", fact: "is not a hub", fix: "let the proxy forward every path"},
		"a program without HTTP":    {env: []string{"HUB_ADDR", mute.Addr().String()}, check: "hub", fact: "does not respond as a hub", fix: "set HUB_ADDR"},
		"a secret for all":          {env: []string{"HUB_CONFIG", readable}, check: "modes", fact: "other users can access " + readable, fix: "run chmod 600 " + readable},
		"settings":                  {env: []string{"AUTH_MODE", "none", "AUDIT_RETENTION_DAYS", "x"}, check: "settings", fact: "AUDIT_RETENTION_DAYS", fix: "correct the settings of the hub"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(env[1])))
			require.NoError(t, os.Chmod(filepath.Join(dir, "encryption.key"), 0o600))
			require.NoError(t, os.Chmod(filepath.Join(dir, "hub.db"), 0o600))
			if row.plant != nil {
				row.plant(t, dir)
			}
			results, _ := examine(t, slices.Concat(row.env, []string{"HUB_DATA_DIR", dir, "HUB_ADDR", "127.0.0.1:1"}))
			require.True(t, slices.ContainsFunc(results, func(r doctor.Result) bool {
				return r.Check == row.check && r.Status != doctor.OK && strings.Contains(r.Fact, row.fact) && strings.Contains(r.Fix, row.fix)
			}), "%v", results)
		})
	}
}

func remove(name string) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, name))) }
}

func write(name, content string, mode fs.FileMode) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), mode))
		require.NoError(t, os.Chmod(filepath.Join(dir, name), mode))
	}
}

// The doctor creates and changes no file of the hub.
func TestDoctorChangesNothing(t *testing.T) {
	t.Parallel()
	files := func(dir string) map[string]string {
		all := map[string]string{}
		require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			require.NoError(t, err)
			info, err := entry.Info()
			require.NoError(t, err)
			if !entry.IsDir() {
				text, err := os.ReadFile(path)
				require.NoError(t, err)
				all[path] = fmt.Sprintf("%v %v %x", info.Mode(), info.ModTime(), sha256.Sum256(text))
			}
			return nil
		}))
		return all
	}
	env := stopped(t)
	before := files(env[1])
	_, failed := examine(t, env)
	require.False(t, failed)
	require.Equal(t, before, files(env[1]))

	fresh := filepath.Join(t.TempDir(), "fresh")
	results, failed := examine(t, []string{"HUB_DATA_DIR", fresh, "HUB_ADDR", "127.0.0.1:1"})
	require.True(t, failed)
	require.Equal(t, 1, doctor.Failed(results), "the first start creates the key: %v", results)
	require.NoFileExists(t, fresh)

	_, err := once(t, env, "doctor", "-o", "yaml")
	require.EqualError(t, err, `-o "yaml" is neither text nor json`)
}
